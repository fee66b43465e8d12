/*
 * Reads JSON (RFC 8259) front to back without building a tree.
 *
 * For the JSON of checkpoints, whose big tables (a quarter of a million vocabulary entries, half a
 * million merges, a hundred thousand tensors) would become hundreds of megabytes of nodes. Any
 * failure sticks: later calls do nothing and report failure, so a caller checks `failed` once at
 * the end of a loop. json_value.h looks members up by name.
 */
#ifndef SHOAL_PROTO_JSON_READER_H
#define SHOAL_PROTO_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_reader {
    const char *at;
    const char *end;
    bool fresh; /* just inside an opening bracket: no comma is due */
    bool failed;
};

struct json_reader json_reader_open(const char *json, size_t json_bytes);

/* The first character of the next value ('{', '[', '"', 't', 'f', 'n', '-' or a digit); 0 at the
 * end or on failure. */
char json_reader_peek(struct json_reader *reader);

/* Enters the object ('{') or array ('[') that comes next. */
void json_reader_enter(struct json_reader *reader, char bracket);
/* To the next element of the array; false after the last one, having left the array. */
bool json_reader_next_element(struct json_reader *reader);
/* To the next member's value, having read its name; false after the last, having left the object.
 */
bool json_reader_next_member(struct json_reader *reader, char *name, size_t capacity,
                             size_t *name_bytes);

/* Unescaped UTF-8, not NUL-terminated; fails when it is longer than `capacity`. */
size_t json_reader_string(struct json_reader *reader, char *text, size_t capacity);
/* A non-negative integer below 2^32, below 2^64. */
uint32_t json_reader_u32(struct json_reader *reader);
uint64_t json_reader_u64(struct json_reader *reader);
/* Any number; infinite where it is too large for a double. */
double json_reader_f64(struct json_reader *reader);
bool json_reader_bool(struct json_reader *reader);

/* Skips any value (bracket depth up to LIMIT_JSON_DEPTH); gives its bytes. */
const char *json_reader_skip(struct json_reader *reader, size_t *value_bytes);

/* Goes past any value that keeps to the grammar in full, nested at most LIMIT_JSON_DEPTH deep, with
 * names of members of at most LIMIT_JSON_NAME_BYTES. */
void json_reader_check(struct json_reader *reader);

#endif
