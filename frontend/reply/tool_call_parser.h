/*
 * Text of a model, arriving in pieces, to text and tool calls (reply_event.h), in any format of
 * tool_format.h but harmony.
 *
 * The law: whatever the cuts, the joined CONTENT and the calls are the same. The rules:
 *
 * - A call is announced (CALL_BEGIN) once its name is known and its arguments have begun; these
 *   follow as they come. An id counts if it stands before the arguments.
 * - Arguments are a JSON object. Those of formats with types of their own are written as JSON;
 *   where values are bare text, the tool's schema decides: a string stays one, what should be a
 *   number, boolean, null, list or object becomes it if it parses, else it stays a string; without
 *   a schema whatever parses as JSON is that, the rest a string. Two repairs in JSON: a control
 *   character in a string is escaped, and so is a backslash that escapes nothing; half a surrogate
 *   pair becomes U+FFFD. No arguments are {}.
 * - What turns out to be no call is text, every byte of it. Breaks a call off after its beginning
 *   was announced, then its arguments are closed so that they are valid JSON, CALL_END follows, and
 *   the raw text of the whole call comes as content, marks included.
 * - At the end of the output a call whose arguments are complete is whole, though closing marks
 *   lack. Any other was cut: where the answer was `truncated` (a limit ended it, not the model) a
 *   call that was announced stays as it is, without CALL_END and its arguments perhaps no JSON;
 *   else it is broken as above.
 * - White space next to a call is content only where text stands before and behind: none between
 *   reasoning and a call, between calls, at the end.
 * - A tool that was not offered can be called: whoever runs tools answers for that. Only formats in
 *   which a call has no mark of its own (bare JSON, bare pythonic, functionary) take nothing but
 *   offered names for calls.
 * - Beyond LIMIT_TOOL_CALLS calls, or LIMIT_TOOL_CALL_BYTES of one call, all is text.
 */
#ifndef SHOAL_FRONTEND_REPLY_TOOL_CALL_PARSER_H
#define SHOAL_FRONTEND_REPLY_TOOL_CALL_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/reply/reply_event.h"
#include "frontend/reply/tool_format.h"

struct cJSON;
struct tool_call_parser;

/* `tools`: a list as chat completions take it ({"type":"function","function":{"name","parameters"}}
 * …), or NULL; it must outlive the parser. `format` is not harmony. NULL: out of memory. */
struct tool_call_parser *tool_call_parser_create(const struct tool_format *format,
                                                 const struct cJSON *tools,
                                                 struct reply_event_sink sink);
void tool_call_parser_destroy(struct tool_call_parser *parser);

/* Valid UTF-8 when joined; a piece may end within a character. */
void tool_call_parser_push(struct tool_call_parser *parser, const char *bytes, size_t length);
/* No more will come. Once. */
void tool_call_parser_finish(struct tool_call_parser *parser, bool truncated);

/* Whether the text so far ends inside a call, or in what may become one: a reasoning tag that comes
 * now is the call's own text. Depends on the joined text alone, never on its cuts. */
bool tool_call_parser_in_call(const struct tool_call_parser *parser);

/* Calls announced so far. */
uint32_t tool_call_parser_count(const struct tool_call_parser *parser);
/* Memory ran out: events are missing, the answer must fail. */
bool tool_call_parser_failed(const struct tool_call_parser *parser);

#endif
