/*
 * Regexes over JSON's spelling of numbers. A plain number has no exponent; every finite decimal has
 * plain spellings, so bounds and complements are formed over plain numbers only.
 *
 * Numbers are doubles as cJSON holds them; their decimals are the shortest that read back as the
 * same double. A bound of magnitude 2^53 or more may have been rounded when it was read, so it is
 * moved by one double to the inside.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_JSON_NUMBER_REGEX_H
#define SHOAL_FRONTEND_GRAMMAR_JSON_NUMBER_REGEX_H

#include <stdbool.h>

#include "frontend/grammar/grammar_builder.h"

enum number_relation {
    NUMBER_AT_LEAST,
    NUMBER_ABOVE,
    NUMBER_AT_MOST,
    NUMBER_BELOW,
};

regex_id json_number_any(struct grammar_builder *builder);   /* with exponents */
regex_id json_number_plain(struct grammar_builder *builder); /* without */
/* Without fraction: 1.0 is an integer to JSON Schema, but is not written so. */
regex_id json_number_integer(struct grammar_builder *builder);
/* Plain numbers whose value is not an integer. */
regex_id json_number_not_integer(struct grammar_builder *builder);
/* Plain numbers in this relation to `bound`. Numbers strictly above or below have at most 16
 * characters if they have a fraction: a longer one could be read as the bound itself. */
regex_id json_number_compared(struct grammar_builder *builder, enum number_relation relation,
                              double bound);
/* Every plain spelling of this value. False: the double may not be the number that was written. */
bool json_number_equal(struct grammar_builder *builder, double value, regex_id *out);
/* The usual spelling alone. */
bool json_number_literal(struct grammar_builder *builder, double value, regex_id *out);
/* Every plain spelling of the multiples of `step` > 0. False: not supported (a step other than
 * those of decimal form, such as 0.3 or 7919). */
bool json_number_multiple(struct grammar_builder *builder, double step, regex_id *out);

#endif
