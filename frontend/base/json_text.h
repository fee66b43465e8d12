/*
 * Checks of JSON that a client sent, before and after cJSON reads it. cJSON accepts more than JSON (numbers such as 007, line
 * feeds inside strings), cuts a string at an escaped NUL, and keeps the first of two members of one name.
 */
#ifndef SHOAL_FRONTEND_BASE_JSON_TEXT_H
#define SHOAL_FRONTEND_BASE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct cJSON;

struct json_problem {
    const char *reason; /* static words, as "a number is malformed" */
    size_t offset;      /* byte where it was noticed */
};

/* True if `text` is one JSON value as RFC 8259 defines it, with white space around it, no bracket deeper than `max_depth` (at
 * most JSON_DEPTH_MAX), strings of valid UTF-8, and no NUL character, escaped or not. Otherwise sets *problem. Takes time in
 * proportion to `bytes` and constant memory. */
bool json_text_check(const char *text, size_t bytes, size_t max_depth,
                     struct json_problem *problem);
#define JSON_DEPTH_MAX 256u

/* Name of a member that an object in `root` has twice (case matters), or NULL. n log n in the members of the largest object;
 * recurses as deep as `root` is. */
const char *json_text_find_duplicate(const struct cJSON *root);

#endif
