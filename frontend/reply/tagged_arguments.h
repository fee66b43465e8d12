/*
 * Arguments between tags, read byte by byte: <parameter=city>Paris</parameter></function>.
 *
 * Strings are passed on while they are written; a value that may have another type waits for its
 * end (argument_type.h).
 */
#ifndef SHOAL_FRONTEND_REPLY_TAGGED_ARGUMENTS_H
#define SHOAL_FRONTEND_REPLY_TAGGED_ARGUMENTS_H

#include "frontend/reply/call_writer.h"
#include "frontend/reply/tool_form.h"

struct cJSON;

struct tagged_arguments {
    const struct tagged_syntax *syntax;
    const struct cJSON *tool; /* NULL: not offered */
    bool in_value;
    bool is_first;       /* no byte of the value yet */
    bool has_line_break; /* a line break that may be the last before the closing tag */
    bool is_text;        /* a string by its schema */
    unsigned types;
    size_t value_patterns;      /* the first of `inside` begin a value, the others end the call */
    struct mark_matcher inside; /* between values */
    struct mark_matcher ends;
    struct text_buffer value; /* of another type */
};

/* The call's head has been read. `value` keeps its memory between uses; zero-initialized before the
 * first. */
void tagged_arguments_begin(struct tagged_arguments *tagged, const struct tagged_syntax *syntax,
                            const struct cJSON *tool);
void tagged_arguments_fini(struct tagged_arguments *tagged);
enum call_step tagged_arguments_push(struct tagged_arguments *tagged, struct call_writer *writer,
                                     char byte, size_t *unread);

#endif
