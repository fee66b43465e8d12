/*
 * One call being read: its name, its id, and its arguments as JSON text. The reader of a syntax
 * writes into it; the parser sends its content as events.
 */
#ifndef SHOAL_FRONTEND_REPLY_CALL_WRITER_H
#define SHOAL_FRONTEND_REPLY_CALL_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/text_buffer.h"
#include "frontend/reply/json_value_scanner.h"
#include "proto/limits.h"

/* A reader's answer to a byte. The last *unread bytes are read again: by the reader (MORE), after
 * the call (DONE), as text (BROKEN). */
enum call_step { CALL_MORE, CALL_DONE, CALL_BROKEN };

struct call_writer {
    char name[LIMIT_TOOL_NAME_BYTES + 1]; /* "": not known yet */
    char id[LIMIT_TOOL_NAME_BYTES + 1];   /* "": none */
    struct text_buffer arguments;         /* not sent yet */
    struct json_value_scanner json;       /* over all argument bytes */
    bool has_begun;                       /* the object's { was written */
    bool is_whole;                        /* and its } */
};

/* Clears the call; keeps the memory. */
void call_writer_clear(struct call_writer *writer);
void call_writer_fini(struct call_writer *writer);

/* False, and unchanged, if the text is empty, too long for a name or has control characters. */
bool call_writer_set_name(struct call_writer *writer, const char *text, size_t length);
bool call_writer_set_id(struct call_writer *writer, const char *text, size_t length);

/* Adds bytes of JSON. False if they are invalid here; the bytes before them were taken. */
bool call_writer_put(struct call_writer *writer, const char *bytes, size_t count);
bool call_writer_put_text(struct call_writer *writer, const char *text);
/* Adds bytes to the string that is open, escaping them. */
void call_writer_put_quoted(struct call_writer *writer, const char *bytes, size_t count);
/* `"key":`, with a comma in front unless it is the first. False as above. */
bool call_writer_put_key(struct call_writer *writer, const char *key, size_t length);
/* Completes the arguments to a valid object. */
void call_writer_close(struct call_writer *writer);

#endif
