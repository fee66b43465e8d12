/*
 * Like generation_prepare(), for a prompt that is continued as it is: no chat template, no special
 * tokens from its text.
 */
#ifndef SHOAL_FRONTEND_SERVE_RAW_PREPARE_H
#define SHOAL_FRONTEND_SERVE_RAW_PREPARE_H

#include "frontend/api/generation_prepare.h"

/* `body` carries the sampling fields of a chat request (and a message that is not used). */
enum result raw_prepare(const struct model_assets *assets, const char *body, size_t body_bytes,
                        const char *prompt, uint64_t random_seed,
                        struct prepared_generation *prepared,
                        struct api_error *error) RESULT_CHECKED;

#endif
