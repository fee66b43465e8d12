/*
 * Random JSON grammars, and random answers in them with a published tokenizer: at each state that
 * is checked the mask must equal following every token of the vocabulary alone.
 */
#ifndef SHOAL_TESTS_SUPPORT_GRAMMAR_STATES_H
#define SHOAL_TESTS_SUPPORT_GRAMMAR_STATES_H

#include <stdint.h>

struct grammar_vocabulary;

/* The vocabulary of a tokenizer.json; its last token is made the end token, and masks are 77
 * logits wider. Fails the test if the file is missing. */
struct grammar_vocabulary *grammar_states_vocabulary(const char *tokenizer_path);

/* Checks `states` states, spread over random grammars and answers. */
void grammar_states_check(const char *tokenizer_path, uint64_t seed, uint32_t states);

#endif
