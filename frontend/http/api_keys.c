/*
 * Keys are kept and compared as SHA-256 digests. All have one length, so neither the length of a
 * key nor the position of the first wrong byte affects the time of a comparison, and a memory dump
 * of this process shows no key. Every digest is compared, even after a
 * match.
 *
 * Keys are random strings, not passwords: a plain digest without salt or work factor is enough.
 */
#include "frontend/http/api_keys.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/base/hex_digit.h"
#include "frontend/base/secret_memory.h"
#include "frontend/http/key_limits.h"
#include "proto/limits.h"
#include "proto/must.h"

struct key_row {
    struct client_key digest;
    struct client_rights rights;
};

struct api_keys {
    struct api_keys_config config;
    struct key_row *rows; /* [count] those of `config.given` first */
    size_t count;
};

static void digest_make(const char *key, size_t key_bytes, struct client_key *digest)
{
    must(EVP_Digest(key, key_bytes, digest->bytes, NULL, EVP_sha256(), NULL) == 1);
}

static const char digest_prefix[] = "sha256:";

/* Reads a digest that is given instead of a key. */
static bool digest_read(const char *text, size_t bytes, struct client_key *digest)
{
    const size_t prefix = sizeof digest_prefix - 1;
    if (bytes != prefix + 2 * sizeof digest->bytes || memcmp(text, digest_prefix, prefix) != 0)
        return false;
    for (size_t i = 0; i < sizeof digest->bytes; i++) {
        int high = hex_digit_value(text[prefix + 2 * i]),
            low = hex_digit_value(text[prefix + 2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

void api_keys_hide(const char *key, char text[API_KEY_DIGEST_BYTES])
{
    struct client_key digest;
    static_assert(sizeof digest_prefix + 2 * sizeof digest.bytes == API_KEY_DIGEST_BYTES,
                  "length of the text");
    if (!digest_read(key, strlen(key), &digest))
        digest_make(key, strlen(key), &digest);
    char *at = stpcpy(text, digest_prefix);
    for (size_t i = 0; i < sizeof digest.bytes; i++)
        at += sprintf(at, "%02x", digest.bytes[i]);
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

/* Appends one key, `text` up to the first space, with the attributes that follow it. `where` names its place in error texts,
 * which show nothing of the text. */
static enum result key_add(struct api_keys *keys, const char *text, size_t bytes, bool attributes,
                           const char *where, size_t line, struct error_text *error)
{
    size_t key_bytes = attributes ? 0 : bytes;
    while (key_bytes < bytes && text[key_bytes] != ' ' && text[key_bytes] != '\t')
        key_bytes++;
    if (!key_is_usable(text, key_bytes))
        return error_set(error, RESULT_INVALID,
                         "%s %zu: an API key is 1 to %u printable ASCII characters without spaces",
                         where, line, LIMIT_API_KEY_BYTES);
    if (keys->count == LIMIT_API_KEYS)
        return error_set(error, RESULT_TOO_LARGE, "more than %u API keys", LIMIT_API_KEYS);
    struct key_row *row = &keys->rows[keys->count++];
    row->rights = keys->config.defaults;
    if (!digest_read(text, key_bytes, &row->digest))
        digest_make(text, key_bytes, &row->digest);
    if (!key_limits_parse(text + key_bytes, bytes - key_bytes, &row->rights))
        return error_set(
            error, RESULT_INVALID,
            "%s %zu: after a key stand admin, requests=N, tokens=N, images=N, concurrent=N", where,
            line);
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
        enum result result = at == stop || *at == '#' ? RESULT_OK
                                                      : key_add(keys, at, (size_t)(stop - at), true,
                                                                "line", line, error);
        if (result != RESULT_OK)
            return result;
        at = next;
    }
    return RESULT_OK;
}

/* True if users other than the owner can read or change the open file. */
static bool is_readable_by_others(int fd)
{
    struct stat status;
    return fstat(fd, &status) != 0 || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0;
}

static enum result file_add(struct api_keys *keys, struct error_text *error)
{
    const char *path = keys->config.path;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, RESULT_IO, "cannot open the API keys in %.120s: %s", path,
                         strerror(errno));
    if (!keys->config.readable_file && is_readable_by_others(fd)) {
        close(fd);
        return error_set(error, RESULT_INVALID,
                         "other users can read the API keys in %.120s; chmod 600 it, or start with "
                         "--allow-readable-key-file",
                         path);
    }
    struct secret_memory text;
    secret_memory_init(&text, LIMIT_API_KEY_FILE);
    struct error_text why = {{0}};
    enum result result = secret_memory_read(&text, fd);
    if (result == RESULT_IO)
        (void)error_set(&why, result, "it cannot be read");
    else if (result == RESULT_TOO_LARGE)
        (void)error_set(&why, result, "it is larger than %u bytes", LIMIT_API_KEY_FILE);
    else
        result = lines_add(keys, text.bytes, text.size, &why);
    secret_memory_fini(&text);
    close(fd);
    if (result != RESULT_OK)
        return error_set(error, result, "API keys in %.100s: %.120s", path, why.text);
    return RESULT_OK;
}

/* Adds the keys of the file to `fresh`, which has the given ones, and makes it *keys. On failure
 * *keys stays. */
static enum result rows_complete(struct api_keys *keys, struct api_keys *fresh,
                                 struct error_text *error)
{
    enum result result = fresh->config.path ? file_add(fresh, error) : RESULT_OK;
    if (result == RESULT_OK && fresh->count == 0)
        result = error_set(error, RESULT_INVALID, "%.160s holds no API key",
                           fresh->config.path ? fresh->config.path : "the command line");
    if (result != RESULT_OK) {
        free(fresh->rows);
        return result;
    }
    free(keys->rows);
    *keys = *fresh;
    return RESULT_OK;
}

enum result api_keys_reload(struct api_keys *keys, struct error_text *error)
{
    struct api_keys fresh = {.config = keys->config, .count = keys->config.given_count};
    fresh.rows = must_alloc(LIMIT_API_KEYS, sizeof fresh.rows[0]);
    memcpy(fresh.rows, keys->rows, fresh.count * sizeof fresh.rows[0]);
    return rows_complete(keys, &fresh, error);
}

enum result api_keys_create(const struct api_keys_config *config, struct api_keys **keys,
                            struct error_text *error)
{
    struct api_keys *made = must_alloc(1, sizeof *made);
    struct api_keys fresh = {.config = *config};
    fresh.rows = must_alloc(LIMIT_API_KEYS, sizeof fresh.rows[0]);
    enum result result = RESULT_OK;
    for (size_t i = 0; i < config->given_count && result == RESULT_OK; i++)
        result = key_add(&fresh, config->given[i], strlen(config->given[i]), false, "--api-key",
                         i + 1, error);
    fresh.config.given = NULL;
    if (result != RESULT_OK)
        free(fresh.rows);
    else
        result = rows_complete(made, &fresh, error);
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
    free(keys->rows);
    free(keys);
}

size_t api_keys_count(const struct api_keys *keys)
{
    return keys->count;
}

struct client_key api_keys_client(const struct api_keys *keys, size_t index)
{
    must(index < keys->count);
    return keys->rows[index].digest;
}

/* Sets *client and *rights when the key is known. */
static bool key_is_known(const struct api_keys *keys, const char *key, struct client_key *client,
                         struct client_rights *rights)
{
    struct client_key digest;
    digest_make(key, strlen(key), &digest);
    size_t found = keys->count;
    for (size_t i = 0; i < keys->count; i++)
        found = CRYPTO_memcmp(digest.bytes, keys->rows[i].digest.bytes, CLIENT_KEY_BYTES) == 0
                    ? i
                    : found;
    if (found == keys->count)
        return false;
    *client = digest;
    *rights = keys->rows[found].rights;
    return true;
}

bool api_keys_admit(const struct api_keys *keys, const struct http_parser *request,
                    struct client_key *client, struct client_rights *rights)
{
    static const char scheme[] = "bearer ";
    const char *bearer = http_parser_header(request, "authorization");
    const char *plain = http_parser_header(request, "x-api-key");
    bool known = false;
    if (bearer && strncasecmp(bearer, scheme, sizeof scheme - 1) == 0) {
        const char *key = bearer + sizeof scheme - 1;
        known = key_is_known(keys, key + strspn(key, " "), client, rights);
    }
    if (plain)
        known = key_is_known(keys, plain, client, rights) || known;
    return known;
}
