/*
 * llama.cpp's native completions: POST /completion and POST /infill.
 */
#ifndef SHOAL_FRONTEND_API_LLAMA_LLAMA_FORMAT_H
#define SHOAL_FRONTEND_API_LLAMA_LLAMA_FORMAT_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format llama_completion_format;
extern const struct api_format llama_infill_format;

#endif
