/*
 * One answer on its way from tokens to what a reply says of it: text without stop strings, then
 * what the text consists of (reply_event.h), and how many tokens each part took. Every API's writer
 * of replies has one for each choice, and so all of them cut, split and count alike.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_ANSWER_H
#define SHOAL_FRONTEND_API_GENERATION_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/api/generation/api_format.h"
#include "frontend/reply/reply_event.h"

struct answer;

/* Why it ended, as all APIs tell it apart. */
enum answer_end {
    ANSWER_NOT_ENDED = 0,
    ANSWER_STOP,        /* the model ended its turn */
    ANSWER_STOP_STRING, /* answer_stop_string() says which */
    ANSWER_LENGTH,
    ANSWER_TOOL_CALLS /* its turn ended with a call */
};

struct answer_usage {
    uint32_t prompt_tokens;
    struct cached_prompt cached; /* of these */
    uint32_t completion_tokens;  /* all that were generated but for the marks around reasoning */
    uint32_t reasoning_tokens;   /* of these */
};

/* `config` as the reply got it; what is needed of the request's body is copied. `choice`: which of
 * the reply's. */
struct answer *answer_create(const struct reply_config *config, uint32_t choice,
                             const struct reply_event_sink *sink);
void answer_destroy(struct answer *answer);

/* The sink hears what became certain with this token. Returns true when a stop string was
 * completed: the text is final. */
bool answer_push(struct answer *answer, const struct reply_token *token);
/* No more tokens come; the sink hears the rest. */
enum answer_end answer_finish(struct answer *answer, enum finish_reason finish,
                              struct cached_prompt cached);

const struct answer_usage *answer_usage(const struct answer *answer);
/* The stop string that ended it, or NULL. */
const char *answer_stop_string(const struct answer *answer);

#endif
