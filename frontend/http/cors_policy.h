/*
 * Which web pages may read this server's replies (the Fetch standard's CORS protocol). Pure: a
 * request in, header lines out.
 */
#ifndef SHOAL_FRONTEND_HTTP_CORS_POLICY_H
#define SHOAL_FRONTEND_HTTP_CORS_POLICY_H

#include <stdbool.h>

#include "frontend/base/text_buffer.h"
#include "frontend/http/http_parser.h"
#include "proto/result.h"

struct cors_policy {
    const char *const *origins; /* each "*", "null" or scheme://host[:port] */
    size_t origin_count;        /* 0: replies carry no CORS header at all */
};

/* True if `origin` has one of the forms above, as a browser writes it: lower case, no path. */
enum result cors_policy_check_origin(const char *origin, struct error_text *error) RESULT_CHECKED;

/* True if `origin` (as a request names it) or "*" is on the list. */
bool cors_policy_allows(const struct cors_policy *policy, const char *origin);

/* Appends the CORS header lines of this reply, if any. `allow`: the path's methods, as in Allow. */
void cors_policy_append_headers(const struct cors_policy *policy, const struct http_parser *request,
                                const char *allow, struct text_buffer *out);

#endif
