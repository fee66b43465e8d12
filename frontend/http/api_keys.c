/*
 * Keys are kept and compared as SHA-256 digests. All have one length, so neither the length of a
 * key nor the position of the first wrong byte affects the time of a comparison, and a memory dump
 * of this process shows no key that came from the file. Every digest is compared, even after a
 * match.
 *
 * Keys are random strings, not passwords: a plain digest without salt or work factor is enough.
 */
#include "frontend/http/api_keys.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/limits.h"
#include "proto/must.h"

struct api_keys {
    const char *const *given;
    size_t given_count;
    const char *path;
    struct client_key *digests;
    size_t count;
};

static void digest_make(const char *key, size_t key_bytes, struct client_key *digest)
{
    must(EVP_Digest(key, key_bytes, digest->bytes, NULL, EVP_sha256(), NULL) == 1);
}

static bool key_is_usable(const char *key, size_t bytes)
{
    if (bytes == 0 || bytes > LIMIT_API_KEY_BYTES)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (key[i] <= 0x20 || key[i] >= 0x7f)
            return false;
    }
    return true;
}

/* Appends one key. `where` names its place in error texts. */
static enum result key_add(struct api_keys *keys, const char *key, size_t key_bytes,
                           const char *where, size_t line, struct error_text *error)
{
    if (!key_is_usable(key, key_bytes))
        return error_set(error, RESULT_INVALID,
                         "%s %zu: an API key is 1 to %u printable ASCII characters without spaces",
                         where, line, LIMIT_API_KEY_BYTES);
    if (keys->count == LIMIT_API_KEYS)
        return error_set(error, RESULT_TOO_LARGE, "more than %u API keys", LIMIT_API_KEYS);
    digest_make(key, key_bytes, &keys->digests[keys->count++]);
    return RESULT_OK;
}

static enum result lines_add(struct api_keys *keys, const char *text, size_t bytes,
                             struct error_text *error)
{
    size_t line = 1;
    for (const char *at = text, *end = text + bytes; at < end; line++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *stop = line_end ? line_end : end;
        const char *next = line_end ? line_end + 1 : end;
        while (at < stop && (*at == ' ' || *at == '\t'))
            at++;
        while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '\r'))
            stop--;
        enum result result = at == stop || *at == '#'
                                 ? RESULT_OK
                                 : key_add(keys, at, (size_t)(stop - at), "line", line, error);
        if (result != RESULT_OK)
            return result;
        at = next;
    }
    return RESULT_OK;
}

static enum result file_add(struct api_keys *keys, struct error_text *error)
{
    FILE *file = fopen(keys->path, "re");
    if (!file)
        return error_set(error, RESULT_IO, "cannot open the API keys in %.120s: %s", keys->path,
                         strerror(errno));
    char *text = must_alloc(LIMIT_API_KEY_FILE + 1, 1);
    size_t bytes = fread(text, 1, LIMIT_API_KEY_FILE + 1, file);
    struct error_text why = {{0}};
    enum result result = RESULT_OK;
    if (ferror(file))
        result = error_set(&why, RESULT_IO, "it cannot be read");
    else if (bytes > LIMIT_API_KEY_FILE)
        result =
            error_set(&why, RESULT_TOO_LARGE, "it is larger than %u bytes", LIMIT_API_KEY_FILE);
    else
        result = lines_add(keys, text, bytes, &why);
    OPENSSL_cleanse(text, bytes);
    free(text);
    fclose(file);
    if (result != RESULT_OK)
        return error_set(error, result, "API keys in %.100s: %.120s", keys->path, why.text);
    return RESULT_OK;
}

enum result api_keys_reload(struct api_keys *keys, struct error_text *error)
{
    struct api_keys fresh = *keys;
    fresh.count = 0;
    fresh.digests = must_alloc(LIMIT_API_KEYS, sizeof fresh.digests[0]);
    enum result result = RESULT_OK;
    for (size_t i = 0; i < keys->given_count && result == RESULT_OK; i++)
        result = key_add(&fresh, keys->given[i], strlen(keys->given[i]), "--api-key", i + 1, error);
    if (result == RESULT_OK && keys->path)
        result = file_add(&fresh, error);
    if (result == RESULT_OK && fresh.count == 0)
        result = error_set(error, RESULT_INVALID, "%.160s holds no API key",
                           keys->path ? keys->path : "the command line");
    if (result != RESULT_OK) {
        free(fresh.digests);
        return result;
    }
    free(keys->digests);
    *keys = fresh;
    return RESULT_OK;
}

enum result api_keys_create(const char *const given[], size_t given_count, const char *path,
                            struct api_keys **keys, struct error_text *error)
{
    struct api_keys *made = must_alloc(1, sizeof *made);
    *made = (struct api_keys){.given = given, .given_count = given_count, .path = path};
    enum result result = api_keys_reload(made, error);
    if (result != RESULT_OK) {
        free(made);
        return result;
    }
    *keys = made;
    return RESULT_OK;
}

void api_keys_destroy(struct api_keys *keys)
{
    if (!keys)
        return;
    free(keys->digests);
    free(keys);
}

size_t api_keys_count(const struct api_keys *keys)
{
    return keys->count;
}

/* Sets *client when the key is known. */
static bool key_is_known(const struct api_keys *keys, const char *key, struct client_key *client)
{
    struct client_key shown;
    digest_make(key, strlen(key), &shown);
    unsigned found = 0;
    for (size_t i = 0; i < keys->count; i++)
        found |= CRYPTO_memcmp(shown.bytes, keys->digests[i].bytes, CLIENT_KEY_BYTES) == 0;
    if (found != 0)
        *client = shown;
    return found != 0;
}

bool api_keys_admit(const struct api_keys *keys, const struct http_parser *request,
                    struct client_key *client)
{
    static const char scheme[] = "bearer ";
    const char *bearer = http_parser_header(request, "authorization");
    const char *plain = http_parser_header(request, "x-api-key");
    bool known = false;
    if (bearer && strncasecmp(bearer, scheme, sizeof scheme - 1) == 0) {
        const char *key = bearer + sizeof scheme - 1;
        known = key_is_known(keys, key + strspn(key, " "), client);
    }
    if (plain)
        known = key_is_known(keys, plain, client) || known;
    return known;
}
