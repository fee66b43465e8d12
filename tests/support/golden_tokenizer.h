/*
 * Opens tokenizer.json files for tests, and compares a tokenizer with the golden corpus. If a file
 * cannot be read or opened, the running test fails. The caller closes tokenizers.
 */
#ifndef SHOAL_TESTS_SUPPORT_GOLDEN_TOKENIZER_H
#define SHOAL_TESTS_SUPPORT_GOLDEN_TOKENIZER_H

#include "frontend/prompt/tokenizer/tokenizer.h"

/* A published tokenizer that scripts/fetch_tokenizers has fetched: "gpt2", "qwen3", ... */
struct tokenizer *golden_tokenizer_open_published(const char *name);
/* One of the tiny tokenizers in tests/golden/tokenizer/variants. */
struct tokenizer *golden_tokenizer_open_variant(const char *name);

/* Compares the ids of all cases of <folder>/corpus.txt with <folder>/<name>.txt, as a user's text and
 * as a template's. Fails the test if any differ. */
void golden_tokenizer_check(const char *folder, const char *name, struct tokenizer *tokenizer);

#endif
