/*
 * Any head that the parser accepts is passed to the checks of requests by header. Must hold: a
 * reply's header lines never contain a byte that ends a line or starts another header; only an
 * origin of the list is returned; no key is accepted by chance.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/http/api_keys.h"
#include "frontend/http/cors_policy.h"
#include "proto/must.h"

#define KEY "0123456789abcdef0123456789abcdef"

static void check_lines(const char *text)
{
    static const char *const names[] = {"Vary: ",
                                        "Access-Control-Allow-Origin: ",
                                        "Access-Control-Expose-Headers: ",
                                        "Access-Control-Allow-Methods: ",
                                        "Access-Control-Max-Age: ",
                                        "Access-Control-Allow-Headers: "};
    while (*text) {
        const char *end = strstr(text, "\r\n");
        must(end != NULL);
        bool known = false;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            known = known || strncmp(text, names[i], strlen(names[i])) == 0;
        must(known);
        for (const char *at = text; at < end; at++)
            must((unsigned char)*at >= 0x20 && (unsigned char)*at < 0x7f);
        text = end + 2;
    }
}

static void check_policy(const struct http_parser *parser, const char *const origins[],
                         size_t count)
{
    const struct cors_policy policy = {origins, count};
    struct text_buffer lines = {0};
    cors_policy_append_headers(&policy, parser, "GET, HEAD, OPTIONS", &lines);
    if (lines.bytes) {
        check_lines(lines.bytes);
        const char *named = strstr(lines.bytes, "Access-Control-Allow-Origin: ");
        const char *origin = http_parser_header(parser, "origin");
        if (named && strcmp(origins[0], "*") != 0)
            must(origin && (strcmp(origin, origins[0]) == 0 || strcmp(origin, origins[1]) == 0));
    }
    text_buffer_fini(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    static struct api_keys *keys;
    static const char *const given[] = {KEY};
    static const char *const listed[] = {"https://a.example", "null"};
    static const char *const everybody[] = {"*"};
    struct error_text error;
    if (!keys)
        must(api_keys_create(&(struct api_keys_config){.given = given, .given_count = 1}, &keys,
                             &error) == RESULT_OK);
    struct http_parser parser = {0};
    http_parser_begin(&parser, 8192, 0);
    (void)http_parser_feed(&parser, (const char *)data, count);
    if (parser.state == HTTP_PARSER_DONE) {
        check_policy(&parser, listed, 2);
        check_policy(&parser, everybody, 1);
        struct client_key client;
        struct client_rights rights;
        if (api_keys_admit(keys, &parser, &client, &rights))
            must(memmem(data, count, KEY, sizeof KEY - 1) != NULL);
    }
    http_parser_fini(&parser);
    return 0;
}
