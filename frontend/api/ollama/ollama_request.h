/*
 * The bodies of Ollama's POST /api/chat and POST /api/generate, as the request that all APIs share.
 */
#ifndef SHOAL_FRONTEND_API_OLLAMA_OLLAMA_REQUEST_H
#define SHOAL_FRONTEND_API_OLLAMA_OLLAMA_REQUEST_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"

/* What the replies need besides; the state of a request (generation_request.own). */
struct ollama_state {
    bool generates; /* /api/generate */
    bool only_load; /* without messages or a prompt: the answer says that the model is loaded */
};

/* On failure *request is empty. */
enum result ollama_request_parse_chat(const struct parse_context *context, const char *json,
                                      size_t json_bytes, struct generation_request *request,
                                      struct api_error *error) RESULT_CHECKED;
enum result ollama_request_parse_generate(const struct parse_context *context, const char *json,
                                          size_t json_bytes, struct generation_request *request,
                                          struct api_error *error) RESULT_CHECKED;

#endif
