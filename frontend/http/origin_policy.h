/*
 * Protects a server without keys on a loopback address from web pages: a page that the user visits
 * can send requests to http://127.0.0.1 (cross-site request forgery), and can reach it under its
 * own name (DNS rebinding). Pure: a request in, a verdict out.
 */
#ifndef SHOAL_FRONTEND_HTTP_ORIGIN_POLICY_H
#define SHOAL_FRONTEND_HTTP_ORIGIN_POLICY_H

#include <stdbool.h>

#include "frontend/http/cors_policy.h"
#include "frontend/http/http_parser.h"
#include "proto/result.h"

struct origin_policy {
    bool enforced;
    const char *const *hosts; /* names without port, allowed besides those of the loopback
                                 interface; "*" allows all */
    size_t host_count;
    const struct cors_policy *cors; /* its origins are allowed */
};

enum origin_verdict { ORIGIN_ALLOWED, ORIGIN_FOREIGN_HOST, ORIGIN_FOREIGN_PAGE };

/* True if `host` may stand in `hosts`: a host without port, or "*". */
enum result origin_policy_check_host(const char *host, struct error_text *error) RESULT_CHECKED;

/*
 * The host of the request (http_parser.authority) must be a name of the loopback interface
 * (localhost, names below it, 127.0.0.0/8, [::1]) or one of `hosts`. An Origin, which only browsers
 * send, must have such a host, or be one of cors' origins. A request without a Host (HTTP/1.0) or
 * without an Origin passes that check.
 */
enum origin_verdict origin_policy_check(const struct origin_policy *policy,
                                        const struct http_parser *request);

#endif
