/*
 * Properties of characters as in Python's str: classes (isalpha() and similar) and case mappings.
 */
#ifndef SHOAL_FRONTEND_PROMPT_JINJA_JINJA_UNICODE_H
#define SHOAL_FRONTEND_PROMPT_JINJA_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jinja_case { JINJA_CASE_UPPER, JINJA_CASE_LOWER, JINJA_CASE_TITLE };

bool jinja_unicode_is_alpha(uint32_t code_point);
bool jinja_unicode_is_decimal(uint32_t code_point);
bool jinja_unicode_is_digit(uint32_t code_point);
bool jinja_unicode_is_numeric(uint32_t code_point);
bool jinja_unicode_is_lower(uint32_t code_point);
bool jinja_unicode_is_upper(uint32_t code_point);
bool jinja_unicode_is_unprintable(uint32_t code_point);

bool jinja_unicode_is_alnum(uint32_t code_point);
bool jinja_unicode_is_titlecase(uint32_t code_point); /* such as U+01C5 */
/* str.isspace(): White_Space and the four separators U+001C..U+001F. */
bool jinja_unicode_is_space(uint32_t code_point);

/* Writes the 1..3 characters that `code_point` becomes; returns their number. The caller handles
 * final sigma. */
size_t jinja_unicode_convert(enum jinja_case to, uint32_t code_point, uint32_t out[3]);

#endif
