/*
 * Turns the text of one answer into events (reply_event.h): reasoning is split off
 * (reasoning_splitter.h), tool calls are parsed from the rest (tool_call_parser.h), and stop
 * strings end the answer. If reasoning and calls share one syntax, harmony_parser.h does both.
 *
 * The caller pushes the text of one generated token at a time, as reply_text_push() returns it
 * (often empty), so that tokens can be counted by kind. Events do not depend on how tokens are cut.
 *
 * Stop strings are searched in CONTENT only, in the text as the client sees it: never in reasoning,
 * tags or calls, and never across one of these. OpenAI's API documents ("the returned text will not
 * contain the stop sequence") concern that text, and a stop such as "\n\n" must not end an answer
 * while the model still thinks.
 */
#ifndef SHOAL_FRONTEND_REPLY_REPLY_PARSER_H
#define SHOAL_FRONTEND_REPLY_REPLY_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/reply/reasoning_format.h"
#include "frontend/reply/reply_event.h"
#include "frontend/reply/stop_matcher.h"
#include "frontend/reply/tool_format.h"

struct cJSON;
struct reply_parser;

struct reply_parser_config {
    const struct reasoning_format *reasoning; /* NULL: none is split off. Copied, with its texts */
    bool reasoning_open; /* reasoning_format_is_open() of the prompt; not for harmony */
    const struct tool_format
        *tools; /* NULL: calls are content; for requests without tools or with tool_choice none */
    const struct cJSON
        *offered_tools; /* the tools (see tool_call_parser.h); must outlive the parser */
    const struct stop_string *stops; /* copied */
    size_t stop_count;               /* at most LIMIT_STOP_STRINGS */
    bool include_stop;               /* the stop string that is found is content */
    struct reply_event_sink sink;
};

struct reply_parser *reply_parser_create(const struct reply_parser_config *config);
void reply_parser_destroy(struct reply_parser *parser); /* NULL is allowed */

/* `bytes` is the text of one token, whole characters. Returns true once a stop string is complete:
 * no event follows, further pushes only count tokens. */
bool reply_parser_push(struct reply_parser *parser, const char *bytes, size_t length);
/* Text without a token: the remainder from reply_text_finish(), or the part of a token's text that
 * belongs to earlier tokens. Returns true as above. */
bool reply_parser_push_rest(struct reply_parser *parser, const char *bytes, size_t length);
/* End of the answer: emits the text held back. Called once. `truncated`: a limit ended the answer,
 * not the model (see tool_call_parser.h). */
void reply_parser_finish(struct reply_parser *parser, bool truncated);

/* The stop string that was found, or NULL. */
const char *reply_parser_stop_string(const struct reply_parser *parser);
/* Calls announced so far. */
uint32_t reply_parser_calls(const struct reply_parser *parser);
/* Memory ran out: events are missing and the answer must fail. */
bool reply_parser_failed(const struct reply_parser *parser);
struct reply_token_counts reply_parser_counts(const struct reply_parser *parser);

#endif
