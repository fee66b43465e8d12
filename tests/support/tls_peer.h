/*
 * A certificate with its key in a temporary folder, and the client's side of TLS.
 */
#ifndef SHOAL_TESTS_SUPPORT_TLS_PEER_H
#define SHOAL_TESTS_SUPPORT_TLS_PEER_H

#include <openssl/ssl.h>

struct tls_files {
    char folder[40];
    char cert[64];
    char key[64];
};

/* Makes a self-signed certificate. With a password the key file is encrypted. */
void tls_files_create(struct tls_files *files, const char *password);
void tls_files_destroy(struct tls_files *files);

/* The client's side over `fd`, which stays open; verifies nothing. SSL_free() frees. */
SSL *tls_client_open(int fd);

#endif
