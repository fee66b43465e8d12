/*
 * Decides before an answer starts whether it starts inside reasoning and which tokens a worker must
 * force (forced_tokens.h).
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_FORCED_PREPARE_H
#define SHOAL_FRONTEND_API_GENERATION_FORCED_PREPARE_H

#include "frontend/api/generation/prepared_generation.h"
#include "frontend/assets/model_assets.h"
#include "frontend/base/api_error.h"
#include "frontend/prompt/chat_template.h"

/*
 * Fills prepared->reasoning_open and prepared->forced from the rendered prompt and the request. An
 * error names the parameter that cannot be obeyed. A thinking budget is ignored for a model without
 * a reasoning format.
 */
enum result forced_prepare(const struct model_assets *assets, const struct chat_prompt *prompt,
                           struct prepared_generation *prepared,
                           struct api_error *error) RESULT_CHECKED;

#endif
