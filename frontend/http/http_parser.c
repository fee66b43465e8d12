/*
 * Reads requests from untrusted clients.
 *
 * Follows RFC 9112 and is strict where two readers of the same bytes could see different requests:
 * a length is digits only, two lengths or a length beside chunks are refused, a header line has no
 * space before its colon and does not continue on the next line, and control bytes are refused
 * everywhere. In the head a single line feed ends a line, as the RFC allows; between chunks only
 * CRLF does. A single carriage return ends no line.
 *
 * Not supported: protocol upgrades and transfer codings other than chunked. Trailers are read
 * within the limit and dropped. frontend/http/README.md says why libevent's evhttp is not used.
 *
 * A head may hold an API key, so its memory is overwritten before it is freed.
 */
#include "frontend/http/http_parser.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "frontend/http/http_syntax.h"

#define HEAD_FIRST_BYTES 1024u
#define BODY_FIRST_BYTES 4096u

static const struct {
    const char *name;
    enum http_method method;
} methods[] = {{"GET", HTTP_GET},         {"HEAD", HTTP_HEAD}, {"POST", HTTP_POST},
               {"OPTIONS", HTTP_OPTIONS}, {"PUT", HTTP_PUT},   {"DELETE", HTTP_DELETE}};

void http_parser_begin(struct http_parser *parser, size_t max_head_bytes, uint64_t max_body_bytes)
{
    http_parser_fini(parser);
    parser->max_head_bytes = max_head_bytes;
    parser->max_body_bytes = max_body_bytes;
}

void http_parser_fini(struct http_parser *parser)
{
    if (parser->head)
        explicit_bzero(parser->head, parser->head_bytes);
    free(parser->head);
    free(parser->body);
    *parser = (struct http_parser){0};
}

bool http_parser_started(const struct http_parser *parser)
{
    return parser->head_bytes > 0;
}

static bool fail(struct http_parser *parser, int status, const char *problem)
{
    parser->state = HTTP_PARSER_BAD;
    parser->status = status;
    parser->problem = problem;
    return false;
}

/* Makes room for one byte more of the head. */
static bool head_reserve(struct http_parser *parser)
{
    if (parser->head_bytes + 1 < parser->head_capacity)
        return true;
    size_t wanted = parser->head_capacity ? parser->head_capacity * 2 : HEAD_FIRST_BYTES;
    char *grown = malloc(wanted);
    if (!grown)
        return false;
    if (parser->head) {
        memcpy(grown, parser->head, parser->head_bytes);
        explicit_bzero(parser->head, parser->head_bytes);
        free(parser->head);
    }
    parser->head = grown;
    parser->head_capacity = wanted;
    return true;
}

/* Makes room for one byte more than `bytes`. */
static bool reserve(char **memory, size_t *capacity, size_t bytes, size_t first_bytes)
{
    if (bytes < *capacity)
        return true;
    size_t wanted = *capacity ? *capacity : first_bytes;
    while (wanted <= bytes)
        wanted *= 2;
    char *grown = realloc(*memory, wanted);
    if (!grown)
        return false;
    *memory = grown;
    *capacity = wanted;
    return true;
}

/* --- the head -------------------------------------------------------------------------------- */

/* Takes "scheme://authority" off an absolute target; what is left begins with '/' (RFC
 * 9112, 3.2.2). The authority moves over the second '/' of "//", so that it can be terminated in
 * place; without a path, the byte freed by that becomes "/". */
static bool authority_take(struct http_parser *parser, char **target)
{
    char *begin = strstr(*target, "//") + 2;
    size_t bytes = strcspn(begin, "/?");
    char *rest = begin + bytes;
    if (bytes == 0)
        return fail(parser, 400, "the request target has no host");
    parser->authority = memmove(begin - 2, begin, bytes);
    *(begin + bytes - 2) = '\0';
    if (!http_is_host(parser->authority))
        return fail(parser, 400, "the host of the request target is malformed");
    if (*rest != '/')
        *--rest = '/';
    *target = rest;
    return true;
}

/* Clients append paths to a base URL that may end with '/': repeated slashes are one, and one at
 * the end is dropped. */
static void slashes_merge(char *path)
{
    char *to = path;
    for (const char *at = path; *at; at++) {
        if (*at != '/' || at[1] != '/')
            *to++ = *at;
    }
    if (to > path + 1 && to[-1] == '/')
        to--;
    *to = '\0';
}

static bool target_parse(struct http_parser *parser, char *target)
{
    for (const char *at = target; *at; at++) {
        if ((unsigned char)*at <= 0x20 || (unsigned char)*at >= 0x7f || *at == '#')
            return fail(parser, 400, "the request target holds bytes that must be escaped");
    }
    bool absolute =
        strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0;
    if (absolute && !authority_take(parser, &target))
        return false;
    if (target[0] != '/' && strcmp(target, "*") != 0)
        return fail(parser, 400, "the request target must be a path");
    char *question = strchr(target, '?');
    if (question)
        *question = '\0';
    slashes_merge(target);
    parser->path = target;
    parser->query = question ? question + 1 : "";
    return true;
}

static bool request_line_parse(struct http_parser *parser, char *line)
{
    char *target = strchr(line, ' ');
    char *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version)
        return fail(parser, 400, "the request line is not 'METHOD target HTTP/1.1'");
    *target++ = '\0';
    *version++ = '\0';
    if (!http_is_token(line))
        return fail(parser, 400, "the request method is malformed");
    parser->method_name = line;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(line, methods[i].name) == 0)
            parser->method = methods[i].method;
    }
    if (strncmp(version, "HTTP/", 5) != 0)
        return fail(parser, 400, "the request line does not name an HTTP version");
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return fail(parser, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    parser->minor_version = version[7] - '0';
    return target_parse(parser, target);
}

static bool header_parse(struct http_parser *parser, char *line)
{
    if (parser->header_count == LIMIT_HTTP_HEADERS)
        return fail(parser, 431, "too many headers");
    char *colon = strchr(line, ':');
    if (!colon)
        return fail(parser, 400, "a header line has no colon");
    *colon = '\0';
    if (!http_is_token(line))
        return fail(parser, 400, "a header name is malformed");
    for (char *at = line; *at; at++) {
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    }
    char *value = colon + 1;
    value += strspn(value, " \t");
    size_t length = strlen(value);
    while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        value[--length] = '\0';
    if (!http_is_field_value(value))
        return fail(parser, 400, "a header value holds control bytes");
    parser->headers[parser->header_count++] = (struct http_header){.name = line, .value = value};
    return true;
}

const char *http_parser_header(const struct http_parser *parser, const char *name)
{
    for (uint32_t i = 0; i < parser->header_count; i++) {
        if (strcmp(parser->headers[i].name, name) == 0)
            return parser->headers[i].value;
    }
    return NULL;
}

static uint32_t header_times(const struct http_parser *parser, const char *name)
{
    uint32_t times = 0;
    for (uint32_t i = 0; i < parser->header_count; i++)
        times += strcmp(parser->headers[i].name, name) == 0;
    return times;
}

/* True if the comma-separated list in `value` (may be NULL) has `word`. */
static bool list_has(const char *value, const char *word)
{
    size_t word_bytes = strlen(word);
    while (value && *value) {
        value += strspn(value, " \t,");
        size_t bytes = strcspn(value, " \t,");
        if (bytes == word_bytes && strncasecmp(value, word, bytes) == 0)
            return true;
        value += bytes;
    }
    return false;
}

static bool length_parse(struct http_parser *parser, const char *digits)
{
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > 18 || digits[count] != '\0')
        return fail(parser, 400, "Content-Length is not a number");
    parser->content_left = strtoull(digits, NULL, 10);
    if (parser->content_left > parser->max_body_bytes)
        return fail(parser, 413, "the request body is too large");
    return true;
}

/* Finds how the body is delimited, from the complete headers. */
static bool framing_parse(struct http_parser *parser)
{
    const char *coding = http_parser_header(parser, "transfer-encoding");
    const char *length = http_parser_header(parser, "content-length");
    if (header_times(parser, "content-length") > 1 ||
        header_times(parser, "transfer-encoding") > 1 || (coding && length))
        return fail(parser, 400, "the length of the request body is ambiguous");
    if (coding && (parser->minor_version == 0 || strcasecmp(coding, "chunked") != 0))
        return fail(parser, 501, "the only transfer coding understood is chunked");
    if (length && !length_parse(parser, length))
        return false;
    parser->chunked = coding != NULL;
    if (parser->chunked)
        parser->state = HTTP_PARSER_CHUNK_SIZE;
    else
        parser->state = parser->content_left > 0 ? HTTP_PARSER_BODY : HTTP_PARSER_DONE;
    return true;
}

static bool head_finish(struct http_parser *parser)
{
    uint32_t hosts = header_times(parser, "host");
    if (hosts > 1 || (hosts == 0 && parser->minor_version == 1))
        return fail(parser, 400, "exactly one Host header is needed");
    const char *host = http_parser_header(parser, "host");
    if (host && !http_is_host(host))
        return fail(parser, 400, "the Host header is malformed");
    if (!parser->authority)
        parser->authority = host ? host : "";
    const char *connection = http_parser_header(parser, "connection");
    parser->keep_alive = parser->minor_version == 1 ? !list_has(connection, "close")
                                                    : list_has(connection, "keep-alive");
    const char *expect = http_parser_header(parser, "expect");
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return fail(parser, 417, "the only expectation understood is 100-continue");
    if (!framing_parse(parser))
        return false;
    parser->expects_continue =
        expect && parser->minor_version == 1 && parser->state != HTTP_PARSER_DONE;
    return true;
}

/* The head is complete in memory, so its lines no longer move. */
static bool head_parse(struct http_parser *parser)
{
    char *line = parser->head;
    bool first = true;
    while (*line) {
        char *end = strchr(line, '\n');
        char *next = end + 1;
        if (end > line && end[-1] == '\r')
            end--;
        *end = '\0';
        if (end == line)
            break;
        if (!(first ? request_line_parse(parser, line) : header_parse(parser, line)))
            return false;
        first = false;
        line = next;
    }
    return head_finish(parser);
}

static size_t head_feed(struct http_parser *parser, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char c = bytes[i];
        if (parser->head_bytes == 0 && (c == '\r' || c == '\n'))
            continue; /* empty lines before a request are ignored */
        if (parser->head_bytes >= parser->max_head_bytes) {
            bool in_line = memchr(parser->head, '\n', parser->head_bytes) == NULL;
            (void)fail(parser, in_line ? 414 : 431,
                       in_line ? "the request target is too long" : "the headers are too large");
            return i;
        }
        if (c == '\0') {
            (void)fail(parser, 400, "the head holds a NUL byte");
            return i;
        }
        if (!head_reserve(parser)) {
            (void)fail(parser, 503, "out of memory");
            return i;
        }
        parser->head[parser->head_bytes++] = c;
        if (c != '\n')
            continue;
        size_t line_bytes = parser->head_bytes - parser->line_start;
        bool empty =
            line_bytes == 1 || (line_bytes == 2 && parser->head[parser->line_start] == '\r');
        parser->line_start = parser->head_bytes;
        if (empty) {
            parser->head[parser->head_bytes] = '\0';
            (void)head_parse(parser);
            return i + 1;
        }
    }
    return count;
}

/* --- the body -------------------------------------------------------------------------------- */

/* Takes up to content_left bytes of the body. */
static size_t content_feed(struct http_parser *parser, const char *bytes, size_t count,
                           enum http_parser_state next)
{
    size_t taken = count < parser->content_left ? count : (size_t)parser->content_left;
    if (!reserve(&parser->body, &parser->body_capacity, parser->body_bytes + taken,
                 BODY_FIRST_BYTES)) {
        (void)fail(parser, 503, "out of memory");
        return taken;
    }
    memcpy(parser->body + parser->body_bytes, bytes, taken);
    parser->body_bytes += taken;
    parser->body[parser->body_bytes] = '\0';
    parser->content_left -= taken;
    if (parser->content_left == 0)
        parser->state = next;
    return taken;
}

static void chunk_size_finish(struct http_parser *parser)
{
    if (!http_chunk_size_parse(parser->line, &parser->content_left))
        (void)fail(parser, 400, "a chunk size is malformed");
    else if (parser->content_left > parser->max_body_bytes - parser->body_bytes)
        (void)fail(parser, 413, "the request body is too large");
    else
        parser->state = parser->content_left > 0 ? HTTP_PARSER_CHUNK_DATA : HTTP_PARSER_TRAILER;
}

/* A line between chunks is complete, less its line feed. */
static void chunk_line_finish(struct http_parser *parser)
{
    if (parser->line_bytes == 0 || parser->line[parser->line_bytes - 1] != '\r') {
        (void)fail(parser, 400, "a line between chunks does not end with CRLF");
        return;
    }
    parser->line[parser->line_bytes - 1] = '\0';
    bool empty = parser->line_bytes == 1;
    parser->line_bytes = 0;
    if (parser->state == HTTP_PARSER_CHUNK_SIZE)
        chunk_size_finish(parser);
    else if (parser->state == HTTP_PARSER_TRAILER && empty)
        parser->state = HTTP_PARSER_DONE;
    else if (parser->state == HTTP_PARSER_TRAILER && !http_is_field_line(parser->line))
        (void)fail(parser, 400, "a trailer is malformed");
    else if (parser->state == HTTP_PARSER_CHUNK_END && empty)
        parser->state = HTTP_PARSER_CHUNK_SIZE;
    else if (parser->state == HTTP_PARSER_CHUNK_END)
        (void)fail(parser, 400, "a chunk is longer than its size says");
}

/* Reads the lines between, before and after chunks. */
static size_t chunk_line_feed(struct http_parser *parser, const char *bytes, size_t count)
{
    enum http_parser_state state = parser->state;
    for (size_t i = 0; i < count; i++) {
        if (state == HTTP_PARSER_TRAILER && ++parser->trailer_bytes > parser->max_head_bytes) {
            (void)fail(parser, 431, "the trailers are too large");
            return i;
        }
        if (bytes[i] == '\n') {
            chunk_line_finish(parser);
            return i + 1;
        }
        if (bytes[i] == '\0' || parser->line_bytes + 1 >= sizeof parser->line) {
            (void)fail(parser, 400, "a line between chunks is malformed");
            return i;
        }
        parser->line[parser->line_bytes++] = bytes[i];
    }
    return count;
}

size_t http_parser_feed(struct http_parser *parser, const char *bytes, size_t count)
{
    size_t taken = 0;
    while (taken < count) {
        const char *at = bytes + taken;
        size_t left = count - taken;
        switch (parser->state) {
        case HTTP_PARSER_HEAD: return taken + head_feed(parser, at, left);
        case HTTP_PARSER_BODY: taken += content_feed(parser, at, left, HTTP_PARSER_DONE); break;
        case HTTP_PARSER_CHUNK_DATA:
            taken += content_feed(parser, at, left, HTTP_PARSER_CHUNK_END);
            break;
        case HTTP_PARSER_CHUNK_SIZE:
        case HTTP_PARSER_CHUNK_END:
        case HTTP_PARSER_TRAILER: taken += chunk_line_feed(parser, at, left); break;
        case HTTP_PARSER_DONE:
        case HTTP_PARSER_BAD: return taken;
        }
    }
    return taken;
}

char *http_parser_take_body(struct http_parser *parser, size_t *body_bytes)
{
    char *body = parser->body;
    *body_bytes = parser->body_bytes;
    parser->body = NULL;
    parser->body_bytes = parser->body_capacity = 0;
    return body;
}
