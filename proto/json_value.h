/*
 * A value inside a checked JSON document: a view of its text. Looking a member up scans the object,
 * which is right for settings that are read once (config.json); big tables are walked with
 * json_reader.h.
 *
 * NaN, Infinity and -Infinity, which Python writes, are numbers that no reader here accepts.
 *
 * json_value_open() checks the whole document, so a later read can only find a value absent or of
 * another type. If a name occurs twice, the last member counts, as in Python. Null counts as
 * absent.
 */
#ifndef SHOAL_PROTO_JSON_VALUE_H
#define SHOAL_PROTO_JSON_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/json_reader.h"
#include "proto/result.h"

struct json_value {
    const char *bytes;
    size_t byte_count; /* 0: absent */
};

enum json_type { JSON_ABSENT, JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_NUMBER, JSON_BOOL };

/* RESULT_TOO_LARGE over `most_bytes`; RESULT_INVALID if it is not a JSON document, with the offset
 * of the error. The value points into `json`. */
enum result json_value_open(const char *json, size_t json_bytes, size_t most_bytes,
                            struct json_value *value, struct error_text *error) RESULT_CHECKED;

enum json_type json_value_type(struct json_value value);

/* Absent when `object` is no object, has no such member, or the member is null. */
struct json_value json_value_member(struct json_value object, const char *name);
/* True if the member exists and is null, for classes whose default differs from null. */
bool json_value_member_is_null(struct json_value object, const char *name);

/* The elements of an array (none of another type): for (struct json_reader at =
 * json_value_elements(array); json_value_next(&at, &element);) */
struct json_reader json_value_elements(struct json_value array);
bool json_value_next(struct json_reader *at, struct json_value *element);

/*
 * Each returns RESULT_OK, RESULT_NOT_FOUND (absent: *out untouched) or RESULT_INVALID (another
 * type, out of range, or for u32 a fraction: *out untouched).
 */
enum result json_value_u32(struct json_value value, uint32_t *out);
/* A member that is a number from 1 to `most`, or `absent` if it is not there. RESULT_INVALID: the
 * error names it. */
enum result json_value_member_u32(struct json_value object, const char *name, uint32_t most,
                                  uint32_t absent, uint32_t *out,
                                  struct error_text *error) RESULT_CHECKED;
enum result json_value_f32(struct json_value value, float *out); /* finite */
enum result json_value_bool(struct json_value value, bool *out);
/* NUL-terminated; RESULT_INVALID also when it holds a NUL or does not fit into `capacity`. */
enum result json_value_string(struct json_value value, char *text, size_t capacity);

#endif
