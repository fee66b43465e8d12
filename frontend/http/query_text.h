/*
 * Members of a request's query: name=value, with '&' between, percent-encoded.
 */
#ifndef SHOAL_FRONTEND_HTTP_QUERY_TEXT_H
#define SHOAL_FRONTEND_HTTP_QUERY_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The first value of this name, decoded and cut to `value_bytes` - 1. False, and value is "", when
 * there is none. */
bool query_text_find(const char *query, const char *name, char *value, size_t value_bytes);

#endif
