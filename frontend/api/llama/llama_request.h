/*
 * The body of llama.cpp's native POST /completion and POST /infill, as the request that all APIs
 * share.
 */
#ifndef SHOAL_FRONTEND_API_LLAMA_LLAMA_REQUEST_H
#define SHOAL_FRONTEND_API_LLAMA_LLAMA_REQUEST_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/base/api_error.h"

/* What only this API's replies need; the state of a request (generation_request.own). */
struct llama_state {
    int64_t n_predict;    /* as asked; -1: no limit */
    uint32_t n_probs;     /* alternatives of each token to list */
    uint32_t n_indent;    /* the answer ends at a line that is indented less */
    int64_t predict_ms;   /* the answer ends at a line end after this time; 0: no limit */
    bool return_tokens;   /* list the ids of the answer */
    bool after_sampling;  /* probabilities of the greedy draw instead of the distribution's */
    bool per_token_times; /* timings in every event */
    struct cJSON *fields; /* owned; names of the members to reply with; NULL: all */
    struct cJSON *stops;  /* owned; the stop strings as given; NULL: none */
};

/* On failure *request is empty. */
enum result llama_request_parse(const struct parse_context *context, const char *json,
                                size_t json_bytes, struct generation_request *request,
                                struct api_error *error) RESULT_CHECKED;
enum result llama_request_parse_infill(const struct parse_context *context, const char *json,
                                       size_t json_bytes, struct generation_request *request,
                                       struct api_error *error) RESULT_CHECKED;

#endif
