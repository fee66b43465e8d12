/*
 * Reads and writes a socket, with or without OpenSSL.
 *
 * OpenSSL works on the socket directly, not through libevent's bufferevents. Those write only when
 * the loop comes round, so "unsent" would count a whole batch of tokens of every healthy stream;
 * and they read into their own buffer, so the end of a connection would follow other rules than a
 * plain one's. With SSL_read and SSL_write in place of recv and send the connection has one state
 * machine, and all limits and time-outs hold for both.
 *
 * A record that the socket takes only in part stays inside OpenSSL, and the next SSL_write must
 * start with the same bytes and not be shorter. Both hold here: bytes leave `unsent` only when they
 * are written, it grows only at its end, and each write passes what is there up to RECORD_BYTES.
 *
 * OpenSSL's errors are in a list of the thread, which is emptied before each call whose result is
 * read.
 */
#include "frontend/http/http_transport.h"

#include <errno.h>
#include <event2/buffer.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD_BYTES  16384u /* maximum of a TLS record */
#define FLUSH_RECORDS 16     /* per call, so that one reader does not hold up the loop */

void http_transport_init(struct http_transport *transport, int fd, struct ssl_st *ssl)
{
    *transport = (struct http_transport){.fd = fd, .ssl = ssl, .handshaking = ssl != NULL};
}

void http_transport_fini(struct http_transport *transport)
{
    SSL_free(transport->ssl);
    close(transport->fd);
}

/* Sets whether, and when, the call can be repeated. */
static bool is_for_later(struct http_transport *transport, int returned)
{
    int error = SSL_get_error(transport->ssl, returned);
    transport->read_needs_writable = error == SSL_ERROR_WANT_WRITE;
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

enum result http_transport_handshake(struct http_transport *transport)
{
    ERR_clear_error();
    transport->read_needs_writable = false;
    int returned = SSL_do_handshake(transport->ssl);
    if (returned == 1) {
        transport->handshaking = false;
        return RESULT_OK;
    }
    return is_for_later(transport, returned) ? RESULT_EMPTY : RESULT_CORRUPT;
}

ssize_t http_transport_read(struct http_transport *transport, void *bytes, size_t count)
{
    if (!transport->ssl) {
        ssize_t taken = recv(transport->fd, bytes, count, MSG_DONTWAIT);
        if (taken < 0)
            return errno == EAGAIN || errno == EINTR ? -1 : 0;
        return taken;
    }
    size_t taken = 0;
    ERR_clear_error();
    transport->read_needs_writable = false;
    int returned = SSL_read_ex(transport->ssl, bytes, count, &taken);
    if (returned == 1)
        return (ssize_t)taken;
    return is_for_later(transport, returned) ? -1 : 0;
}

bool http_transport_has_more(const struct http_transport *transport)
{
    return transport->ssl && !transport->handshaking && SSL_pending(transport->ssl) > 0;
}

ssize_t http_transport_write(struct http_transport *transport, const struct iovec parts[],
                             int part_count)
{
    if (transport->ssl)
        return 0;
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = (size_t)part_count};
    ssize_t sent = part_count == 1 ? send(transport->fd, parts[0].iov_base, parts[0].iov_len, flags)
                                   : sendmsg(transport->fd, &message, flags);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    return sent;
}

/* Writes one record. RESULT_EMPTY: the socket takes no more now. */
static enum result record_write(struct http_transport *transport, struct evbuffer *unsent)
{
    char bytes[RECORD_BYTES];
    size_t written = 0;
    ev_ssize_t count = evbuffer_copyout(unsent, bytes, sizeof bytes);
    if (count <= 0)
        return count == 0 ? RESULT_EMPTY : RESULT_IO;
    ERR_clear_error();
    int returned = SSL_write_ex(transport->ssl, bytes, (size_t)count, &written);
    if (returned == 1)
        return evbuffer_drain(unsent, written) == 0 ? RESULT_OK : RESULT_IO;
    int error = SSL_get_error(transport->ssl, returned);
    transport->write_needs_readable = error == SSL_ERROR_WANT_READ;
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? RESULT_EMPTY : RESULT_IO;
}

enum result http_transport_flush(struct http_transport *transport, struct evbuffer *unsent)
{
    if (!transport->ssl) {
        if (evbuffer_write(unsent, transport->fd) < 0 && errno != EAGAIN && errno != EINTR)
            return RESULT_IO;
        return RESULT_OK;
    }
    enum result result = RESULT_OK;
    transport->write_needs_readable = false;
    for (int i = 0; i < FLUSH_RECORDS && result == RESULT_OK; i++)
        result = record_write(transport, unsent);
    return result == RESULT_EMPTY ? RESULT_OK : result;
}

enum result http_transport_shutdown(struct http_transport *transport)
{
    if (transport->ssl && !transport->handshaking) {
        ERR_clear_error();
        int returned = SSL_shutdown(transport->ssl);
        if (returned < 0 && SSL_get_error(transport->ssl, returned) == SSL_ERROR_WANT_WRITE)
            return RESULT_EMPTY;
    }
    (void)shutdown(transport->fd, SHUT_WR);
    return RESULT_OK;
}
