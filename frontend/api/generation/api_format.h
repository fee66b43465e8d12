/*
 * One API of the several that this server speaks: how a body becomes a request, and how the answer
 * to it is written. The route (frontend/serve/routes/generation_route.h) knows sockets, the engine
 * and time; a format knows JSON and text; neither knows the other's part.
 *
 * A reply is written by appending bytes to a buffer that the caller sends: events while a stream
 * goes on, or nothing until the end and then one body.
 *
 *   create -> begin -> { progress, token … } for each choice, in any order -> choice_end for each
 *          -> end, or at any time after begin: fail or cancel -> destroy
 *
 * A background request (generation_request.background) has its reply's beginning for an answer; the
 * rest is written all the same, and read by nobody.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_API_FORMAT_H
#define SHOAL_FRONTEND_API_GENERATION_API_FORMAT_H

#include "frontend/api/generation/generation_request.h"
#include "frontend/api/generation/parse_context.h"
#include "frontend/api/generation/reply_token.h"
#include "frontend/base/api_error.h"
#include "frontend/base/text_buffer.h"
#include "proto/result.h"

struct prepared_generation;

/* Everything a reply knows at its beginning. */
struct reply_config {
    const struct model_assets *assets;          /* outlives the reply */
    const struct prepared_generation *prepared; /* likewise, but for its request's body */
    const char *id;                             /* copied */
    const char *request_id;                     /* the exchange's; copied when needed */
    int64_t created_unix_s;
    void *format_context;
    struct client_key client_key;
};

/* Each format defines its own. */
struct api_reply;

struct api_format {
    const char *id_prefix; /* of an answer's id: "chatcmpl-" */
    const char *silence;   /* what a stream says while there is nothing to say; NULL: a comment */
    /* On failure *request is empty. */
    enum result (*parse)(const struct parse_context *context, const char *json, size_t json_bytes,
                         struct generation_request *request, struct api_error *error);

    struct api_reply *(*reply_create)(const struct reply_config *config);
    void (*reply_destroy)(struct api_reply *reply);
    /* Streaming: what comes before the first token. In the background and not streaming: the whole
     * body. Else nothing. */
    void (*reply_begin)(struct api_reply *reply, struct text_buffer *out);
    /* NULL: of no interest. */
    void (*reply_progress)(struct api_reply *reply, uint32_t choice,
                           const struct reply_progress *progress, struct text_buffer *out);
    /* Returns true when a stop string ended the choice: the caller cancels the worker's part and
     * calls reply_choice_end(…, FINISH_STOP_TOKEN). */
    bool (*reply_token)(struct api_reply *reply, uint32_t choice, const struct reply_token *token,
                        struct text_buffer *out);
    void (*reply_choice_end)(struct api_reply *reply, uint32_t choice, enum finish_reason finish,
                             struct cached_prompt cached, struct text_buffer *out);
    /* After the last choice: a stream's last events, or the whole body (in the background:
     * nothing). */
    void (*reply_end)(struct api_reply *reply, struct text_buffer *out);
    /* Streaming or in the background: the error as an event, and what ends the stream, so that no
     * client waits for ever. Never called otherwise: the error is the route's to shape then (struct
     * http_route). */
    void (*reply_fail)(struct api_reply *reply, const struct api_error *error,
                       struct text_buffer *out);
    /* Another request asked for its end: a stream's last events, or the whole body. NULL: no
     * request can (generation_route_cancel()). */
    void (*reply_cancel)(struct api_reply *reply, struct text_buffer *out);
};

#endif
