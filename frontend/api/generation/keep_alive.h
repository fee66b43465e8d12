/*
 * Ollama's `keep_alive`: how long the model stays loaded after the request. A number is seconds; a text
 * is a duration of Go ("5m", "1h30m", "300ms", "-1s") or a whole number of seconds. Less than 0: without end.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_KEEP_ALIVE_H
#define SHOAL_FRONTEND_API_GENERATION_KEEP_ALIVE_H

#include <stdint.h>

#include "frontend/base/api_error.h"

struct cJSON;

#define KEEP_ALIVE_FOREVER ((int64_t)-1)
#define KEEP_ALIVE_MOST_MS ((int64_t)10 * 366 * 24 * 3600 * 1000) /* longer ones are cut */

/* *given: the field is there and not null; then *keep_ms is 0 to KEEP_ALIVE_MOST_MS, or
 * KEEP_ALIVE_FOREVER. RESULT_INVALID: a 400. */
enum result keep_alive_read(const struct cJSON *body, bool *given, int64_t *keep_ms,
                            struct api_error *error) RESULT_CHECKED;

#endif
