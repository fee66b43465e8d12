/*
 * From a request body to what a worker needs: parse, render the chat template, tokenize, check
 * against the context, and read, decode and resize pictures. Possibly slow (a million tokens, a
 * picture from another host): it runs on a preparation thread, never on the event loop.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_GENERATION_PREPARE_H
#define SHOAL_FRONTEND_API_GENERATION_GENERATION_PREPARE_H

#include "frontend/api/generation/api_format.h"
#include "frontend/api/generation/prepared_generation.h"
#include "frontend/prompt/chat_template.h"

/* On failure *prepared is empty and *error is complete (but not if context->lane was
 * changed). A format that writes no replies only wants to know of the prompt: pictures are counted
 * then, and not decoded, and it need not fit into the context. */
enum result generation_prepare(const struct api_format *format, const struct parse_context *context,
                               const char *body, size_t body_bytes, int64_t now_unix_s,
                               struct prepared_generation *prepared,
                               struct api_error *error) RESULT_CHECKED;
/* What the chat template makes of the messages. *prompt is the caller's in any case. */
enum result generation_prepare_render(const struct model_assets *assets,
                                      const struct generation_request *request, int64_t now_unix_s,
                                      struct chat_prompt *prompt,
                                      struct api_error *error) RESULT_CHECKED;
/* Tokens that a prompt and its answer may have together. */
uint32_t generation_prepare_max_tokens(const struct model_assets *assets);
/* RESULT_CONTEXT_EXCEEDED, a 400, when a prompt and what was asked for pass the operator's bound on
 * a sequence (--max-kv-size). */
enum result generation_prepare_bound(const struct model_assets *assets,
                                     const struct prepared_generation *prepared,
                                     struct api_error *error) RESULT_CHECKED;

#endif
