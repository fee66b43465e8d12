/*
 * The settings of a request in llama.cpp's shape: `generation_settings` of an answer, and the
 * defaults that /props and /slots show.
 */
#ifndef SHOAL_FRONTEND_API_LLAMA_LLAMA_SETTINGS_H
#define SHOAL_FRONTEND_API_LLAMA_LLAMA_SETTINGS_H

#include "frontend/api/llama/llama_request.h"
#include "frontend/assets/model_assets.h"
#include "frontend/base/text_buffer.h"

/* Appends an object. */
void llama_settings_write(const struct generation_request *request, const struct llama_state *state,
                          struct text_buffer *out);
/* Settings of a request with no field but a prompt. `seed`: --seed; UINT64_MAX, written as -1: random. */
void llama_settings_write_defaults(const struct model_assets *assets, uint64_t seed,
                                   struct text_buffer *out);

#endif
