/*
 * Fetches images from hosts that the operator allowed, without giving clients access to the
 * server's own network.
 *
 * libcurl transfers the bytes; this file decides what is fetched. A URL is parsed once, by
 * libcurl's own parser, and the parsed form is both checked and fetched, so no two readings of a
 * URL can differ (an address in another base is already its four numbers then). libcurl follows no
 * redirects: each is a new URL that is checked like the first. Names are resolved once, and a
 * socket is created only for an address that passed the check, so a later change of the name has no
 * effect. One deadline covers all of it.
 *
 * Credentials in URLs, proxies, cookies, compression, HTTP/2 and other schemes are not supported.
 */
#include "frontend/image/image_fetch.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "frontend/base/cancel_flag.h"
#include "frontend/image/media_address_policy.h"
#include "proto/limits.h"

struct fetch {
    const struct media_policy *policy;
    const atomic_bool *cancelled;
    CURL *handle;
    CURLU *url;
    struct file_bytes file;
    size_t capacity;
    size_t head_bytes;
    bool too_large;
    bool out_of_memory;
    const char *refused_address; /* kind of the last refused address; NULL: none */
    int64_t deadline_ms;
    struct error_text *error;
};

enum result image_fetch_start(struct error_text *error)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(error, RESULT_IO, "libcurl cannot be started");
    return RESULT_OK;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- callbacks of libcurl --------------------------------------------------------------------- */

static size_t on_body(char *bytes, size_t one, size_t count, void *context)
{
    (void)one;
    struct fetch *fetch = context;
    if (count > fetch->policy->most_bytes - fetch->file.count) {
        fetch->too_large = true;
        return 0;
    }
    if (fetch->file.count + count > fetch->capacity) {
        size_t capacity = 2 * fetch->capacity + count;
        uint8_t *grown = realloc(fetch->file.bytes, capacity);
        if (!grown) {
            fetch->out_of_memory = true;
            return 0;
        }
        fetch->file.bytes = grown;
        fetch->capacity = capacity;
    }
    memcpy(fetch->file.bytes + fetch->file.count, bytes, count);
    fetch->file.count += count;
    return count;
}

static size_t on_header(char *bytes, size_t one, size_t count, void *context)
{
    (void)bytes;
    (void)one;
    struct fetch *fetch = context;
    fetch->head_bytes += count;
    return fetch->head_bytes > LIMIT_HTTP_HEAD_BYTES ? 0 : count;
}

/* libcurl calls it at least once a second, also while nothing arrives. */
static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    const struct fetch *fetch = context;
    return cancel_flag_is_set(fetch->cancelled);
}

static curl_socket_t on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)purpose;
    struct fetch *fetch = context;
    const char *what = fetch->policy->allows_private
                           ? NULL
                           : media_address_policy_judge(&address->addr, address->addrlen);
    if (what) {
        fetch->refused_address = what;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* --- one request ----------------------------------------------------------------------------- */

static enum result url_refuse(struct fetch *fetch, const char *why)
{
    return error_set(fetch->error, RESULT_INVALID, "its URL %s", why);
}

static bool url_has(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

/* RESULT_OK if the parsed URL may be fetched. */
static enum result url_judge(struct fetch *fetch)
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    enum result result = RESULT_OK;
    if (curl_url_get(fetch->url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(fetch->url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
        curl_url_get(fetch->url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
        result = url_refuse(fetch, "is none of http or https with a host");
    else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        result = url_refuse(fetch, "is none of http or https");
    else if (url_has(fetch->url, CURLUPART_USER) || url_has(fetch->url, CURLUPART_PASSWORD))
        result = url_refuse(fetch, "has a user's name or password in it");
    else if (url_has(fetch->url, CURLUPART_ZONEID))
        result = url_refuse(fetch, "has an address of one network only");
    else if (!media_policy_admits(fetch->policy, host, (uint16_t)strtoul(port, NULL, 10),
                                  strcmp(scheme, "https") == 0 ? 443 : 80))
        result = error_set(fetch->error, RESULT_INVALID,
                           "this server does not fetch images from %.100s:%.5s", host, port);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    return result;
}

static bool handle_set(struct fetch *fetch, long left_ms)
{
    CURL *handle = fetch->handle;
    curl_easy_reset(handle);
    fetch->head_bytes = 0;
    fetch->file.count = 0;
    fetch->refused_address = NULL;
    return curl_easy_setopt(handle, CURLOPT_CURLU, fetch->url) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_NOPROXY, "*") == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_FORBID_REUSE, 1L) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) ==
               CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_USERAGENT, "shoal") == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, left_ms) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_MAXFILESIZE_LARGE,
                            (curl_off_t)fetch->policy->most_bytes) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_WRITEDATA, fetch) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_HEADERDATA, fetch) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_XFERINFODATA, fetch) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, on_socket) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, fetch) == CURLE_OK;
}

static enum result failure_tell(const struct fetch *fetch, CURLcode code)
{
    if (fetch->out_of_memory || code == CURLE_OUT_OF_MEMORY)
        return error_set(fetch->error, RESULT_OUT_OF_MEMORY, "out of memory");
    if (fetch->too_large || code == CURLE_FILESIZE_EXCEEDED)
        return error_set(fetch->error, RESULT_TOO_LARGE,
                         "it has more than the %zu bytes that are taken",
                         fetch->policy->most_bytes);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return error_set(fetch->error, RESULT_CANCELLED, "its fetch was cancelled");
    if (code == CURLE_OPERATION_TIMEDOUT)
        return error_set(fetch->error, RESULT_TIMED_OUT, "it did not arrive within %u s",
                         fetch->policy->fetch_timeout_s);
    if (fetch->refused_address)
        return error_set(fetch->error, RESULT_INVALID,
                         "its host's address is not a public one (%s)", fetch->refused_address);
    return error_set(fetch->error, RESULT_IO, "it cannot be fetched: %.150s",
                     curl_easy_strerror(code));
}

/* Sets the URL to the redirect's; it is checked next. */
static enum result redirect_take(struct fetch *fetch)
{
    char *to = NULL;
    if (curl_easy_getinfo(fetch->handle, CURLINFO_REDIRECT_URL, &to) != CURLE_OK || !to ||
        strlen(to) > LIMIT_MEDIA_URL_BYTES ||
        curl_url_set(fetch->url, CURLUPART_URL, to, 0) != CURLUE_OK)
        return error_set(fetch->error, RESULT_INVALID, "its host redirects to what is no URL");
    return RESULT_OK;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* *done: the file is complete; else the URL is that of a redirect. */
static enum result request_run(struct fetch *fetch, bool *done)
{
    int64_t left_ms = fetch->deadline_ms - now_ms();
    long status = 0;
    *done = false;
    enum result result = url_judge(fetch);
    if (result != RESULT_OK)
        return result;
    if (left_ms <= 0)
        return failure_tell(fetch, CURLE_OPERATION_TIMEDOUT);
    if (!handle_set(fetch, (long)left_ms))
        return error_set(fetch->error, RESULT_IO, "libcurl lacks what fetching takes");
    CURLcode code = curl_easy_perform(fetch->handle);
    if (code != CURLE_OK)
        return failure_tell(fetch, code);
    (void)curl_easy_getinfo(fetch->handle, CURLINFO_RESPONSE_CODE, &status);
    if (is_redirect(status))
        return redirect_take(fetch);
    if (status != 200)
        return error_set(fetch->error, RESULT_INVALID, "its host answers with status %ld", status);
    if (fetch->file.count == 0)
        return error_set(fetch->error, RESULT_INVALID, "it is empty");
    *done = true;
    return RESULT_OK;
}

static enum result fetch_run(struct fetch *fetch, const char *url)
{
    if (strlen(url) > LIMIT_MEDIA_URL_BYTES)
        return url_refuse(fetch, "is too long");
    fetch->handle = curl_easy_init();
    fetch->url = curl_url();
    if (!fetch->handle || !fetch->url)
        return error_set(fetch->error, RESULT_OUT_OF_MEMORY, "out of memory");
    if (curl_url_set(fetch->url, CURLUPART_URL, url, 0) != CURLUE_OK)
        return url_refuse(fetch, "is not one");
    for (unsigned hop = 0; hop <= LIMIT_MEDIA_REDIRECTS; hop++) {
        bool done;
        enum result result = request_run(fetch, &done);
        if (result != RESULT_OK || done)
            return result;
    }
    return error_set(fetch->error, RESULT_INVALID, "its host redirects more than %u times",
                     LIMIT_MEDIA_REDIRECTS);
}

enum result image_fetch(const struct media_policy *policy, const char *url,
                        const atomic_bool *cancelled, struct file_bytes *file,
                        struct error_text *error)
{
    struct fetch fetch = {.policy = policy,
                          .cancelled = cancelled,
                          .deadline_ms = now_ms() + (int64_t)policy->fetch_timeout_s * 1000,
                          .error = error};
    *file = (struct file_bytes){0};
    enum result result = fetch_run(&fetch, url);
    curl_easy_cleanup(fetch.handle);
    curl_url_cleanup(fetch.url);
    if (result == RESULT_OK)
        *file = fetch.file;
    else
        file_bytes_fini(&fetch.file);
    return result;
}
