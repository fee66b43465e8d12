/*
 * The keys that open this server: given as options, read from a file, or both.
 *
 * The file has one key a line; empty lines and lines that begin with '#' are skipped, white space
 * around a key is not part of it. A key is 1 to LIMIT_API_KEY_BYTES printable ASCII characters
 * without spaces.
 */
#ifndef SHOAL_FRONTEND_HTTP_API_KEYS_H
#define SHOAL_FRONTEND_HTTP_API_KEYS_H

#include <stdbool.h>

#include "frontend/base/client_key.h"
#include "frontend/http/http_parser.h"
#include "proto/result.h"

struct api_keys;

/* `given` (`given_count` keys) and `path` (NULL: no file) must outlive the object; at least one of
 * them holds a key. */
enum result api_keys_create(const char *const given[], size_t given_count, const char *path,
                            struct api_keys **keys, struct error_text *error) RESULT_CHECKED;
void api_keys_destroy(struct api_keys *keys);

/* Reads the file again. Anything but RESULT_OK leaves the keys as they were. */
enum result api_keys_reload(struct api_keys *keys, struct error_text *error) RESULT_CHECKED;
size_t api_keys_count(const struct api_keys *keys);

/* Whether the request shows one of the keys, as `Authorization: Bearer KEY` or `x-api-key: KEY`.
 * Takes the same time whichever key it is and however much of one is right. When it does, *client
 * is which key it is, in whatever form it was shown. */
bool api_keys_admit(const struct api_keys *keys, const struct http_parser *request,
                    struct client_key *client);

#endif
