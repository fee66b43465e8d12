/*
 * Fields of Ollama's /api/chat and /api/generate that both have, rewritten into those of chat
 * completions: `options`, `format`, `think`, `stream`. Removes `keep_alive`.
 */
#ifndef SHOAL_FRONTEND_API_OLLAMA_OLLAMA_FIELDS_H
#define SHOAL_FRONTEND_API_OLLAMA_OLLAMA_FIELDS_H

#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"

struct cJSON;

/* Changes the body in place. Sampling defaults are Ollama's unless the checkpoint has its own. */
enum result ollama_fields_rewrite(const struct parse_context *context, struct cJSON *body,
                                  struct api_error *error) RESULT_CHECKED;
/* Cuts ":latest" from the name of the model. */
void ollama_fields_strip_tag(struct cJSON *body);

#endif
