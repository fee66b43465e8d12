/*
 * Ollama's POST /api/chat and POST /api/generate: one JSON object a line while streaming.
 */
#ifndef SHOAL_FRONTEND_API_OLLAMA_OLLAMA_FORMAT_H
#define SHOAL_FRONTEND_API_OLLAMA_OLLAMA_FORMAT_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format ollama_chat_format;
extern const struct api_format ollama_generate_format;

#endif
