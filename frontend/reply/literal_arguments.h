/*
 * Arguments in notations close to JSON, read byte by byte and written as JSON: Python's keyword
 * arguments, Gemma's braces. Their values have explicit types.
 */
#ifndef SHOAL_FRONTEND_REPLY_LITERAL_ARGUMENTS_H
#define SHOAL_FRONTEND_REPLY_LITERAL_ARGUMENTS_H

#include "frontend/reply/call_writer.h"
#include "frontend/reply/tool_form.h"

extern const struct literal_syntax literal_syntax_python;

struct literal_arguments {
    const struct literal_syntax *syntax;
    uint8_t state;
    uint8_t depth; /* open brackets, the arguments' own included */
    uint8_t quote_bytes;
    uint8_t escape_digits; /* not read yet */
    bool is_key;           /* the current string or word is a key */
    bool needs_comma;      /* before the next item */
    uint32_t members;      /* of the arguments' own level */
    uint32_t escape_code;
    char closers[LIMIT_TOOL_DEPTH + 1]; /* bracket that ends each depth */
    char quote[16];                     /* the possible beginning of a quote, and one byte more */
    struct mark_matcher closing;        /* of the current string */
    struct text_buffer word;            /* a bare word, or a key */
};

/* The opening bracket has been read. `word` keeps its memory between uses; zero-initialized before
 * the first. */
void literal_arguments_begin(struct literal_arguments *literal,
                             const struct literal_syntax *syntax);
void literal_arguments_fini(struct literal_arguments *literal);
enum call_step literal_arguments_push(struct literal_arguments *literal, struct call_writer *writer,
                                      char byte, size_t *unread);

/* True if all of `text` is a list or dictionary in Python's notation; appends it as JSON. */
bool literal_arguments_read_python(const char *text, size_t length, struct text_buffer *out);

#endif
