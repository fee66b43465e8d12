/*
 * The headers that let a browser give a reply to a page of another origin.
 *
 * An origin on the list is named in the reply, with Vary: Origin on every reply (also to requests
 * without an origin, because a cache may serve them to another page). With '*' on the list every
 * origin is allowed and nothing varies. Other origins get no header, and the browser refuses.
 * Credentials (cookies) are never allowed; keys travel in headers, which the preflight names.
 *
 * All requested headers are allowed: client libraries send a dozen of their own, and a header gives
 * a page no power here that the body does not give.
 */
#include "frontend/http/cors_policy.h"

#include <string.h>

#include "proto/limits.h"

#define PREFLIGHT_MAX_AGE_S    "600" /* browsers cut it at 600 to 7200 */
#define REQUESTED_HEADER_BYTES 2048u

enum result cors_policy_check_origin(const char *origin, struct error_text *error)
{
    if (strcmp(origin, "*") == 0 || strcmp(origin, "null") == 0)
        return RESULT_OK;
    const char *host = strstr(origin, "://");
    bool good =
        host && host > origin && host[3] != '\0' && strlen(origin) <= LIMIT_CORS_ORIGIN_BYTES;
    for (const char *at = origin; good && *at; at++)
        good = *at > 0x20 && *at < 0x7f && !(*at >= 'A' && *at <= 'Z') && !strchr("\"\\,;?#@", *at);
    if (!good || strchr(host + 3, '/'))
        return error_set(error, RESULT_INVALID,
                         "'%.80s' is not an origin such as https://chat.example.org, nor '*'",
                         origin);
    return RESULT_OK;
}

bool cors_policy_allows(const struct cors_policy *policy, const char *origin)
{
    for (size_t i = 0; i < policy->origin_count; i++) {
        if (strcmp(policy->origins[i], "*") == 0 || strcmp(policy->origins[i], origin) == 0)
            return true;
    }
    return false;
}

/* True for a CORS preflight: OPTIONS with Origin and Access-Control-Request-Method. */
static bool is_preflight(const struct http_parser *request)
{
    return request->method == HTTP_OPTIONS && http_parser_header(request, "origin") &&
           http_parser_header(request, "access-control-request-method");
}

/* True for a list of header names and nothing else. */
static bool is_name_list(const char *text)
{
    for (size_t i = 0; text[i]; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (i >= REQUESTED_HEADER_BYTES || (!letter && !strchr("-_, ", c)))
            return false;
    }
    return text[0] != '\0';
}

static void append_preflight(const struct http_parser *request, const char *allow,
                             struct text_buffer *out)
{
    const char *names = http_parser_header(request, "access-control-request-headers");
    text_buffer_append_format(out,
                              "Access-Control-Allow-Methods: %s\r\n"
                              "Access-Control-Max-Age: " PREFLIGHT_MAX_AGE_S "\r\n",
                              allow ? allow : "OPTIONS");
    if (names && is_name_list(names))
        text_buffer_append_format(out, "Access-Control-Allow-Headers: %s\r\n", names);
}

void cors_policy_append_headers(const struct cors_policy *policy, const struct http_parser *request,
                                const char *allow, struct text_buffer *out)
{
    const char *origin = http_parser_header(request, "origin");
    const char *allowed = NULL;
    bool any = false;
    for (size_t i = 0; i < policy->origin_count; i++) {
        any = any || strcmp(policy->origins[i], "*") == 0;
        if (origin && strcmp(policy->origins[i], origin) == 0)
            allowed = policy->origins[i];
    }
    if (policy->origin_count == 0)
        return;
    bool preflight = is_preflight(request);
    const char *vary = any ? "" : "Origin";
    if (preflight)
        vary = any ? "Access-Control-Request-Headers" : "Origin, Access-Control-Request-Headers";
    if (vary[0])
        text_buffer_append_format(out, "Vary: %s\r\n", vary);
    if (!origin || (!any && !allowed))
        return;
    text_buffer_append_format(
        out,
        "Access-Control-Allow-Origin: %s\r\n"
        "Access-Control-Expose-Headers: x-request-id, request-id, retry-after, "
        "x-shoal-tool-format, x-shoal-loose-tools, x-shoal-ignored-tools\r\n",
        any ? "*" : allowed);
    if (preflight)
        append_preflight(request, allow, out);
}
