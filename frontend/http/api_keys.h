/*
 * The API keys of this server: given as options, read from a file, or both.
 *
 * The file has one key per line. Empty lines and lines that start with '#' are skipped; white space
 * around a key is removed. A key is 1 to LIMIT_API_KEY_BYTES printable ASCII characters without
 * spaces. After it a line may have attributes (key_limits.h), as "sk-abc admin requests=60".
 *
 * Instead of a key, "sha256:" and its SHA-256 digest in 64 hexadecimal digits may be given.
 */
#ifndef SHOAL_FRONTEND_HTTP_API_KEYS_H
#define SHOAL_FRONTEND_HTTP_API_KEYS_H

#include <stdbool.h>

#include "frontend/base/client_key.h"
#include "frontend/http/http_parser.h"
#include "proto/result.h"

struct api_keys;

struct api_keys_config {
    const char *const *given; /* [given_count] */
    size_t given_count;
    const char *path;              /* of the file; NULL: none */
    bool readable_file;            /* accept a file that other users can read */
    struct client_rights defaults; /* of `given` keys, and of lines for what they do not state */
};

/* config->path must outlive the object, the given keys need not. Together they must hold at least
 * one key. */
enum result api_keys_create(const struct api_keys_config *config, struct api_keys **keys,
                            struct error_text *error) RESULT_CHECKED;
void api_keys_destroy(struct api_keys *keys);

#define API_KEY_DIGEST_BYTES 72

/* Writes "sha256:" and the key's digest in hexadecimal digits, or what stands for a key in this way already. */
void api_keys_hide(const char *key, char text[API_KEY_DIGEST_BYTES]);

/* Reads the file again. On failure the keys stay as they were. */
enum result api_keys_reload(struct api_keys *keys, struct error_text *error) RESULT_CHECKED;
size_t api_keys_count(const struct api_keys *keys);
/* The identity of key `index` < api_keys_count(). */
struct client_key api_keys_client(const struct api_keys *keys, size_t index);

/* True if the request has one of the keys, as `Authorization: Bearer KEY` or `x-api-key: KEY`.
 * *client then identifies the key, in whichever header it came, and *rights are the key's. Takes the
 * same time for every key and every guess. */
bool api_keys_admit(const struct api_keys *keys, const struct http_parser *request,
                    struct client_key *client, struct client_rights *rights);

#endif
