/*
 * A repair of JSON that some clients get wrong: a backslash in a string that escapes nothing, as in
 * "C:\Users". Nothing else is repaired.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_LONE_BACKSLASH_H
#define SHOAL_FRONTEND_API_MESSAGES_LONE_BACKSLASH_H

#include <stddef.h>

/* A copy (malloc'd, NUL-terminated) in which every backslash inside a string that no escape of JSON
 * begins with is doubled. NULL: there is none, or no memory. */
char *lone_backslash_repair(const char *json, size_t json_bytes, size_t *repaired_bytes);

#endif
