/*
 * The server's certificate and key, and the rules of its TLS: version 1.2 or newer, no
 * renegotiation, no compression, HTTP/1.1 by ALPN.
 */
#ifndef SHOAL_FRONTEND_HTTP_TLS_CONTEXT_H
#define SHOAL_FRONTEND_HTTP_TLS_CONTEXT_H

#include "proto/result.h"

struct ssl_st;
struct tls_context;

/* PEM files: the certificate followed by its chain, and its key without a password. The paths
 * outlive the context. */
enum result tls_context_create(const char *cert_path, const char *key_path,
                               struct tls_context **context,
                               struct error_text *error) RESULT_CHECKED;
/* Existing connections are not affected. */
void tls_context_destroy(struct tls_context *context);

/* Reads both files again, for new connections. On failure (a file is missing, the key does not fit
 * the certificate) nothing changes. */
enum result tls_context_reload(struct tls_context *context,
                               struct error_text *error) RESULT_CHECKED;

/* The server side of a new connection over `fd`; the caller frees. NULL: out of memory. */
struct ssl_st *tls_context_accept(const struct tls_context *context, int fd);

#endif
