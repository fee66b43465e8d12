/*
 * Regexes over the characters of JSON strings. Each character has one spelling: printable characters
 * are themselves, the quote and the backslash have a backslash, control characters have their short
 * escape or \u00xx. So one string value is one text, and intersection and complement of texts are
 * those of values.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_JSON_TEXT_REGEX_H
#define SHOAL_FRONTEND_GRAMMAR_JSON_TEXT_REGEX_H

#include "frontend/grammar/grammar_builder.h"

/* Bytes of the longest spelling of one character. */
#define JSON_TEXT_CHARACTER_BYTES 8u

/* Writes the spelling of a Unicode scalar value; returns its bytes. */
size_t json_text_spell(uint32_t code_point, char out[JSON_TEXT_CHARACTER_BYTES]);

/* One character of these ranges, spelled. */
regex_id json_text_code_points(struct grammar_builder *builder,
                               const struct code_point_range *ranges, size_t count);
/* Any one character, spelled. */
regex_id json_text_character(struct grammar_builder *builder);
/* Any content of a string, spelled, without quotes. */
regex_id json_text_any(struct grammar_builder *builder);
/* This text (valid UTF-8, NUL-terminated), spelled, without quotes. */
regex_id json_text_literal(struct grammar_builder *builder, const char *text);

#endif
