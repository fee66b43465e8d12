/*
 * The parts of a model's answer, independent of the marks that the model used: text, reasoning,
 * tool calls.
 *
 * The parsers of answers (reasoning_splitter.h, tool_call_parser.h, reply_parser.h) emit a sequence
 * of events; each API's writer turns them into its own format. However the text is cut into pieces,
 * the events' bytes join to the same sequence: joined CONTENT and REASONING are equal, and so are
 * number, order, ids, names and joined arguments of the calls.
 */
#ifndef SHOAL_FRONTEND_REPLY_REPLY_EVENT_H
#define SHOAL_FRONTEND_REPLY_REPLY_EVENT_H

#include <stddef.h>
#include <stdint.h>

enum reply_event_kind {
    REPLY_CONTENT = 1,
    REPLY_REASONING,
    REPLY_CALL_BEGIN,     /* `bytes` is the complete name of the function */
    REPLY_CALL_ARGUMENTS, /* a piece of a JSON object; between BEGIN and END they join to valid JSON
                           */
    REPLY_CALL_END
};

struct reply_event {
    enum reply_event_kind kind;
    uint32_t call;     /* of calls: 0, 1, … in order; a call ends before the next begins */
    const char *id;    /* CALL_BEGIN: the id that the model wrote, else NULL */
    const char *bytes; /* whole UTF-8 characters; valid during the call only */
    size_t length;     /* in bytes; 0 only for CALL_END */
};

/* Receives events. */
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
