/*
 * The ways in which models write tool calls, as a table.
 *
 * A format is a row: its name, the marks in a chat template by which it is known, and how it is
 * read (tool_call_parser.h; harmony_parser.h for the one that is more than calls). Which one a
 * model uses is seen from its template, or said by --tool-call-parser. Rows are static and never
 * end.
 */
#ifndef SHOAL_FRONTEND_REPLY_TOOL_FORMAT_H
#define SHOAL_FRONTEND_REPLY_TOOL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_buffer;
struct tool_format;

/* The first row whose marks are in the template; NULL when there is none: the model's calls, should
 * it make some, stay text. */
const struct tool_format *tool_format_detect(const char *template_source, size_t bytes);
/* By the name that --tool-call-parser takes, or NULL. */
const struct tool_format *tool_format_by_name(const char *name);
/* The rows one by one, for lists of names: NULL past the last. */
const struct tool_format *tool_format_at(size_t index);
const char *tool_format_name(const struct tool_format *format);

/* Read by harmony_parser.h, reasoning and text included, and not by tool_call_parser.h. */
bool tool_format_is_harmony(const struct tool_format *format);

/* Whether this text, whole, is a mark of the format. A token whose text is one must reach the
 * parser as that text even where the tokenizer calls it special; other special tokens stay left
 * out. */
bool tool_format_has_mark(const struct tool_format *format, const char *text, size_t length);

/* The plain text with which a call can begin anywhere in an answer: the index-th, NULL past the
 * last. A reasoning that is never closed ends where one of these stands. Formats whose calls are
 * known only from their place at the beginning of an answer have none. */
const char *tool_format_opening(const struct tool_format *format, size_t index);

/*
 * Appends the text that, as the first text of an answer (after the reasoning, if any), makes the
 * answer a call: of the tool `name`, or with NULL of some tool. False, with nothing appended, where
 * the format gives no such text. Its marks are special tokens: encode it as trusted text, and give
 * it to the parser as if the model had written it. What follows is up to the model: a named call's
 * name is certain, that its arguments are valid is not.
 */
bool tool_format_forced_prefix(const struct tool_format *format, const char *name,
                               struct text_buffer *prefix);

/* An id for a call to which the model gave none, where templates of this format take back ids of
 * one form only: Mistral's want nine letters and digits. False where any id will do. `random` are
 * 64 random bits, the same for all calls of an answer, `call` its number in it. */
#define TOOL_CALL_ID_BYTES 10u
bool tool_format_call_id(const struct tool_format *format, uint64_t random, uint32_t call,
                         char id[TOOL_CALL_ID_BYTES]);

#endif
