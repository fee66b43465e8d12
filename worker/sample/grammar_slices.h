/*
 * Slices of plain tokens that a mask takes whole.
 *
 * A walk over the whole vocabulary takes about a millisecond where most tokens are allowed, which
 * is the rule inside strings. So tokens of plain characters (grammar_plain.h) are sliced by length
 * (grammar_trie.h). Where some terminal goes on with whatever plain characters follow, and none can
 * end within them, all tokens of a slice are allowed and only the other ones are walked.
 */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_SLICES_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_SLICES_H

#include <stddef.h>
#include <stdint.h>

#include "worker/sample/grammar_plain.h"

struct grammar_automaton;
struct grammar_vocabulary;

#define GRAMMAR_SLICE_STATES 8u  /* terminals at once */
#define GRAMMAR_SLICE_SETS   32u /* of terminals whose slices are kept */

struct grammar_slice_set {
    uint32_t states[GRAMMAR_SLICE_STATES];
    uint32_t count; /* 0: free */
    uint32_t slices;
};

/* What is known of an automaton; zeroed at first. */
struct grammar_slices {
    uint8_t *facts; /* [fact_count] by regex node */
    uint32_t fact_count;
    uint32_t plain;                           /* regex of one plain character, 0: not built yet */
    uint64_t plain_bytes[4];                  /* bytes of plain characters, at any place */
    uint64_t classes[GRAMMAR_PLAIN_STEPS][4]; /* bit sets of byte classes that a step meets */
    uint32_t failed_walks;                    /* in a row */
    uint32_t walks_to_skip;
    struct grammar_slice_set sets[GRAMMAR_SLICE_SETS];
};

void grammar_slices_fini(struct grammar_slices *slices);

/* Number of first slices whose tokens are all allowed where any of the terminals' states may go on,
 * and that have no proper end of any of them inside. states[count] ascend. */
uint32_t grammar_slices_allowed(struct grammar_slices *slices,
                                const struct grammar_vocabulary *vocabulary,
                                struct grammar_automaton *automaton, const uint32_t *states,
                                size_t count);

#endif
