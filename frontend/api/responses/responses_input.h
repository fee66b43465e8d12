/*
 * What a request of the Responses API says: `instructions`, the conversation that
 * `previous_response_id` names, and `input`, as messages in the shape of OpenAI's chat API.
 *
 * The order is instructions (a system message), then of every response in the chain from the first
 * on its input and its output, then this request's input. Instructions of earlier responses are not
 * carried over. Reasoning, text and calls that stand behind each other become one assistant
 * message; reasoning is its `reasoning_content`. A call that an earlier answer broke off is left
 * out.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_INPUT_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_INPUT_H

#include "frontend/api/generation/request_images.h"
#include "frontend/api/responses/response_store.h"

struct cJSON;

struct responses_input {
    struct response_store *store; /* NULL: nothing can be referred to */
    struct client_key client_key;
    struct response_record *previous; /* out: what is continued, or NULL; a reference */
    struct response_items items;      /* out: this request's own */
};

/* Adds `messages` to `body` (a member of that name is replaced; chat_messages_normalize_made() is
 * still to come) and their pictures to `images`. On failure *input is empty. */
enum result responses_input_read(struct cJSON *body, struct responses_input *input,
                                 struct request_images *images,
                                 struct api_error *error) RESULT_CHECKED;
void responses_input_fini(struct responses_input *input);

#endif
