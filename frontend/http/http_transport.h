/*
 * The bytes of one client's socket, plain or through TLS, with the same meaning: bytes read are the
 * client's, an end is an end, and bytes that the socket does not take stay with the caller.
 *
 * Private to frontend/http. Nothing here waits, calls back or frees.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_TRANSPORT_H
#define SHOAL_FRONTEND_HTTP_HTTP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "proto/result.h"

struct evbuffer;
struct ssl_st;

struct http_transport {
    int fd;
    struct ssl_st *ssl;        /* NULL: plain */
    bool handshaking;          /* nothing can be read or written yet */
    bool read_needs_writable;  /* TLS must write before it can read on */
    bool write_needs_readable; /* TLS must read before it can write on */
};

/* Takes over both; `fd` is non-blocking. */
void http_transport_init(struct http_transport *transport, int fd, struct ssl_st *ssl);
/* Closes. A TLS client that was sent no end sees a truncated stream. */
void http_transport_fini(struct http_transport *transport);

/* Continues the handshake. RESULT_EMPTY: call again when the socket is readable (or writable, if
 * read_needs_writable). Any result but RESULT_OK and RESULT_EMPTY ends the connection. */
enum result http_transport_handshake(struct http_transport *transport) RESULT_CHECKED;

/* Bytes read, at least one; 0: the client is gone; -1: nothing to read now. */
ssize_t http_transport_read(struct http_transport *transport, void *bytes, size_t count);
/* True if bytes are buffered here that the socket will not announce again. */
bool http_transport_has_more(const struct http_transport *transport);

/* Writes from the start of `unsent` as much as the socket takes and removes it. */
enum result http_transport_flush(struct http_transport *transport,
                                 struct evbuffer *unsent) RESULT_CHECKED;
/* Number of bytes of the parts that a plain socket took; -1: it is broken. With TLS 0: put them
 * into the buffer and flush. */
ssize_t http_transport_write(struct http_transport *transport, const struct iovec parts[],
                             int part_count);

/* Tells the client that no more bytes come. RESULT_EMPTY: try again when the socket is writable. */
enum result http_transport_shutdown(struct http_transport *transport) RESULT_CHECKED;

#endif
