/*
 * Errors in the shape of Ollama's API: {"error": "words"}.
 */
#ifndef SHOAL_FRONTEND_API_OLLAMA_OLLAMA_ERROR_H
#define SHOAL_FRONTEND_API_OLLAMA_OLLAMA_ERROR_H

#include "frontend/base/api_error.h"

/* An api_error_writer. */
int ollama_error_write(const struct api_error *error, const char *request_id,
                       struct text_buffer *out);

#endif
