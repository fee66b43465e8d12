/*
 * The page's files need no key: they are the same for everyone, and the page asks for the key that
 * its requests to the API need. The Content-Security-Policy allows nothing from elsewhere, so text
 * of a model that got past the page's own sanitizing loads and runs nothing. Browsers check files
 * by ETag at each load, because a new version of the program has new ones under the same names.
 */
#include "frontend/serve/routes/route_replies.h"

#include <stdio.h>
#include <string.h>

#include "frontend/http/http_reply.h"
#include "frontend/page/page_file.h"
#include "proto/keyed_hash.h"

#define FILE_PREFIX "/page/"

static void reply_file(struct http_exchange *exchange, const struct page_file *file)
{
    static const struct {
        const char *name;
        const char *value;
    } headers[] = {
        {"Cache-Control", "no-cache"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: "
         "blob:; media-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'"}};
    static const struct keyed_hash_key key; /* a checksum: no secret */
    char tag[24];
    snprintf(tag, sizeof tag, "\"%016llx\"",
             (unsigned long long)keyed_hash(&key, file->bytes, file->count));
    http_exchange_header(exchange, "ETag", tag, strlen(tag));
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        http_exchange_header(exchange, headers[i].name, headers[i].value, strlen(headers[i].value));
    if (file->gzip) /* every browser takes it */
        http_exchange_header(exchange, "Content-Encoding", "gzip", strlen("gzip"));
    const char *known = http_parser_header(exchange->request, "if-none-match");
    if (known && strcmp(known, tag) == 0)
        http_reply_whole(exchange, 304, NULL, "", 0);
    else
        http_reply_whole(exchange, 200, file->content_type, file->bytes, file->count);
}

void page_routes_root(const struct route_context *context, struct http_exchange *exchange)
{
    const char *accept = http_parser_header(exchange->request, "accept");
    if (accept && strstr(accept, "text/html"))
        reply_file(exchange, page_file_find("index.html"));
    else
        status_routes_health(context, exchange);
}

void page_routes_file(const struct route_context *context, struct http_exchange *exchange)
{
    (void)context;
    const char *path = exchange->request->path;
    const struct page_file *file = page_file_find(path + strlen(FILE_PREFIX));
    struct api_error error;
    if (file) {
        reply_file(exchange, file);
        return;
    }
    (void)api_error_set(&error, RESULT_NOT_FOUND, 404, "not_found", "the page has no such file");
    http_reply_error(exchange, &error);
}
