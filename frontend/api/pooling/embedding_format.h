/*
 * Replies of the embeddings routes.
 */
#ifndef SHOAL_FRONTEND_API_POOLING_EMBEDDING_FORMAT_H
#define SHOAL_FRONTEND_API_POOLING_EMBEDDING_FORMAT_H

#include "frontend/api/generation/api_format.h"

extern const struct api_format embedding_format;            /* OpenAI's */
extern const struct api_format embedding_llama_format;      /* llama.cpp's */
extern const struct api_format embedding_ollama_format;     /* Ollama's /api/embed */
extern const struct api_format embedding_ollama_old_format; /* Ollama's /api/embeddings */

#endif
