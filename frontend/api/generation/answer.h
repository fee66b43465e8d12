/*
 * One answer, from tokens to the parts of a reply: text without stop strings, then its parts
 * (reply_event.h), and token counts. The reply writer of every API has one for each choice, so that
 * all of them stop, split and count in the same way.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_ANSWER_H
#define SHOAL_FRONTEND_API_GENERATION_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/api/generation/api_format.h"
#include "frontend/reply/reply_event.h"

struct answer;

/* Why an answer ended. */
enum answer_end {
    ANSWER_NOT_ENDED = 0,
    ANSWER_STOP,        /* the model ended its turn */
    ANSWER_STOP_STRING, /* see answer_stop_string() */
    ANSWER_LENGTH,
    ANSWER_TOOL_CALLS /* its turn ended with a call */
};

struct answer_usage {
    uint32_t prompt_tokens;
    struct cached_prompt cached; /* of these */
    uint32_t completion_tokens;  /* all generated tokens except the marks around reasoning */
    uint32_t reasoning_tokens;   /* of these */
};

/* `choice`: index of the choice within the reply. What is needed of the request's body is copied.
 */
struct answer *answer_create(const struct reply_config *config, uint32_t choice,
                             const struct reply_event_sink *sink);
void answer_destroy(struct answer *answer);

/* Passes to the sink what this token makes final. Returns true when a stop string is complete: the
 * text is final. */
bool answer_push(struct answer *answer, const struct reply_token *token);
/* Ends the answer; the sink gets the rest. */
enum answer_end answer_finish(struct answer *answer, enum finish_reason finish,
                              struct cached_prompt cached);

const struct answer_usage *answer_usage(const struct answer *answer);
/* Writes `,"stop_reason":…` (own_stops.h). */
void answer_write_stop_reason(const struct answer *answer, struct text_buffer *out);
/* The stop string that ended it; NULL: none. */
const char *answer_stop_string(const struct answer *answer);

#endif
