/*
 * Each function is a walk over its text by strspn-like steps, in the order of the grammar in its
 * header. The length of the text is bounded by the caller (LIMIT_HTTP_HEAD_BYTES,
 * LIMIT_HTTP_CHUNK_LINE_BYTES).
 */
#include "frontend/http/http_syntax.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS         "0123456789"
#define TOKEN_CHARS    LETTERS DIGITS "!#$%&'*+-.^_`|~"
#define HOST_CHARS     LETTERS DIGITS "-._~%!$&'()*+,;="
#define HEX_DIGITS     DIGITS "abcdefABCDEF"
#define SPACES         " \t"
#define SIZE_DIGITS    15u /* of a chunk: fits an uint64_t */
#define PORT_DIGITS    5u
#define ADDRESS6_BYTES 46u /* INET6_ADDRSTRLEN */

bool http_is_token(const char *text)
{
    size_t bytes = strspn(text, TOKEN_CHARS);
    return bytes > 0 && text[bytes] == '\0';
}

static bool is_control(char c)
{
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

bool http_is_field_value(const char *text)
{
    for (; *text; text++) {
        if (is_control(*text))
            return false;
    }
    return true;
}

/* Bytes of "[IPv6]" at the beginning of `text`; 0 if it is not one. */
static size_t ip_literal_bytes(const char *text)
{
    const char *end = strchr(text, ']');
    size_t bytes = end ? (size_t)(end - text) - 1 : 0;
    char address[ADDRESS6_BYTES];
    struct in6_addr parsed;
    if (!end || bytes >= sizeof address)
        return 0;
    memcpy(address, text + 1, bytes);
    address[bytes] = '\0';
    return inet_pton(AF_INET6, address, &parsed) == 1 ? bytes + 2 : 0;
}

bool http_is_host(const char *text)
{
    if (!*text)
        return true;
    size_t bytes = text[0] == '[' ? ip_literal_bytes(text) : strspn(text, HOST_CHARS);
    if (bytes == 0)
        return false;
    if (text[bytes] == '\0')
        return true;
    size_t digits = strspn(text + bytes + 1, DIGITS);
    return text[bytes] == ':' && digits <= PORT_DIGITS && text[bytes + 1 + digits] == '\0';
}

/* Bytes of the quoted string (RFC 9110, 5.6.4) at the beginning of `text`, with its quotes; 0 if it
 * is none. */
static size_t quoted_bytes(const char *text)
{
    size_t at = 1;
    for (; text[at] && text[at] != '"'; at++) {
        if (text[at] == '\\' && text[at + 1])
            at++;
        if (is_control(text[at]))
            return 0;
    }
    return text[at] == '"' ? at + 1 : 0;
}

/* Steps over one extension, which begins after the ';'. NULL if it is malformed. */
static const char *extension_skip(const char *at)
{
    at += strspn(at, SPACES);
    size_t name = strspn(at, TOKEN_CHARS);
    if (name == 0)
        return NULL;
    at += name;
    const char *equals = at + strspn(at, SPACES);
    if (*equals != '=')
        return at;
    at = equals + 1;
    at += strspn(at, SPACES);
    size_t value = *at == '"' ? quoted_bytes(at) : strspn(at, TOKEN_CHARS);
    return value > 0 ? at + value : NULL;
}

bool http_chunk_size_parse(const char *line, uint64_t *size)
{
    size_t digits = strspn(line, HEX_DIGITS);
    if (digits == 0 || digits > SIZE_DIGITS)
        return false;
    const char *at = line + digits;
    while (*at) {
        at += strspn(at, SPACES);
        at = *at == ';' ? extension_skip(at + 1) : NULL;
        if (!at)
            return false;
    }
    *size = strtoull(line, NULL, 16);
    return true;
}

bool http_is_field_line(const char *line)
{
    size_t name = strspn(line, TOKEN_CHARS);
    return name > 0 && line[name] == ':' && http_is_field_value(line + name + 1);
}
