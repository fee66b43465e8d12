/*
 * Any bytes from a socket. Must hold: the requests do not depend on how the bytes are cut; bounds
 * are kept; a rejection has a status and a text; the body is as long as announced.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/http/http_parser.h"
#include "proto/must.h"

#define MAX_HEAD 400u
#define MAX_BODY 300u

static void check(const struct http_parser *parser)
{
    must(parser->head_bytes <= MAX_HEAD);
    must(parser->body_bytes <= MAX_BODY);
    must(parser->header_count <= LIMIT_HTTP_HEADERS);
    if (parser->state == HTTP_PARSER_BAD)
        must(parser->status >= 400 && parser->status < 600 && parser->problem != NULL);
    if (parser->state != HTTP_PARSER_DONE)
        return;
    must(parser->path[0] == '/' || strcmp(parser->path, "*") == 0);
    must(parser->query != NULL && parser->method_name[0] != '\0');
    must((parser->body == NULL) == (parser->body_bytes == 0) ||
         parser->body[parser->body_bytes] == '\0');
    const char *length = http_parser_header(parser, "content-length");
    if (length)
        must(strtoull(length, NULL, 10) == parser->body_bytes);
}

/* One request from the front of the bytes in pieces of `step`; returns what it took. */
static size_t parse(struct http_parser *parser, const char *bytes, size_t count, size_t step)
{
    size_t at = 0;
    http_parser_begin(parser, MAX_HEAD, MAX_BODY);
    while (at < count && parser->state != HTTP_PARSER_DONE && parser->state != HTTP_PARSER_BAD) {
        size_t piece = count - at < step ? count - at : step;
        at += http_parser_feed(parser, bytes + at, piece);
        check(parser);
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    if (count < 2)
        return 0;
    const char *bytes = (const char *)data + 1;
    size_t left = count - 1;
    struct http_parser whole = {0};
    struct http_parser pieces = {0};
    for (int requests = 0; requests < 4 && left > 0; requests++) {
        size_t taken = parse(&whole, bytes, left, left);
        size_t taken_in_pieces = parse(&pieces, bytes, left, (size_t)data[0] % 16 + 1);
        must(taken == taken_in_pieces && whole.state == pieces.state);
        must(whole.status == pieces.status && whole.body_bytes == pieces.body_bytes);
        must(whole.body_bytes == 0 || memcmp(whole.body, pieces.body, whole.body_bytes) == 0);
        if (whole.state != HTTP_PARSER_DONE)
            break;
        must(strcmp(whole.path, pieces.path) == 0 && whole.keep_alive == pieces.keep_alive);
        bytes += taken;
        left -= taken;
    }
    http_parser_fini(&whole);
    http_parser_fini(&pieces);
    return 0;
}
