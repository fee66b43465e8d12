/*
 * Prompts that are continued without a chat template: texts, token ids, or lists of both. Nothing in
 * a text becomes a special token, unless the API says so (generation_request.prompts_special).
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_RAW_PROMPTS_H
#define SHOAL_FRONTEND_API_GENERATION_RAW_PROMPTS_H

#include "frontend/api/generation/parse_context.h"
#include "frontend/api/generation/prepared_generation.h"
#include "frontend/base/api_error.h"

/* Encodes request->prompts into prepared->prompt and more_prompts. A text gets the tokenizer's
 * beginning-of-text token if the checkpoint wants one; ids are taken as they are. On failure the
 * caller frees with prepared_generation_fini(). */
enum result raw_prompts_encode(const struct parse_context *context,
                               struct prepared_generation *prepared,
                               struct api_error *error) RESULT_CHECKED;

#endif
