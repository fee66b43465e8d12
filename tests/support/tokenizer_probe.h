/*
 * Checks invariants of a tokenizer opened from any file; for fuzz targets.
 */
#ifndef SHOAL_TESTS_SUPPORT_TOKENIZER_PROBE_H
#define SHOAL_TESTS_SUPPORT_TOKENIZER_PROBE_H

struct tokenizer;

/* Aborts unless every token has a text, a text is encoded within its bound, and a user's text gives
 * no special token but the one for unknown characters. */
void tokenizer_probe_check(const struct tokenizer *tokenizer);

#endif
