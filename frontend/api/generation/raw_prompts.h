/*
 * Prompts that are continued as they are, without a chat template: texts, in which nothing becomes
 * a special token, or token ids.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_RAW_PROMPTS_H
#define SHOAL_FRONTEND_API_GENERATION_RAW_PROMPTS_H

#include "frontend/api/generation/prepared_generation.h"
#include "frontend/assets/model_assets.h"
#include "frontend/base/api_error.h"

/* request->prompts into prepared->prompt and more_prompts. A text gets the tokenizer's own
 * beginning-of-text token where the checkpoint wants one; ids stay as they are. On failure what was
 * made is the caller's to free with prepared_generation_fini(). */
enum result raw_prompts_encode(const struct model_assets *assets,
                               struct prepared_generation *prepared,
                               struct api_error *error) RESULT_CHECKED;

#endif
