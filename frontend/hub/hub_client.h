/*
 * HTTP requests to a hub: one handle, redirects followed by hand, an access token that only the hub
 * itself gets.
 */
#ifndef SHOAL_FRONTEND_HUB_HUB_CLIENT_H
#define SHOAL_FRONTEND_HUB_HUB_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

struct hub_source {
    const char *endpoint; /* http or https, a host, perhaps a path: https://huggingface.co */
    const char *token;    /* NULL: none; printable ASCII */
    uint32_t stall_s;     /* seconds without a byte after which a transfer is given up, >= 1 */
};

struct hub_client; /* opaque */

/* Keeps pointers to the strings of `source`. RESULT_INVALID: the endpoint is no such URL, or a token
 * would be sent over plain HTTP to another machine. */
enum result hub_client_create(const struct hub_source *source, struct hub_client **client,
                              struct error_text *error) RESULT_CHECKED;
void hub_client_destroy(struct hub_client *client); /* NULL is allowed */

/* Where a reply's bytes go. `restart` is called if the server sends the file from its first byte
 * although a later one was requested. Both return false to end the request (a full disk). */
struct hub_sink {
    void *context;
    bool (*restart)(void *context);
    bool (*add)(void *context, const char *bytes, size_t count);
};

struct hub_request {
    const char *path; /* below the endpoint, percent-encoded, with '/' at the start */
    uint64_t from;    /* first byte that is needed; > 0 only with a known size */
    uint64_t size;    /* of the whole file, or the maximum if !exact */
    bool exact;       /* any other size is an error */
};

/*
 * GET, blocking. The sink never gets more than size - from bytes.
 * RESULT_PEER_GONE: the connection was cut, the server is overloaded or stopped sending; a request
 * for the rest may succeed. RESULT_NOT_FOUND (404). RESULT_TOO_LARGE, RESULT_CORRUPT: more, or
 * another number of bytes than `size`. RESULT_INVALID: another status, or a redirect that is not
 * followed. RESULT_IO: the sink ended it, or libcurl fails.
 */
enum result hub_client_get(struct hub_client *client, const struct hub_request *request,
                           const struct hub_sink *sink, struct error_text *error) RESULT_CHECKED;

/* Appends `text` with all but unreserved characters escaped; '/' stays if `is_path`. False if it
 * does not fit. */
bool hub_path_append(char *path, size_t capacity, const char *text, bool is_path);

#endif
