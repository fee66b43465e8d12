/*
 * The reply to one request, as a route's handler sends it.
 *
 * The handler replies at once, or keeps the exchange and replies later, exactly once: with a whole
 * reply, or with http_reply_begin(), http_reply_send() any number of times, http_reply_end(). No
 * function here calls back.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_REPLY_H
#define SHOAL_FRONTEND_HTTP_HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/text_buffer.h"
#include "frontend/http/http_exchange.h"

/* A whole reply. `content_type` may be NULL when there is no body. */
void http_reply_whole(struct http_exchange *exchange, int status, const char *content_type,
                      const char *body, size_t body_bytes);
/* A whole reply of type application/json. Frees the buffer; one that ran out of memory cuts the
 * connection. */
void http_reply_json(struct http_exchange *exchange, int status, struct text_buffer *body);
/* The error as JSON in the route's shape, with Retry-After when it has one, and with
 * WWW-Authenticate for a 401. */
void http_reply_error(struct http_exchange *exchange, const struct api_error *error);

/* A reply of unknown length: chunked, or (HTTP/1.0) up to the connection's end. The first bytes are
 * sent with the head and the last bytes with the end, because a packet costs as much as its
 * contents; both may be empty. */
void http_reply_begin(struct http_exchange *exchange, int status, const char *content_type,
                      const char *extra_headers, const char *first, size_t first_bytes);
void http_reply_send(struct http_exchange *exchange, const char *bytes, size_t count);
void http_reply_end(struct http_exchange *exchange, const char *last, size_t last_bytes);
/* Closes the connection without completing the reply. */
void http_reply_abort(struct http_exchange *exchange);
/* Bytes of this connection that the kernel has not taken yet. */
size_t http_reply_unsent_bytes(const struct http_exchange *exchange);
/* This client reads slowly while the server holds too many bytes for slow readers. */
bool http_reply_is_crowding(const struct http_exchange *exchange);

#endif
