/*
 * `logit_bias` as OpenAI, vLLM and llama.cpp have it: {"id": bias}, {"text": bias}, and a list of
 * [id or text, bias]; and `suppress_tokens`, a list of ids. A text gives each of its tokens the bias;
 * false as a bias bars a token. Biases of one token add up.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_BIAS_FIELDS_H
#define SHOAL_FRONTEND_API_GENERATION_BIAS_FIELDS_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/base/api_error.h"

struct cJSON;
struct tokenizer;

enum result bias_fields_read(const struct cJSON *body, const struct tokenizer *tokenizer,
                             struct generation_request *request,
                             struct api_error *error) RESULT_CHECKED;

#endif
