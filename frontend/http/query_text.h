/*
 * Members of a URL's query: name=value pairs separated by '&', percent-encoded.
 */
#ifndef SHOAL_FRONTEND_HTTP_QUERY_TEXT_H
#define SHOAL_FRONTEND_HTTP_QUERY_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The first value of this name, decoded and cut to `value_bytes` - 1. False, with an empty value,
 * if there is none. */
bool query_text_find(const char *query, const char *name, char *value, size_t value_bytes);

#endif
