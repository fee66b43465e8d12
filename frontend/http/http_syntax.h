/*
 * Pieces of the grammar of HTTP (RFC 9110 and 9112) as pure functions over one element of a
 * message. All are strict: text that two readers could understand differently is invalid.
 */
#ifndef SHOAL_FRONTEND_HTTP_HTTP_SYNTAX_H
#define SHOAL_FRONTEND_HTTP_HTTP_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* token of RFC 9110, 5.6.2: at least one character. */
bool http_is_token(const char *text);

/* field-value of RFC 9110, 5.5: no control bytes other than tabs. */
bool http_is_field_value(const char *text);

/* Authority without user information (RFC 9110, 7.2; RFC 3986, 3.2.2): name, IPv4 or [IPv6], with
 * or without ":port". The empty text is valid: clients send it when their URL has no host. */
bool http_is_host(const char *text);

/* Chunk-size line without its CRLF (RFC 9112, 7.1 and 7.1.1): hexadecimal digits, then extensions
 * `;name`, `;name=token` or
 * `;name="quoted"`. Sets the size, at most 15 digits. False if the line is malformed. */
bool http_chunk_size_parse(const char *line, uint64_t *size);

/* One header line without its CRLF, as a trailer has it: `name:value`, not folded. */
bool http_is_field_line(const char *line);

#endif
