/*
 * The fields of DRY, XTC, mirostat and dynamic temperature, with llama.cpp's names and defaults:
 * dynatemp_range, dynatemp_exponent, xtc_probability, xtc_threshold, mirostat (0 or 2),
 * mirostat_tau, mirostat_eta, dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n,
 * dry_sequence_breakers.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_SAMPLER_FIELDS_H
#define SHOAL_FRONTEND_API_GENERATION_SAMPLER_FIELDS_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/base/api_error.h"

struct tokenizer;

/* Reads them after request_fields_read_sampling(). Sets request->dry_breakers if DRY is on. */
enum result sampler_fields_read(const struct cJSON *body, const struct tokenizer *tokenizer,
                                struct generation_request *request,
                                struct api_error *error) RESULT_CHECKED;

#endif
