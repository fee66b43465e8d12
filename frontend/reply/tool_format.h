/*
 * The syntaxes in which models write tool calls, as a table.
 *
 * A format is a row: its name, the marks in a chat template by which it is detected, and how it is
 * read (tool_call_parser.h; harmony_parser.h for harmony, which is more than calls). A model's
 * format is detected from its template or set by --tool-call-parser. Rows are static.
 */
#ifndef SHOAL_FRONTEND_REPLY_TOOL_FORMAT_H
#define SHOAL_FRONTEND_REPLY_TOOL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tool_format;

/* The first row whose marks are in the template; NULL if there is none: calls of the model then
 * stay text. */
const struct tool_format *tool_format_detect(const char *template_source, size_t bytes);
/* By the name that --tool-call-parser takes, or NULL. */
const struct tool_format *tool_format_by_name(const char *name);
/* The rows one by one, for lists of names; NULL past the last. */
const struct tool_format *tool_format_at(size_t index);
const char *tool_format_name(const struct tool_format *format);

/* The format for templates that know no tools (prompt/generic_tools.h); never detected. */
bool tool_format_is_generic(const struct tool_format *format);

/* Read by harmony_parser.h, reasoning and text included, and not by tool_call_parser.h. */
bool tool_format_is_harmony(const struct tool_format *format);

/* True if this text, whole, is a mark of the format. A token with such a text must reach the parser
 * as text even if the tokenizer calls it special; other special tokens are left out. */
bool tool_format_has_mark(const struct tool_format *format, const char *text, size_t length);

/* The index-th plain text with which a call can begin anywhere in an answer; NULL past the last.
 * Such a text ends a reasoning section that was not closed. Formats whose calls are recognised only
 * by their place at the beginning of an answer have none. */
const char *tool_format_opening(const struct tool_format *format, size_t index);

/* How the arguments of a call are written. */
enum tool_arguments {
    ARGUMENTS_JSON,     /* an object */
    ARGUMENTS_TAGGED,   /* each value as frame.value */
    ARGUMENTS_KEYWORDS, /* k=v, k=v with JSON values */
    ARGUMENTS_LITERAL   /* k:v,k:v without JSON's quotes; strings as frame.value */
};

/*
 * How calls are written, the counterpart of the parser: `begin`, calls with `separator`
 * between them, `end`. In a call %n stands for the name, %i for a number, %a for the arguments; in
 * a value %k for its name and %v for the value: a string as it is, all else as JSON.
 */
struct tool_frame {
    const char *begin; /* NULL: empty, as `end` */
    const char *call;
    const char *separator; /* NULL: an answer has one call at most */
    const char *end;
    const char *value;      /* of ARGUMENTS_TAGGED and ARGUMENTS_LITERAL */
    const char *json_value; /* of values that are no strings; NULL: as `value` */
    enum tool_arguments arguments;
};
const struct tool_frame *tool_format_frame(const struct tool_format *format);

/* An id for a call that has none, if this format's templates take back ids of one form only:
 * Mistral's take nine letters and digits. False if any id will do. `random` is 64 random bits, the
 * same for all calls of an answer, `call` its number in the answer. */
#define TOOL_CALL_ID_BYTES 10u
bool tool_format_call_id(const struct tool_format *format, uint64_t random, uint32_t call,
                         char id[TOOL_CALL_ID_BYTES]);

#endif
