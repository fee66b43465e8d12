/*
 * One SSL_CTX, replaced as a whole when the files are read again. OpenSSL counts references, so a
 * connection keeps the certificate it started with, and an invalid new pair never replaces a valid
 * old one.
 *
 * OpenSSL's defaults are narrowed: no renegotiation (a client could make the server repeat
 * handshakes without end on one connection), no compression (CRIME), no session cache (memory that
 * clients fill; tickets serve as well), nothing older than TLS 1.2, and in 1.2 only forward-secret
 * key exchange with authenticated encryption. A client that offers ALPN
 * protocols without http/1.1 is refused in the handshake, because it could not read the reply.
 */
#include "frontend/http/tls_context.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/base/secret_memory.h"
#include "proto/limits.h"
#include "proto/must.h"

struct tls_context {
    const char *cert_path;
    const char *key_path;
    SSL_CTX *ssl;
};

static int on_alpn(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_bytes,
                   const unsigned char *offered, unsigned int offered_bytes, void *context)
{
    (void)ssl;
    (void)context;
    static const unsigned char ours[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    unsigned char *match = NULL;
    if (SSL_select_next_proto(&match, chosen_bytes, ours, sizeof ours, offered, offered_bytes) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = match;
    return SSL_TLSEXT_ERR_OK;
}

/* A key with a password must not make the server wait for input on a terminal. */
static int on_password(char *buffer, int bytes, int writing, void *context)
{
    (void)buffer;
    (void)bytes;
    (void)writing;
    (void)context;
    return -1;
}

static enum result openssl_fail(struct error_text *error, const char *what, const char *path)
{
    char why[160] = "no reason given";
    unsigned long code = ERR_peek_last_error();
    if (code)
        snprintf(why, sizeof why, "%s",
                 ERR_reason_error_string(code) ? ERR_reason_error_string(code) : "unknown error");
    ERR_clear_error();
    return error_set(error, RESULT_INVALID, "%s %.100s: %.80s", what, path, why);
}

/* `text`: memory for the file. */
static enum result key_load(const struct tls_context *context, SSL_CTX *ssl,
                            struct secret_memory *text, struct error_text *error)
{
    int fd = open(context->key_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, RESULT_INVALID, "cannot use the key in %.100s: %.80s",
                         context->key_path, strerror(errno));
    enum result result = secret_memory_read(text, fd);
    close(fd);
    if (result != RESULT_OK)
        return error_set(
            error, RESULT_INVALID, "cannot use the key in %.100s: %s", context->key_path,
            result == RESULT_TOO_LARGE ? "the file is too large" : "it cannot be read");
    BIO *source = BIO_new_mem_buf(text->bytes, (int)text->size);
    must(source != NULL);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(source, NULL, on_password, NULL);
    /* This also compares the key with the certificate. */
    bool used = key && SSL_CTX_use_PrivateKey(ssl, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(source);
    return used ? RESULT_OK : openssl_fail(error, "cannot use the key in", context->key_path);
}

static enum result files_load(const struct tls_context *context, SSL_CTX *ssl,
                              struct error_text *error)
{
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(ssl, context->cert_path) != 1)
        return openssl_fail(error, "cannot use the certificate in", context->cert_path);
    struct secret_memory text;
    secret_memory_init(&text, LIMIT_TLS_KEY_FILE);
    enum result result = key_load(context, ssl, &text, error);
    secret_memory_fini(&text);
    if (result != RESULT_OK)
        return result;
    if (SSL_CTX_check_private_key(ssl) != 1)
        return openssl_fail(error, "the certificate does not belong to the key in",
                            context->key_path);
    return RESULT_OK;
}

enum result tls_context_reload(struct tls_context *context, struct error_text *error)
{
    SSL_CTX *fresh = SSL_CTX_new(TLS_server_method());
    must(fresh != NULL);
    must(SSL_CTX_set_min_proto_version(fresh, TLS1_2_VERSION) == 1);
    must(SSL_CTX_set_cipher_list(fresh, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1);
    SSL_CTX_set_options(fresh,
                        SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CLEANSE_PLAINTEXT);
    SSL_CTX_set_mode(fresh, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(fresh, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(fresh, on_password);
    SSL_CTX_set_alpn_select_cb(fresh, on_alpn, NULL);
    enum result result = files_load(context, fresh, error);
    if (result != RESULT_OK) {
        SSL_CTX_free(fresh);
        return result;
    }
    SSL_CTX_free(context->ssl);
    context->ssl = fresh;
    return RESULT_OK;
}

enum result tls_context_create(const char *cert_path, const char *key_path,
                               struct tls_context **context, struct error_text *error)
{
    struct tls_context *made = must_alloc(1, sizeof *made);
    made->cert_path = cert_path;
    made->key_path = key_path;
    enum result result = tls_context_reload(made, error);
    if (result != RESULT_OK) {
        free(made);
        return result;
    }
    *context = made;
    return RESULT_OK;
}

void tls_context_destroy(struct tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ssl);
    free(context);
}

struct ssl_st *tls_context_accept(const struct tls_context *context, int fd)
{
    SSL *ssl = SSL_new(context->ssl);
    if (ssl && SSL_set_fd(ssl, fd) == 1) {
        SSL_set_accept_state(ssl);
        return ssl;
    }
    SSL_free(ssl);
    return NULL;
}
