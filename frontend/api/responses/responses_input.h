/*
 * The conversation of a Responses request: `instructions`, the chain that `previous_response_id`
 * names, and `input`, as messages in the shape of OpenAI's chat API.
 *
 * The order is instructions (a system message), then input and output of every response of the
 * chain from the first on, then this request's input. Instructions of earlier responses are not
 * carried over. Consecutive reasoning, text and calls become one assistant message; reasoning is
 * its `reasoning_content`. A call that was cut off in an earlier answer is left out.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_INPUT_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_INPUT_H

#include "frontend/api/generation/request_images.h"
#include "frontend/api/responses/response_store.h"

struct cJSON;

struct responses_input {
    struct response_store *store; /* NULL: items cannot be referenced */
    struct client_key client_key;
    struct response_record *resumed;  /* NULL, or the request's own record: it knows `previous` */
    struct response_record *previous; /* out: the continued record, or NULL; a reference */
    struct response_items items;      /* out: this request's own */
};

/* Adds `messages` to `body` (replacing a member of that name; chat_messages_normalize_made() must
 * follow) and their images to `images`. On failure *input is empty. */
enum result responses_input_read(struct cJSON *body, struct responses_input *input,
                                 struct request_images *images,
                                 struct api_error *error) RESULT_CHECKED;
void responses_input_fini(struct responses_input *input);

#endif
