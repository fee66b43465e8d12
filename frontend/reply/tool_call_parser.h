/*
 * Streams a model's text into content and tool calls (reply_event.h), in any format of
 * tool_format.h but harmony.
 *
 * Joined CONTENT and calls do not depend on how the text is cut. Rules:
 *
 * - A call is announced (CALL_BEGIN) once its name is known and its arguments have begun; these
 *   follow as they come. An id counts if it stands before the arguments.
 * - Arguments are a JSON object. Formats with their own types are converted to JSON; where values
 *   are bare text, the tool's schema decides: a string stays one, a value that should be a number,
 *   boolean, null, list or object is converted if it parses, else it stays a string; without a
 *   schema, text that parses as JSON is that value, other text a string. Repairs in JSON: a control
 *   character in a string is escaped, and so is a backslash that escapes nothing; half a surrogate
 *   pair becomes U+FFFD. Missing arguments are {}.
 * - Text that turns out to be no call is content, every byte of it. If a call becomes invalid after
 *   it was announced, its arguments are closed so that they are valid JSON, CALL_END follows, and
 *   the raw text of the whole call comes as content, marks included.
 * - At the end of the output a call with complete arguments is complete, even if closing marks are
 *   missing. Any other call was cut: if the answer was `truncated` (a limit ended it, not the
 *   model), an announced call stays as it is, without CALL_END and perhaps with incomplete JSON;
 *   else it is treated as invalid, as above.
 * - White space next to a call is content only if text stands before and after: none between
 *   reasoning and a call, between calls, at the end.
 * - A tool that was not offered can be called: the client that runs tools must check. Only formats
 *   in which a call has no mark of its own (bare JSON, bare pythonic, functionary) accept offered
 *   names only.
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

/* `tools`: a list in the form of chat completions
 * ({"type":"function","function":{"name","parameters"}} …), or NULL; it must outlive the parser.
 * `format` is not harmony. NULL: out of memory. */
struct tool_call_parser *tool_call_parser_create(const struct tool_format *format,
                                                 const struct cJSON *tools,
                                                 struct reply_event_sink sink);
void tool_call_parser_destroy(struct tool_call_parser *parser);

/* The joined input is valid UTF-8; a piece may end within a character. */
void tool_call_parser_push(struct tool_call_parser *parser, const char *bytes, size_t length);
/* End of the answer; called once. */
void tool_call_parser_finish(struct tool_call_parser *parser, bool truncated);

/* True if the text so far ends inside a call, or in a possible beginning of one: a reasoning tag
 * that follows belongs to the call. Depends on the joined text only, not on its cuts. */
bool tool_call_parser_in_call(const struct tool_call_parser *parser);

/* Calls announced so far. */
uint32_t tool_call_parser_count(const struct tool_call_parser *parser);
/* Memory ran out: events are missing and the answer must fail. */
bool tool_call_parser_failed(const struct tool_call_parser *parser);

#endif
