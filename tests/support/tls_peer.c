#include "tests/support/tls_peer.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/must.h"

void tls_files_create(struct tls_files *files, const char *password)
{
    strcpy(files->folder, "/tmp/shoal-tls-XXXXXX");
    must(mkdtemp(files->folder) != NULL);
    snprintf(files->cert, sizeof files->cert, "%s/cert.pem", files->folder);
    snprintf(files->key, sizeof files->key, "%s/key.pem", files->folder);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    must(key && cert && X509_set_pubkey(cert, key) == 1);
    must(X509_gmtime_adj(X509_getm_notBefore(cert), 0) != NULL);
    must(X509_gmtime_adj(X509_getm_notAfter(cert), 86400) != NULL);
    must(X509_sign(cert, key, EVP_sha256()) > 0);
    FILE *cert_file = fopen(files->cert, "w");
    FILE *key_file = fopen(files->key, "w");
    must(cert_file && key_file && PEM_write_X509(cert_file, cert) == 1);
    must(PEM_write_PrivateKey(key_file, key, password ? EVP_aes_128_cbc() : NULL,
                              (const unsigned char *)password, password ? (int)strlen(password) : 0,
                              NULL, NULL) == 1);
    must(fclose(cert_file) == 0 && fclose(key_file) == 0);
    X509_free(cert);
    EVP_PKEY_free(key);
}

void tls_files_destroy(struct tls_files *files)
{
    (void)unlink(files->cert);
    (void)unlink(files->key);
    must(rmdir(files->folder) == 0);
}

SSL *tls_client_open(int fd)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    must(context != NULL);
    SSL *ssl = SSL_new(context);
    SSL_CTX_free(context); /* the connection holds a reference */
    must(ssl != NULL && SSL_set_fd(ssl, fd) == 1);
    SSL_set_connect_state(ssl);
    return ssl;
}
