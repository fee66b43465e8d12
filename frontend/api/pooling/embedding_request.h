/*
 * The bodies of the embeddings routes: OpenAI's POST /v1/embeddings, llama.cpp's POST /embedding and
 * /embeddings, Ollama's POST /api/embed and /api/embeddings. Each input becomes a prompt whose answer
 * is its vector.
 */
#ifndef SHOAL_FRONTEND_API_POOLING_EMBEDDING_REQUEST_H
#define SHOAL_FRONTEND_API_POOLING_EMBEDDING_REQUEST_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/api/pooling/vector_text.h"
#include "frontend/base/api_error.h"

/* What the replies need besides; the state of a request (generation_request.own). */
struct embedding_state {
    struct vector_form form;
    bool empty; /* Ollama's: no input, so one without meaning is computed and not shown */
};

/* On failure *request is empty. */
enum result embedding_request_parse_openai(const struct parse_context *context, const char *json,
                                           size_t json_bytes, struct generation_request *request,
                                           struct api_error *error) RESULT_CHECKED;
enum result embedding_request_parse_llama(const struct parse_context *context, const char *json,
                                          size_t json_bytes, struct generation_request *request,
                                          struct api_error *error) RESULT_CHECKED;
enum result embedding_request_parse_ollama(const struct parse_context *context, const char *json,
                                           size_t json_bytes, struct generation_request *request,
                                           struct api_error *error) RESULT_CHECKED;
enum result embedding_request_parse_ollama_old(const struct parse_context *context,
                                               const char *json, size_t json_bytes,
                                               struct generation_request *request,
                                               struct api_error *error) RESULT_CHECKED;

#endif
