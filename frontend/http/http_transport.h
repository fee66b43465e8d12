/*
 * Bytes of one client's socket, plain or through TLS, with the same meaning: what is read is what
 * the client sent, an end is an end, what the socket does not take now stays with the caller.
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
    bool read_needs_writable;  /* TLS has an answer of its own to write before it reads on */
    bool write_needs_readable; /* and the other way round */
};

/* Owns both; `fd` is non-blocking. */
void http_transport_init(struct http_transport *transport, int fd, struct ssl_st *ssl);
/* Closes. A client of TLS to whom no end was sent sees a cut. */
void http_transport_fini(struct http_transport *transport);

/* Goes on with the handshake. RESULT_EMPTY: when the socket is readable (or writable, if
 * read_needs_writable) there is more to do; anything else but RESULT_OK ends the connection. */
enum result http_transport_handshake(struct http_transport *transport) RESULT_CHECKED;

/* Bytes read, at least one; 0: the client is gone; -1: nothing is there now. */
ssize_t http_transport_read(struct http_transport *transport, void *bytes, size_t count);
/* Bytes are held here that the socket will not announce again. */
bool http_transport_has_more(const struct http_transport *transport);

/* Writes from the front of `unsent` as much as the socket takes and removes it. */
enum result http_transport_flush(struct http_transport *transport,
                                 struct evbuffer *unsent) RESULT_CHECKED;
/* Bytes of the parts that a plain socket took; -1: it is broken. With TLS 0: put them into the
 * buffer and flush. */
ssize_t http_transport_write(struct http_transport *transport, const struct iovec parts[],
                             int part_count);

/* Tells the client that nothing more comes. RESULT_EMPTY: try again when the socket is writable. */
enum result http_transport_shutdown(struct http_transport *transport) RESULT_CHECKED;

#endif
