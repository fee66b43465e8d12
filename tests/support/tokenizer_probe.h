/*
 * What must hold of a tokenizer that opened, whatever file it came from; for fuzz targets.
 */
#ifndef SHOAL_TESTS_SUPPORT_TOKENIZER_PROBE_H
#define SHOAL_TESTS_SUPPORT_TOKENIZER_PROBE_H

struct tokenizer;

/* must(): every token can be shown, a text is encoded within its bound, and a user's text makes no
 * special token but the one for unknown characters. */
void tokenizer_probe_check(const struct tokenizer *tokenizer);

#endif
