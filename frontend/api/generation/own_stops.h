/*
 * The end of an answer by tokens or strings that the request names, as vLLM's API has it:
 * `stop_token_ids`, `include_stop_str_in_output`, and `stop_reason` in the reply.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_OWN_STOPS_H
#define SHOAL_FRONTEND_API_GENERATION_OWN_STOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/api/generation/reply_token.h"
#include "frontend/base/text_buffer.h"
#include "proto/limits.h"

struct generation_request;
struct model_assets;

/* The ids that end an answer: the model's and the request's. If the request ignores the end of the
 * model's turn, only its own; `ignored`: there is none. */
struct stop_ids {
    uint32_t ids[LIMIT_STOP_TOKENS];
    uint32_t count;
    bool ignored;
};
void stop_ids_collect(const struct generation_request *request, const struct model_assets *assets,
                      struct stop_ids *stops);

/* The stops of an answer, copied from its request. */
struct own_stops {
    uint32_t ids[LIMIT_REQUEST_STOP_TOKENS];
    uint32_t count;
    bool include; /* the text of a stop token or string is part of the answer */
    bool found;
    uint32_t token; /* that ended the answer, if found */
};
void own_stops_init(struct own_stops *stops, const struct generation_request *request);
/* Notes a token. True if it has text in the answer: it is no stop token, or one of the request's
 * that is included. */
bool own_stops_note(struct own_stops *stops, const struct reply_token *token);
/* Writes `,"stop_reason":` and the string, the token's id, or null. `string`: the stop string that
 * ended the answer, or NULL. */
void own_stops_write(const struct own_stops *stops, const char *string, struct text_buffer *out);

#endif
