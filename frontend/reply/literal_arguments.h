/*
 * Arguments in notations that are close to JSON, read byte by byte and written as JSON: Python's
 * keyword arguments, Gemma's braces. Their values carry their types themselves.
 */
#ifndef SHOAL_FRONTEND_REPLY_LITERAL_ARGUMENTS_H
#define SHOAL_FRONTEND_REPLY_LITERAL_ARGUMENTS_H

#include "frontend/reply/call_writer.h"
#include "frontend/reply/tool_form.h"

extern const struct literal_syntax literal_syntax_python;

struct literal_arguments {
    const struct literal_syntax *syntax;
    uint8_t state;
    uint8_t depth; /* brackets that are open, the arguments' own included */
    uint8_t quote_bytes;
    uint8_t escape_digits; /* still to come */
    bool is_key;           /* the string or word in hand */
    bool needs_comma;      /* before the next item */
    uint32_t members;      /* of the arguments themselves */
    uint32_t escape_code;
    char closers[LIMIT_TOOL_DEPTH + 1]; /* bracket that ends each depth */
    char quote[16];                     /* what may become a quote, and one byte more */
    struct mark_matcher closing;        /* of the string in hand */
    struct text_buffer word;            /* a bare word, or a key */
};

/* The opening bracket has been read. `word` is kept from the last use; zero-initialized before. */
void literal_arguments_begin(struct literal_arguments *literal,
                             const struct literal_syntax *syntax);
void literal_arguments_fini(struct literal_arguments *literal);
enum call_step literal_arguments_push(struct literal_arguments *literal, struct call_writer *writer,
                                      char byte, size_t *unread);

/* Whether all of `text` is a list or dictionary as Python writes it; appends it as JSON. */
bool literal_arguments_read_python(const char *text, size_t length, struct text_buffer *out);

#endif
