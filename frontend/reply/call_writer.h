/*
 * One call on its way out: its name, its id, and its arguments as JSON text. Whoever reads a call
 * writes into it; the parser tells what is there.
 */
#ifndef SHOAL_FRONTEND_REPLY_CALL_WRITER_H
#define SHOAL_FRONTEND_REPLY_CALL_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/text_buffer.h"
#include "frontend/reply/json_value_scanner.h"
#include "proto/limits.h"

/* What a reader of calls says to a byte. The last *unread bytes are to be read again: by the reader
 * (MORE), behind the call (DONE), as text (BROKEN). */
enum call_step { CALL_MORE, CALL_DONE, CALL_BROKEN };

struct call_writer {
    char name[LIMIT_TOOL_NAME_BYTES + 1]; /* "": not known yet */
    char id[LIMIT_TOOL_NAME_BYTES + 1];   /* "": none */
    struct text_buffer arguments;         /* not told yet */
    struct json_value_scanner json;       /* over all of them */
    bool has_begun;                       /* the object's { is there */
    bool is_whole;                        /* and its } */
};

/* Forgets the call; keeps the memory. */
void call_writer_clear(struct call_writer *writer);
void call_writer_fini(struct call_writer *writer);

/* False, and unchanged, where the text is empty or too long for a name or has control characters.
 */
bool call_writer_set_name(struct call_writer *writer, const char *text, size_t length);
bool call_writer_set_id(struct call_writer *writer, const char *text, size_t length);

/* Adds bytes of JSON. False where they cannot stand here: what stood before them was taken. */
bool call_writer_put(struct call_writer *writer, const char *bytes, size_t count);
bool call_writer_put_text(struct call_writer *writer, const char *text);
/* Adds bytes of a string that has been opened, escaping them. */
void call_writer_put_quoted(struct call_writer *writer, const char *bytes, size_t count);
/* `"key":`, with a comma in front unless it is the first. False as above. */
bool call_writer_put_key(struct call_writer *writer, const char *key, size_t length);
/* Makes the arguments a whole object, whatever they lack. */
void call_writer_close(struct call_writer *writer);

#endif
