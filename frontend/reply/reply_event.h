/*
 * What a model's answer consists of, whatever marks it used for it: text, reasoning, tool calls.
 *
 * Parsers of answers (reasoning_splitter.h, tool_call_parser.h, reply_parser.h) say it as a
 * sequence of events; an API's writer turns each into the shape of its own. However the same text
 * is cut into pieces, the events' bytes join to the same sequence: joined CONTENT and REASONING are
 * equal, and so are number, order, ids, names and joined arguments of the calls.
 */
#ifndef SHOAL_FRONTEND_REPLY_REPLY_EVENT_H
#define SHOAL_FRONTEND_REPLY_REPLY_EVENT_H

#include <stddef.h>
#include <stdint.h>

enum reply_event_kind {
    REPLY_CONTENT = 1,
    REPLY_REASONING,
    REPLY_CALL_BEGIN,     /* `bytes` is the function's name, whole */
    REPLY_CALL_ARGUMENTS, /* a piece of a JSON object; between BEGIN and END they join to valid JSON
                           */
    REPLY_CALL_END
};

struct reply_event {
    enum reply_event_kind kind;
    uint32_t call;     /* of calls: 0, 1, … in order; one ends before the next begins */
    const char *id;    /* CALL_BEGIN: the id that the model itself gave, else NULL */
    const char *bytes; /* whole UTF-8 characters; valid during the call only */
    size_t length;     /* in bytes; 0 for CALL_END alone */
};

/* Whoever hears of events. */
struct reply_event_sink {
    void *context;
    void (*event)(void *context, const struct reply_event *event);
};

/*
 * The tokens of an answer by kind. A token whose every byte belongs to tags (opening, closing,
 * frames) counts as `tags`; for any other, its first byte outside tags decides. White space that is
 * trimmed inside a reasoning section counts as `reasoning`, outside it as `rest`. A token without
 * text counts for the place where it came. Everything of tool calls is `rest`. In a harmony answer
 * the headers of messages that are no calls are `tags`.
 *
 * completion_tokens is `reasoning + rest`, reasoning_tokens is `reasoning`. All three are final
 * after the parser's finish(); before it the tokens of a tag that has only begun are in none.
 */
struct reply_token_counts {
    uint32_t reasoning;
    uint32_t tags;
    uint32_t rest;
};

#endif
