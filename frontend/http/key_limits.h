/*
 * Reads the attributes of an API key: "admin", "requests=N", "tokens=N", "images=N", "concurrent=N", separated by spaces. A
 * limit of 0 is none.
 */
#ifndef SHOAL_FRONTEND_HTTP_KEY_LIMITS_H
#define SHOAL_FRONTEND_HTTP_KEY_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/client_key.h"

#define KEY_LIMIT_MAX 1000000000u

/* Changes the named members of *rights; the others stay. False if a word is none of these or its number is above
 * KEY_LIMIT_MAX. */
bool key_limits_parse(const char *text, size_t bytes, struct client_rights *rights);

#endif
