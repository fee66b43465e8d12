/*
 * The harmony format of gpt-oss: an answer is a sequence of messages, each with a channel. Turns
 * streamed text into reasoning, content and tool calls (reply_event.h).
 *
 *     <|channel|>analysis<|message|>…<|end|>                          reasoning
 *     <|start|>assistant<|channel|>commentary to=functions.f
 *         <|constrain|>json<|message|>{…}<|call|>                     a call of f
 *     <|start|>assistant<|channel|>final<|message|>…<|return|>        content
 *
 * The answer begins after the prompt's `<|start|>assistant`. Rules: a message with a recipient is a
 * call of it (`functions.` is left out of the name); else `analysis` is reasoning, every other
 * channel content. Two messages of the same kind are joined by a line break. A malformed header (no
 * <|message|> within its bound) is content as it stands, and so is text before the first header.
 * Calls obey the rules of tool_call_parser.h.
 */
#ifndef SHOAL_FRONTEND_REPLY_HARMONY_PARSER_H
#define SHOAL_FRONTEND_REPLY_HARMONY_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/reply/reply_event.h"

struct harmony_parser;

/* Every mark of the format: each is one token, special in published vocabularies. */
enum { HARMONY_MARK_COUNT = 7 };
extern const char *const harmony_marks[HARMONY_MARK_COUNT];

/* `with_calls` false: no tools were offered, a call's body is content. NULL: out of memory. */
struct harmony_parser *harmony_parser_create(bool with_calls, struct reply_event_sink sink);
void harmony_parser_destroy(struct harmony_parser *parser);

/* The joined input is valid UTF-8; a piece may end within a character. Marks come as text. */
void harmony_parser_push(struct harmony_parser *parser, const char *bytes, size_t length);
/* End of the answer; called once. `truncated` as in tool_call_parser.h. */
void harmony_parser_finish(struct harmony_parser *parser, bool truncated);

/* The kind of text in which the input so far ends; for counting tokens. */
enum harmony_place {
    HARMONY_MARKS, /* in a header, in the marks around it, between messages */
    HARMONY_REASONING,
    HARMONY_CONTENT, /* text before the first header too */
    HARMONY_CALL
};
enum harmony_place harmony_parser_place(const struct harmony_parser *parser);

uint32_t harmony_parser_count(const struct harmony_parser *parser);
bool harmony_parser_failed(const struct harmony_parser *parser);

#endif
