/*
 * POST /completions, without /v1: OpenAI's completions, or llama.cpp's native ones.
 */
#ifndef SHOAL_FRONTEND_API_LLAMA_LLAMA_LEGACY_H
#define SHOAL_FRONTEND_API_LLAMA_LLAMA_LEGACY_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format llama_legacy_format;

#endif
