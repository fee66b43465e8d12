/*
 * Plain characters: those that a JSON string has as they are, without the line separators that "."
 * leaves out of patterns; in UTF-8, as a small automaton over bytes. GRAMMAR_PLAIN_BOUNDARY is its
 * start and its only accepting state.
 */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_PLAIN_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct regex_store;

#define GRAMMAR_PLAIN_BOUNDARY 0u
#define GRAMMAR_PLAIN_STEPS    24u

/* A byte of first to last leads from one state to another. */
struct grammar_plain_step {
    uint8_t from, first, last, to;
};
extern const struct grammar_plain_step grammar_plain_steps[GRAMMAR_PLAIN_STEPS];

/* True: the text is plain characters only; *characters is their number. */
bool grammar_plain_count(const uint8_t *text, size_t bytes, uint32_t *characters);

/* One plain character; REGEX_FAILED as the constructors of proto/grammar_regex.h. */
uint32_t grammar_plain_regex(struct regex_store *store);

#endif
