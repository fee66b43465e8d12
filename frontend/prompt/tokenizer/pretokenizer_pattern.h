/*
 * A regular expression of a pre-tokenizer, compiled once, searched by any number of threads.
 *
 * Patterns are written for Oniguruma (Ruby syntax), which Hugging Face's `tokenizers` uses; PCRE2
 * runs them with its JIT after the constructs in which the two differ are rewritten (see
 * pretokenizer_pattern.c).
 */
#ifndef SHOAL_FRONTEND_PROMPT_TOKENIZER_PRETOKENIZER_PATTERN_H
#define SHOAL_FRONTEND_PROMPT_TOKENIZER_PRETOKENIZER_PATTERN_H

#include <stddef.h>

#include "proto/result.h"

struct pretokenizer_pattern;

/* RESULT_UNSUPPORTED with the reason if PCRE2 rejects the pattern. */
enum result pretokenizer_pattern_open(const char *regex, size_t regex_bytes,
                                      struct pretokenizer_pattern **pattern,
                                      struct error_text *error) RESULT_CHECKED;
void pretokenizer_pattern_close(struct pretokenizer_pattern *pattern);

/* Memory of one thread's searches (any pattern). NULL when out of memory. */
struct pattern_search;
struct pattern_search *pattern_search_create(void);
void pattern_search_destroy(struct pattern_search *search);

/*
 * The first match at or after `from` in valid UTF-8; look-ahead sees the end of the text at
 * text_bytes. RESULT_NOT_FOUND; RESULT_UNSUPPORTED if the pattern exceeds its bound on steps or
 * memory on this text (no built-in one does).
 */
enum result pretokenizer_pattern_find(const struct pretokenizer_pattern *pattern,
                                      struct pattern_search *search, const char *text,
                                      size_t text_bytes, size_t from, size_t *start,
                                      size_t *end) RESULT_CHECKED;

#endif
