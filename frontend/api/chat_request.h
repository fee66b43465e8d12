/*
 * The body of POST /v1/chat/completions, checked: types, ranges, roles, bounds. Unknown fields are
 * ignored as the official API's clients expect of compatible servers; known fields whose feature
 * this build lacks are refused, never silently dropped.
 */
#ifndef SHOAL_FRONTEND_API_CHAT_REQUEST_H
#define SHOAL_FRONTEND_API_CHAT_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/api/api_error.h"
#include "frontend/reply/reply_text.h"
#include "frontend/serve/model_assets.h"
#include "proto/submit_record.h"

struct cJSON;

struct chat_request {
    struct cJSON *body;     /* owned; strings below point into it */
    struct cJSON *messages; /* normalized: content is a string or absent; inside body */
    bool stream;
    bool include_usage;
    uint32_t max_new_tokens; /* 0 = not given */
    struct sampling_params sampling;
    struct stop_string stops[LIMIT_STOP_STRINGS];
    size_t stop_count;
    struct logit_bias_entry *logit_bias; /* owned */
    uint32_t logit_bias_count;
};

/* Parses and checks `json`. Unset sampling fields come from the checkpoint, then OpenAI's defaults;
 * an unset seed from `random_seed`. */
enum result chat_request_parse(const char *json, size_t json_bytes,
                               const struct model_assets *assets, uint64_t random_seed,
                               struct chat_request *request,
                               struct api_error *error) RESULT_CHECKED;
void chat_request_fini(struct chat_request *request);
/* Frees the body (messages and stop strings go with it) and keeps the rest: all that a request
 * needs once its prompt is tokens and its reply has begun. */
void chat_request_drop_body(struct chat_request *request);

#endif
