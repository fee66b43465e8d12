/*
 * Repairs a common mistake in JSON: a backslash in a string that starts no escape, as in
 * "C:\Users". Nothing else is repaired.
 */
#ifndef SHOAL_FRONTEND_API_MESSAGES_BACKSLASH_REPAIR_H
#define SHOAL_FRONTEND_API_MESSAGES_BACKSLASH_REPAIR_H

#include <stddef.h>

#include "proto/result.h"

/* *repaired: a copy (malloc'd, NUL-terminated) in which each such backslash is doubled; the caller
 * frees. RESULT_NOT_FOUND: there is none. RESULT_OUT_OF_MEMORY. */
enum result backslash_repair(const char *json, size_t json_bytes, char **repaired,
                             size_t *repaired_bytes) RESULT_CHECKED;

#endif
