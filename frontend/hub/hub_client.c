/*
 * libcurl transfers the bytes; this file decides what is accepted.
 *
 * A hub redirects to its storage, which is another host. libcurl follows no redirects: each is a new
 * request, and the token is sent only if scheme, host and port are the endpoint's. From HTTPS no
 * redirect leads to HTTP. The first byte of a body decides whether it is taken: a status other than
 * 200 and 206, or a length that contradicts the size, ends the request before anything is written.
 *
 * Proxies are libcurl's own matter (https_proxy in the environment). Compression is not requested,
 * so bytes are those of the file.
 */
#include "frontend/hub/hub_client.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "frontend/base/monotonic_clock.h"
#include "proto/limits.h"

#define CONNECT_TIMEOUT_MS 15000L
#define STALL_BYTES_PER_S  16L /* fewer count as none */
#define SKIPPED_BYTES_MOST 65536u

struct hub_client {
    struct hub_source source;
    CURL *handle;
    CURLU *endpoint;
    struct curl_slist *token_header; /* NULL: no token */
};

/* One request with its redirects. */
struct transfer {
    struct hub_client *client;
    const struct hub_request *request;
    const struct hub_sink *sink;
    struct error_text *error;
    uint64_t taken;   /* bytes given to the sink since its start or restart */
    uint64_t skipped; /* bytes of a reply that is no file */
    uint64_t head_bytes;
    uint64_t range_start;
    uint64_t range_size;
    bool has_range;
    bool body_begun;
    int64_t last_byte_ms;
    enum result failure; /* with error set; RESULT_OK: none */
};

/* --- URLs ------------------------------------------------------------------------------------- */

bool hub_path_append(char *path, size_t capacity, const char *text, bool is_path)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    size_t at = strlen(path);
    for (; *text; text++) {
        bool keep = strchr(plain, *text) || (is_path && *text == '/');
        if (at + (keep ? 1 : 3) >= capacity)
            return false;
        at += (size_t)snprintf(path + at, capacity - at, keep ? "%c" : "%%%02X",
                               (unsigned char)*text);
    }
    return true;
}

static bool url_part_is(CURLU *url, CURLUPart part, const char *value)
{
    char *text = NULL;
    bool equal = curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                 strcasecmp(text, value) == 0;
    curl_free(text);
    return equal;
}

static bool urls_share(CURLU *one, CURLU *other, CURLUPart part)
{
    char *text = NULL;
    bool equal = curl_url_get(other, part, &text, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                 url_part_is(one, part, text);
    curl_free(text);
    return equal;
}

static bool same_origin(CURLU *one, CURLU *other)
{
    return urls_share(one, other, CURLUPART_SCHEME) && urls_share(one, other, CURLUPART_HOST) &&
           urls_share(one, other, CURLUPART_PORT);
}

static bool url_has(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

static bool is_web(CURLU *url)
{
    return (url_part_is(url, CURLUPART_SCHEME, "https") ||
            url_part_is(url, CURLUPART_SCHEME, "http")) &&
           url_has(url, CURLUPART_HOST) && !url_has(url, CURLUPART_USER) &&
           !url_has(url, CURLUPART_PASSWORD);
}

static bool is_this_machine(CURLU *url)
{
    return url_part_is(url, CURLUPART_HOST, "localhost") ||
           url_part_is(url, CURLUPART_HOST, "127.0.0.1") ||
           url_part_is(url, CURLUPART_HOST, "[::1]");
}

/* --- the client ------------------------------------------------------------------------------- */

static enum result token_take(struct hub_client *client, struct error_text *error)
{
    const char *token = client->source.token;
    char header[LIMIT_HUB_TOKEN_BYTES + 32];
    if (!token)
        return RESULT_OK;
    for (const char *at = token; *at; at++)
        if (*at <= ' ' || *at > '~')
            return error_set(error, RESULT_INVALID, "the token has a character that none can have");
    if (strlen(token) > LIMIT_HUB_TOKEN_BYTES)
        return error_set(error, RESULT_INVALID, "the token is longer than %u bytes",
                         LIMIT_HUB_TOKEN_BYTES);
    if (!url_part_is(client->endpoint, CURLUPART_SCHEME, "https") &&
        !is_this_machine(client->endpoint))
        return error_set(error, RESULT_INVALID,
                         "a token is not sent over plain HTTP to another machine (%.100s)",
                         client->source.endpoint);
    snprintf(header, sizeof header, "Authorization: Bearer %s", token);
    client->token_header = curl_slist_append(NULL, header);
    explicit_bzero(header, sizeof header);
    return client->token_header ? RESULT_OK
                                : error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
}

enum result hub_client_create(const struct hub_source *source, struct hub_client **client,
                              struct error_text *error)
{
    *client = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(error, RESULT_IO, "libcurl cannot be started");
    struct hub_client *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    made->source = *source;
    made->handle = curl_easy_init();
    made->endpoint = curl_url();
    enum result result = RESULT_OK;
    if (!made->handle || !made->endpoint)
        result = error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    else if (curl_url_set(made->endpoint, CURLUPART_URL, source->endpoint, 0) != CURLUE_OK ||
             !is_web(made->endpoint) || url_has(made->endpoint, CURLUPART_QUERY) ||
             url_has(made->endpoint, CURLUPART_FRAGMENT))
        result = error_set(error, RESULT_INVALID,
                           "the endpoint '%.100s' is no URL of http or https with a host",
                           source->endpoint);
    else
        result = token_take(made, error);
    if (result != RESULT_OK) {
        hub_client_destroy(made);
        return result;
    }
    *client = made;
    return RESULT_OK;
}

void hub_client_destroy(struct hub_client *client)
{
    if (!client)
        return;
    for (struct curl_slist *at = client->token_header; at; at = at->next)
        explicit_bzero(at->data, strlen(at->data));
    curl_slist_free_all(client->token_header);
    curl_easy_cleanup(client->handle);
    curl_url_cleanup(client->endpoint);
    free(client);
}

/* --- callbacks of libcurl --------------------------------------------------------------------- */

static size_t fail(struct transfer *transfer, enum result result)
{
    transfer->failure = result;
    return 0;
}

static enum result stall_tell(const struct transfer *transfer)
{
    return error_set(transfer->error, RESULT_PEER_GONE, "its server sends nothing for %u s",
                     transfer->client->source.stall_s);
}

/* "bytes 100-199/200" */
static void range_read(struct transfer *transfer, const char *value, size_t count)
{
    char text[80];
    uint64_t last;
    snprintf(text, sizeof text, "%.*s", (int)(count < sizeof text ? count : sizeof text - 1),
             value);
    transfer->has_range = sscanf(text, " bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64,
                                 &transfer->range_start, &last, &transfer->range_size) == 3;
}

/* libcurl calls it about once a second while nothing arrives. Its own measure of low speed is an
 * average over five seconds, so a burst would delay it. */
static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    struct transfer *transfer = context;
    int64_t silent_ms = monotonic_clock_ms() - transfer->last_byte_ms;
    if (silent_ms < (int64_t)transfer->client->source.stall_s * 1000)
        return 0;
    transfer->failure = stall_tell(transfer);
    return 1;
}

static size_t on_header(char *bytes, size_t one, size_t count, void *context)
{
    (void)one;
    struct transfer *transfer = context;
    static const char range[] = "content-range:";
    transfer->head_bytes += count;
    transfer->last_byte_ms = monotonic_clock_ms();
    if (transfer->head_bytes > LIMIT_HTTP_HEAD_BYTES) {
        (void)error_set(transfer->error, RESULT_INVALID, "its headers have more than %u bytes",
                        LIMIT_HTTP_HEAD_BYTES);
        return fail(transfer, RESULT_INVALID);
    }
    if (count > sizeof range && strncasecmp(bytes, range, sizeof range - 1) == 0)
        range_read(transfer, bytes + sizeof range - 1, count - (sizeof range - 1));
    return count;
}

/* The reply's status and headers fit the request; nothing has been written. */
static bool body_begin(struct transfer *transfer, long status)
{
    const struct hub_request *request = transfer->request;
    curl_off_t length = -1;
    (void)curl_easy_getinfo(transfer->client->handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    uint64_t from = status == 206 ? request->from : 0;
    transfer->body_begun = true;
    if (status == 206 && (!transfer->has_range || transfer->range_start != from ||
                          transfer->range_size != request->size)) {
        transfer->failure = error_set(transfer->error, RESULT_CORRUPT,
                                      "its server sends other bytes than were requested");
        return false;
    }
    if (request->exact && length >= 0 && (uint64_t)length != request->size - from) {
        transfer->failure = error_set(transfer->error, RESULT_CORRUPT,
                                      "its server sends %" PRId64 " bytes instead of %" PRIu64,
                                      (int64_t)length, request->size - from);
        return false;
    }
    if (status == 200 && request->from > 0 && !transfer->sink->restart(transfer->sink->context)) {
        transfer->failure = RESULT_IO;
        return false;
    }
    transfer->taken = from;
    return true;
}

static size_t on_body(char *bytes, size_t one, size_t count, void *context)
{
    (void)one;
    struct transfer *transfer = context;
    long status = 0;
    transfer->last_byte_ms = monotonic_clock_ms();
    (void)curl_easy_getinfo(transfer->client->handle, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200 && !(status == 206 && transfer->request->from > 0)) {
        transfer->skipped += count;
        return transfer->skipped > SKIPPED_BYTES_MOST ? 0 : count;
    }
    if (!transfer->body_begun && !body_begin(transfer, status))
        return 0;
    if (count > transfer->request->size - transfer->taken) {
        (void)error_set(transfer->error, RESULT_TOO_LARGE,
                        "its server sends more than the %" PRIu64 " bytes that it may have",
                        transfer->request->size);
        return fail(transfer, RESULT_TOO_LARGE);
    }
    if (!transfer->sink->add(transfer->sink->context, bytes, count))
        return fail(transfer, RESULT_IO);
    transfer->taken += count;
    return count;
}

/* --- one request ------------------------------------------------------------------------------ */

static bool handle_set(struct transfer *transfer, CURLU *url)
{
    struct hub_client *client = transfer->client;
    CURL *handle = client->handle;
    char range[32];
    snprintf(range, sizeof range, "%" PRIu64 "-", transfer->request->from);
    curl_easy_reset(handle); /* keeps connections */
    bool own = same_origin(url, client->endpoint);
    return curl_easy_setopt(handle, CURLOPT_CURLU, url) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_USERAGENT, "shoal") == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_HTTPHEADER, own ? client->token_header : NULL) ==
               CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_RANGE, transfer->request->from > 0 ? range : NULL) ==
               CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES_PER_S) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, (long)client->source.stall_s) ==
               CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_XFERINFODATA, transfer) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_WRITEDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_HEADERDATA, transfer) == CURLE_OK;
}

static enum result code_tell(const struct transfer *transfer, CURLcode code)
{
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        return error_set(transfer->error, RESULT_OUT_OF_MEMORY, "out of memory");
    case CURLE_OPERATION_TIMEDOUT: return stall_tell(transfer);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        return error_set(transfer->error, RESULT_INVALID, "%.150s", curl_easy_strerror(code));
    default: /* names, connections, cut replies: another try may succeed */
        return error_set(transfer->error, RESULT_PEER_GONE, "%.150s", curl_easy_strerror(code));
    }
}

static enum result status_tell(const struct transfer *transfer, long status)
{
    bool token = transfer->client->token_header != NULL;
    if (status == 401 || status == 403)
        return error_set(transfer->error, RESULT_INVALID, "its server answers %ld: %s", status,
                         token ? "the token has no access to it"
                               : "it needs a token (--token-file, HF_TOKEN), or does not exist");
    if (status == 404)
        return error_set(transfer->error, RESULT_NOT_FOUND,
                         "its server does not have it (status 404)");
    if (status == 408 || status == 429 || (status >= 500 && status <= 504))
        return error_set(transfer->error, RESULT_PEER_GONE, "its server answers with status %ld",
                         status);
    return error_set(transfer->error, RESULT_INVALID, "its server answers with status %ld", status);
}

/* Sets the URL to the redirect's. */
static enum result redirect_take(struct transfer *transfer, CURLU *url)
{
    char *to = NULL;
    bool was_https = url_part_is(url, CURLUPART_SCHEME, "https");
    if (curl_easy_getinfo(transfer->client->handle, CURLINFO_REDIRECT_URL, &to) != CURLE_OK ||
        !to || strlen(to) > LIMIT_HUB_URL_BYTES ||
        curl_url_set(url, CURLUPART_URL, to, 0) != CURLUE_OK || !is_web(url))
        return error_set(transfer->error, RESULT_INVALID,
                         "its server redirects to no URL of http or https");
    if (was_https && !url_part_is(url, CURLUPART_SCHEME, "https"))
        return error_set(transfer->error, RESULT_INVALID,
                         "its server redirects from https to http");
    return RESULT_OK;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* *done: the reply is complete; otherwise the URL is that of a redirect. */
static enum result request_run(struct transfer *transfer, CURLU *url, bool *done)
{
    long status = 0;
    *done = false;
    transfer->head_bytes = transfer->skipped = 0;
    transfer->has_range = transfer->body_begun = false;
    transfer->failure = RESULT_OK;
    transfer->last_byte_ms = monotonic_clock_ms();
    if (!handle_set(transfer, url))
        return error_set(transfer->error, RESULT_IO, "libcurl lacks an option");
    CURLcode code = curl_easy_perform(transfer->client->handle);
    (void)curl_easy_getinfo(transfer->client->handle, CURLINFO_RESPONSE_CODE, &status);
    if (transfer->failure != RESULT_OK)
        return transfer->failure;
    if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && transfer->skipped > 0))
        return code_tell(transfer, code);
    if (is_redirect(status))
        return redirect_take(transfer, url);
    if (status != 200 && !(status == 206 && transfer->request->from > 0))
        return status_tell(transfer, status);
    if (!transfer->body_begun && !body_begin(transfer, status))
        return transfer->failure;
    *done = true;
    if (transfer->request->exact && transfer->taken != transfer->request->size)
        return error_set(transfer->error, RESULT_PEER_GONE,
                         "its server sends %" PRIu64 " of %" PRIu64 " bytes", transfer->taken,
                         transfer->request->size);
    return RESULT_OK;
}

enum result hub_client_get(struct hub_client *client, const struct hub_request *request,
                           const struct hub_sink *sink, struct error_text *error)
{
    struct transfer transfer = {.client = client, .request = request, .sink = sink, .error = error};
    char text[LIMIT_HUB_URL_BYTES];
    size_t bytes = strlen(client->source.endpoint);
    while (bytes > 0 && client->source.endpoint[bytes - 1] == '/')
        bytes--;
    if (snprintf(text, sizeof text, "%.*s%s", (int)bytes, client->source.endpoint, request->path) >=
        (int)sizeof text)
        return error_set(error, RESULT_TOO_LARGE, "its URL is too long");
    CURLU *url = curl_url();
    bool done = false;
    enum result result = RESULT_OK;
    if (!url || curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK)
        result = error_set(error, RESULT_INVALID, "its URL cannot be used");
    for (unsigned hop = 0; result == RESULT_OK && !done; hop++)
        result = hop > LIMIT_HUB_REDIRECTS
                     ? error_set(error, RESULT_INVALID, "its server redirects more than %u times",
                                 LIMIT_HUB_REDIRECTS)
                     : request_run(&transfer, url, &done);
    curl_easy_reset(client->handle); /* which names `url` */
    curl_url_cleanup(url);
    return result;
}
