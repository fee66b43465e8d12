/*
 * From a request body to what a worker needs: parse, render the chat template, tokenize, check
 * against the context, and read, decode and resize images. It may be slow (a million tokens, an
 * image from another host), so it runs on a preparation thread, never on the event loop.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_GENERATION_PREPARE_H
#define SHOAL_FRONTEND_API_GENERATION_GENERATION_PREPARE_H

#include "frontend/api/generation/api_format.h"
#include "frontend/api/generation/prepared_generation.h"
#include "frontend/prompt/chat_template.h"

/* On failure *prepared is empty and *error is complete, unless context->lane was changed. For a
 * format that writes no replies only the prompt counts: images are counted and not decoded, and the
 * prompt may be longer than the context. */
enum result generation_prepare(const struct api_format *format, const struct parse_context *context,
                               const char *body, size_t body_bytes, int64_t now_unix_s,
                               struct prepared_generation *prepared,
                               struct api_error *error) RESULT_CHECKED;
/* Renders the messages with the chat template. *prompt is the caller's in any case. A template that
 * exceeds a bound of proto/limits.h is a 400 `template_too_expensive`. */
enum result generation_prepare_render(const struct parse_context *context,
                                      const struct generation_request *request, int64_t now_unix_s,
                                      struct chat_prompt *prompt,
                                      struct api_error *error) RESULT_CHECKED;
/* Maximum number of tokens of a prompt and its answer. */
uint32_t generation_prepare_max_tokens(const struct model_assets *assets);

#endif
