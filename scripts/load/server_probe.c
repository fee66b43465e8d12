/*
 * Both requests are made before the measurement, one after the other, so they block, with a time
 * limit on every call. The answer is read by the same reader as all replies and is bounded.
 */
#include "scripts/load/server_probe.h"

#include <cjson/cJSON.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "frontend/base/text_buffer.h"
#include "proto/must.h"
#include "scripts/load/http_reply_reader.h"

#define PROBE_WAIT_S     10
#define PROBE_BODY_BYTES (4u << 20)

/* A connected socket, or -1. */
static int connect_to(const struct sockaddr *address, socklen_t bytes)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    struct timeval wait = {.tv_sec = PROBE_WAIT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait); /* for connect() too */
    if (connect(fd, address, bytes) == 0)
        return fd;
    close(fd);
    return -1;
}

enum result server_probe_find(const struct load_options *options, struct server_address *address,
                              struct error_text *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(options->host, options->port, &hints, &found);
    if (code != 0 || !found)
        return error_set(error, RESULT_NOT_FOUND, "%s: %s", options->host, gai_strerror(code));
    const struct addrinfo *chosen = found;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        int fd = connect_to(at->ai_addr, at->ai_addrlen);
        if (fd < 0)
            continue;
        close(fd);
        chosen = at;
        break;
    }
    memcpy(&address->address, chosen->ai_addr, chosen->ai_addrlen);
    address->bytes = chosen->ai_addrlen;
    freeaddrinfo(found);
    return RESULT_OK;
}

static enum result on_body(void *context, const char *bytes, size_t count)
{
    struct text_buffer *body = context;
    if (count > PROBE_BODY_BYTES - body->length)
        return RESULT_TOO_LARGE;
    text_buffer_append(body, bytes, count);
    return RESULT_OK;
}

/* The body of a GET over the connection `fd`. */
static enum result get(int fd, const struct load_options *options, struct text_buffer *body,
                       struct error_text *error)
{
    struct text_buffer request = {0};
    text_buffer_append_format(&request,
                              "GET %s/v1/models HTTP/1.1\r\nHost: %s:%s\r\n"
                              "Connection: close\r\n",
                              options->prefix, options->host, options->port);
    if (options->api_key)
        text_buffer_append_format(&request, "Authorization: Bearer %s\r\n", options->api_key);
    text_buffer_append_text(&request, "\r\n");
    must(!request.failed);
    bool sent = send(fd, request.bytes, request.length, MSG_NOSIGNAL) == (ssize_t)request.length;
    text_buffer_fini(&request);
    struct http_reply_reader *reply = must_alloc(1, sizeof *reply);
    enum result result = sent ? RESULT_OK : RESULT_IO;
    char bytes[16384];
    ssize_t count = 0;
    while (result == RESULT_OK && reply->stage != HTTP_REPLY_DONE &&
           (count = recv(fd, bytes, sizeof bytes, 0)) > 0)
        result = http_reply_reader_feed(reply, bytes, (size_t)count, on_body, body);
    if (result == RESULT_OK && (count < 0 || !http_reply_reader_is_whole_at_close(reply)))
        result = RESULT_IO;
    if (result != RESULT_OK)
        error_set(error, result, "GET /v1/models: %s", result_name(result));
    else if (reply->status != 200)
        result = error_set(error, RESULT_INVALID, "GET /v1/models: status %d", reply->status);
    free(reply);
    return result;
}

enum result server_probe_read_model(const struct load_options *options,
                                    const struct server_address *address, char **model,
                                    struct error_text *error)
{
    int fd = connect_to((const struct sockaddr *)&address->address, address->bytes);
    if (fd < 0)
        return error_set(error, RESULT_IO, "cannot connect to %s", options->base_url);
    struct text_buffer body = {0};
    enum result result = get(fd, options, &body, error);
    close(fd);
    if (result == RESULT_OK) {
        cJSON *list = cJSON_ParseWithLength(body.length ? body.bytes : "", body.length);
        const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(list, "data"), 0);
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(first, "id");
        if (cJSON_IsString(id))
            *model = must_strdup(id->valuestring);
        else
            result = error_set(error, RESULT_INVALID, "the server lists no model; set --model");
        cJSON_Delete(list);
    }
    text_buffer_fini(&body);
    return result;
}
