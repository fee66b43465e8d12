/*
 * OpenSSL hashes (contract in hub_digest.h).
 */
#include "frontend/hub/hub_digest.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

struct hub_digest {
    EVP_MD_CTX *context;
    bool large;
    uint64_t size;
};

bool hub_digest_restart(struct hub_digest *digest)
{
    char head[40];
    if (EVP_DigestInit_ex(digest->context, digest->large ? EVP_sha256() : EVP_sha1(), NULL) != 1)
        return false;
    int length = snprintf(head, sizeof head, "blob %" PRIu64, digest->size);
    return digest->large || hub_digest_add(digest, head, (size_t)length + 1);
}

struct hub_digest *hub_digest_create(const struct hub_file *file)
{
    struct hub_digest *digest = calloc(1, sizeof *digest);
    if (!digest)
        return NULL;
    digest->large = file->large;
    digest->size = file->size;
    digest->context = EVP_MD_CTX_new();
    if (digest->context && hub_digest_restart(digest))
        return digest;
    hub_digest_destroy(digest);
    return NULL;
}

bool hub_digest_add(struct hub_digest *digest, const void *bytes, size_t count)
{
    return EVP_DigestUpdate(digest->context, bytes, count) == 1;
}

bool hub_digest_finish(struct hub_digest *digest, char hash[HUB_HASH_BYTES])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int count = 0;
    if (EVP_DigestFinal_ex(digest->context, bytes, &count) != 1 || 2 * count >= HUB_HASH_BYTES)
        return false;
    for (unsigned int i = 0; i < count; i++)
        snprintf(hash + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

void hub_digest_destroy(struct hub_digest *digest)
{
    if (!digest)
        return;
    EVP_MD_CTX_free(digest->context);
    free(digest);
}
