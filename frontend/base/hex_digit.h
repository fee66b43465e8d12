/*
 * Hexadecimal digits of escapes (%41, \u0041).
 */
#ifndef SHOAL_FRONTEND_BASE_HEX_DIGIT_H
#define SHOAL_FRONTEND_BASE_HEX_DIGIT_H

/* 0 to 15, in either case; -1 for any other character. */
int hex_digit_value(char c);

#endif
