/*
 * A small reader of HTTP replies from any server: the stage determines how the next bytes are read,
 * lines gather in a buffer of fixed size, body bytes are passed on without copying.
 *
 * Interim replies (1xx) are skipped. If a reply declares both framings, chunked counts, as RFC 9112
 * says. Refused: other transfer codings, negative lengths, lengths that disagree, and heads that
 * exceed their bound.
 */
#include "scripts/load/http_reply_reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* "HTTP/1.1 200 OK" */
static enum result read_status(struct http_reply_reader *reader)
{
    const char *line = reader->line;
    if (strncmp(line, "HTTP/1.", 7) != 0 || !isdigit((unsigned char)line[7]) || line[8] != ' ')
        return RESULT_CORRUPT;
    int status = 0;
    for (int i = 9; i < 12; i++) {
        if (!isdigit((unsigned char)line[i]))
            return RESULT_CORRUPT;
        status = 10 * status + line[i] - '0';
    }
    if (status < 100 || (line[12] != ' ' && line[12] != '\0'))
        return RESULT_CORRUPT;
    reader->status = status;
    reader->stage = HTTP_REPLY_HEADERS;
    return RESULT_OK;
}

/* Digits of `base`, followed only by characters in `ends`. */
static enum result read_number(const char *words, int base, const char *ends, uint64_t *number)
{
    uint64_t value = 0;
    const char *at = words;
    for (; isxdigit((unsigned char)*at); at++) {
        int c = tolower((unsigned char)*at);
        int digit = c <= '9' ? c - '0' : c - 'a' + 10;
        if (digit >= base || value > (UINT64_MAX >> 8))
            return RESULT_CORRUPT;
        value = value * (uint64_t)base + (uint64_t)digit;
    }
    if (at == words || (*at != '\0' && !strchr(ends, *at)))
        return RESULT_CORRUPT;
    *number = value;
    return RESULT_OK;
}

static enum result read_header(struct http_reply_reader *reader)
{
    char *colon = strchr(reader->line, ':');
    if (!colon || colon == reader->line)
        return RESULT_CORRUPT;
    *colon = '\0';
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    if (strcasecmp(reader->line, "content-type") == 0) {
        reader->is_event_stream = strncasecmp(value, "text/event-stream", 17) == 0;
    } else if (strcasecmp(reader->line, "transfer-encoding") == 0) {
        if (strncasecmp(value, "chunked", 7) != 0)
            return RESULT_CORRUPT;
        reader->chunked = true;
    } else if (strcasecmp(reader->line, "content-length") == 0) {
        uint64_t length;
        if (read_number(value, 10, " \t", &length) != RESULT_OK)
            return RESULT_CORRUPT;
        if (reader->counted && length != reader->body_left)
            return RESULT_CORRUPT;
        reader->counted = true;
        reader->body_left = length;
    }
    return RESULT_OK;
}

/* The empty line after the headers: determines the framing of the body. */
static void end_head(struct http_reply_reader *reader)
{
    bool interim = reader->status < 200;
    if (interim) {
        reader->stage = HTTP_REPLY_STATUS_LINE;
        reader->chunked = reader->counted = reader->is_event_stream = false;
    } else if (reader->status == 204 || reader->status == 304) {
        reader->stage = HTTP_REPLY_DONE;
    } else if (reader->chunked) {
        reader->stage = HTTP_REPLY_CHUNK_SIZE;
    } else if (reader->counted) {
        reader->stage = reader->body_left > 0 ? HTTP_REPLY_BODY_COUNTED : HTTP_REPLY_DONE;
    } else {
        reader->stage = HTTP_REPLY_BODY_TO_CLOSE;
    }
}

static enum result read_line(struct http_reply_reader *reader)
{
    enum result result = RESULT_OK;
    bool empty = reader->line[0] == '\0';
    switch (reader->stage) {
    case HTTP_REPLY_STATUS_LINE: return read_status(reader);
    case HTTP_REPLY_HEADERS:
        if (!empty)
            return read_header(reader);
        end_head(reader);
        return RESULT_OK;
    case HTTP_REPLY_CHUNK_SIZE:
        result = read_number(reader->line, 16, "; \t", &reader->body_left);
        reader->stage = reader->body_left > 0 ? HTTP_REPLY_CHUNK_DATA : HTTP_REPLY_TRAILERS;
        reader->head_bytes = 0; /* the bound applies to each group of lines */
        return result;
    case HTTP_REPLY_CHUNK_LINE_END:
        reader->stage = HTTP_REPLY_CHUNK_SIZE;
        return empty ? RESULT_OK : RESULT_CORRUPT;
    default: /* HTTP_REPLY_TRAILERS */
        if (empty)
            reader->stage = HTTP_REPLY_DONE;
        return RESULT_OK;
    }
}

/* Consumes bytes up to a line end. */
static enum result gather_line(struct http_reply_reader *reader, const char **bytes, size_t *count)
{
    const char *end = memchr(*bytes, '\n', *count);
    size_t taken = end ? (size_t)(end - *bytes) + 1 : *count;
    if (taken > HTTP_REPLY_HEAD_BYTES - reader->head_bytes ||
        taken >= HTTP_REPLY_LINE_BYTES - reader->line_bytes)
        return RESULT_TOO_LARGE;
    memcpy(reader->line + reader->line_bytes, *bytes, taken);
    reader->line_bytes += (uint32_t)taken;
    reader->head_bytes += (uint32_t)taken;
    *bytes += taken;
    *count -= taken;
    if (!end)
        return RESULT_OK;
    uint32_t length = reader->line_bytes - 1;
    if (length > 0 && reader->line[length - 1] == '\r')
        length--;
    reader->line[length] = '\0';
    reader->line_bytes = 0;
    return strlen(reader->line) == length ? read_line(reader) : RESULT_CORRUPT;
}

enum result
http_reply_reader_feed(struct http_reply_reader *reader, const char *bytes, size_t count,
                       enum result (*body)(void *context, const char *bytes, size_t count),
                       void *context)
{
    enum result result = RESULT_OK;
    while (count > 0 && result == RESULT_OK && reader->stage != HTTP_REPLY_DONE) {
        bool to_close = reader->stage == HTTP_REPLY_BODY_TO_CLOSE;
        if (!to_close && reader->stage != HTTP_REPLY_BODY_COUNTED &&
            reader->stage != HTTP_REPLY_CHUNK_DATA) {
            result = gather_line(reader, &bytes, &count);
            continue;
        }
        size_t taken = to_close || count < reader->body_left ? count : (size_t)reader->body_left;
        result = body(context, bytes, taken);
        bytes += taken;
        count -= taken;
        if (to_close)
            continue;
        reader->body_left -= taken;
        if (reader->body_left == 0)
            reader->stage = reader->stage == HTTP_REPLY_CHUNK_DATA ? HTTP_REPLY_CHUNK_LINE_END
                                                                   : HTTP_REPLY_DONE;
    }
    return result;
}

bool http_reply_reader_is_whole_at_close(const struct http_reply_reader *reader)
{
    return reader->stage == HTTP_REPLY_DONE || reader->stage == HTTP_REPLY_BODY_TO_CLOSE;
}
