#include "frontend/serve/routes/route_body.h"

#include <stdlib.h>

#include "proto/must.h"

char *route_body_take(struct http_exchange *exchange, size_t *bytes, struct api_error *error)
{
    *bytes = 0;
    if (http_exchange_coding(exchange) != BODY_PLAIN) {
        (void)api_error_invalid(error, "", "send this body uncompressed");
        return NULL;
    }
    char *body = http_exchange_take_body(exchange, bytes);
    if (!body)
        return must_strdup("");
    if (*bytes <= ROUTE_BODY_BYTES)
        return body;
    free(body);
    (void)api_error_set(error, RESULT_TOO_LARGE, 413, "request_too_large",
                        "the body has more than %u bytes", ROUTE_BODY_BYTES);
    return NULL;
}
