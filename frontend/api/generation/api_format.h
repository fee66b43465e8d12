/*
 * One of the server's APIs: how a body becomes a request, and how the reply is written. The route
 * (frontend/serve/routes/generation_route.h) handles sockets, the engine and time; a format handles
 * JSON and text.
 *
 * A reply is written by appending bytes to a buffer that the caller sends: events during a stream,
 * or one body at the end.
 *
 *   create -> begin -> { progress, token … } for each choice, in any order -> choice_end for each
 *          -> end, or at any time after begin: fail or cancel -> destroy
 *
 * The reply_begin of a background request (generation_request.background) writes its whole answer
 * to the client; the format keeps the rest.
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

/* What a reply knows at its start. */
struct reply_config {
    const struct model_assets *assets;          /* outlives the reply */
    const struct prepared_generation *prepared; /* likewise, except its request's body */
    const char *id;                             /* copied */
    const char *request_id;                     /* the exchange's; copied when needed */
    int64_t created_unix_s;
    bool resumed; /* an answer that an earlier process began */
    void *format_context;
    struct client_key client_key;
};

/* The name of the model in the reply: the adapter's if the request names one. */
const char *reply_config_model(const struct reply_config *config);

/* What is known of a request that has no reply. */
struct reply_refusal {
    const char *id;         /* of the answer that it would have had */
    const char *request_id; /* the exchange's */
    const char *model_id;
    int64_t created_unix_s;
    const struct api_error *error;
};

/* Defined by each format. */
struct api_reply;

struct api_format {
    const char *id_prefix;    /* of an answer's id: "chatcmpl-" */
    const char *prompt_field; /* the field that has the prompt; NULL: "messages" */
    const char *stream_type;  /* content type of a stream; NULL: server-sent events */
    const char *silence;      /* sent by a stream during silence; NULL: a comment */
    /* On failure *request is empty. */
    enum result (*parse)(const struct parse_context *context, const char *json, size_t json_bytes,
                         struct generation_request *request, struct api_error *error);

    /* Makes the prompt and all else that a worker needs, in place of messages and prompts; NULL: these. Only the model
     * that the format is for has one (model_assets.speech). */
    enum result (*prepare)(const struct parse_context *context,
                           struct prepared_generation *prepared, struct api_error *error);

    /* Called at the end of a successful preparation, on its thread: keeps what the answer is made
     * from, so that another process can make it. NULL: nothing is kept. */
    void (*keep)(const struct parse_context *context, const char *json, size_t json_bytes,
                 int64_t now_unix_s, const struct generation_request *request);

    struct api_reply *(*reply_create)(const struct reply_config *config);
    void (*reply_destroy)(struct api_reply *reply);
    /* Streaming: what comes before the first token. In the background and not streaming: the whole
     * body. Otherwise nothing. */
    void (*reply_begin)(struct api_reply *reply, struct text_buffer *out);
    /* NULL: ignored. */
    void (*reply_progress)(struct api_reply *reply, uint32_t choice,
                           const struct reply_progress *progress, struct text_buffer *out);
    /* The log-probability of the next prompt token, from the second one on, if the request
     * scores_prompt; all come before the choice's first token. NULL: ignored. */
    void (*reply_prompt_token)(struct api_reply *reply, uint32_t choice,
                               const struct reply_token *token);
    /* Returns true when a stop string ended the choice: the caller then cancels the worker's part
     * and calls reply_choice_end(…, FINISH_STOP_TOKEN). */
    bool (*reply_token)(struct api_reply *reply, uint32_t choice, const struct reply_token *token,
                        struct text_buffer *out);
    /* After the last token of the only choice: whether the answer goes on with another request to a worker, *made,
     * which is the caller's; or *result and *error say why that cannot be made. NULL: it is over. */
    bool (*reply_next)(struct api_reply *reply, struct prepared_generation *made,
                       struct text_buffer *out, enum result *result, struct api_error *error);
    void (*reply_choice_end)(struct api_reply *reply, uint32_t choice, enum finish_reason finish,
                             struct cached_prompt cached, struct text_buffer *out);
    /* After the last choice: a stream's last events, or the whole body (in the background:
     * nothing). */
    void (*reply_end)(struct api_reply *reply, struct text_buffer *out);
    /* Streaming or in the background: the error as an event, and the end of the stream, so that no
     * client waits for ever. Not called in other cases: the route then writes the error (struct
     * http_route). NULL: no answer of this format is streamed. */
    void (*reply_fail)(struct api_reply *reply, const struct api_error *error,
                       struct text_buffer *out);
    /* Streaming: the whole stream of a request whose error has `in_stream`, instead of create …
     * destroy. NULL: the route writes the error. */
    void (*reply_refuse)(const struct reply_refusal *refusal, struct text_buffer *out);
    /* Streaming: the error as the last events of a stream that had to begin before its request was
     * parsed, because its model was being loaded, and that has sent no event. NULL: such a stream
     * does not begin before. */
    void (*reply_fail_early)(const struct reply_refusal *refusal, struct text_buffer *out);
    /* The content type of a whole body; NULL: JSON. */
    const char *(*reply_type)(const struct api_reply *reply);
    /* Another request asked to cancel this one: a stream's last events, or the whole body. NULL:
     * cannot be cancelled (generation_route_cancel()). */
    void (*reply_cancel)(struct api_reply *reply, struct text_buffer *out);
};

#endif
