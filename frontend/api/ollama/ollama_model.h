/*
 * The served model as Ollama's API describes models.
 */
#ifndef SHOAL_FRONTEND_API_OLLAMA_OLLAMA_MODEL_H
#define SHOAL_FRONTEND_API_OLLAMA_OLLAMA_MODEL_H

#include "frontend/api/generation/inspection.h"

/* Appends the members name to capabilities of an entry of /api/tags or /api/ps, without braces. */
void ollama_model_write(const struct model_assets *assets, const char *name,
                        struct text_buffer *out);
/* An inspection: POST /api/show. */
enum result ollama_model_show(const struct parse_context *context, const char *json,
                              size_t json_bytes, int64_t now_unix_s, struct text_buffer *reply,
                              struct api_error *error);

#endif
