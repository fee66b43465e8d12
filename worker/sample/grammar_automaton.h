/*
 * The deterministic automaton of a grammar's terminals, filled on demand: a state is a regex node
 * of the store, and the table gives the derivative by byte class. States from which nothing can
 * match any more are GRAMMAR_STATE_DEAD.
 *
 * Bounded by the store's memory limit and, in one step, by its fuel; GRAMMAR_STATE_FAILED then.
 */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_AUTOMATON_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_AUTOMATON_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/grammar_blob.h"
#include "proto/grammar_regex.h"

#define GRAMMAR_STATE_DEAD    0u
#define GRAMMAR_STATE_ACCEPTS 0x40000000u /* flag in a state: the text so far matches */
#define GRAMMAR_STATE_FAILED  UINT32_MAX
#define GRAMMAR_STATE_LAST    (REGEX_EMPTY | GRAMMAR_STATE_ACCEPTS) /* matches, no byte may follow */

struct grammar_automaton {
    struct regex_store store;
    struct regex_classes classes;
    uint32_t *row_of; /* [row_of_count] offset in table by node, or GRAMMAR_STATE_FAILED */
    uint32_t row_of_count;
    uint32_t *table; /* states by class; GRAMMAR_STATE_FAILED: not derived yet */
    uint32_t table_used;
    uint32_t table_size;
};

/* Builds the nodes of a checked blob. terminal_states[terminal_count] are the states at their
 * starts. False: too much work or memory; fini is due either way. */
bool grammar_automaton_init(struct grammar_automaton *automaton,
                            const struct grammar_blob_view *view, uint32_t *terminal_states);
void grammar_automaton_fini(struct grammar_automaton *automaton);
/* Fuel for one token or mask; earlier failures are forgotten, except that memory is out. */
void grammar_automaton_refill(struct grammar_automaton *automaton);

/* Its memory is full: no state can be added any more. */
static inline bool grammar_automaton_is_full(const struct grammar_automaton *automaton)
{
    return automaton->store.failure == REGEX_OUT_OF_MEMORY;
}

/* The state of a node of the store: dead if nothing matches it, failed as above. */
uint32_t grammar_automaton_state(struct grammar_automaton *automaton, uint32_t node);

uint32_t grammar_automaton_derive(struct grammar_automaton *automaton, uint32_t state,
                                  uint32_t byte_class);

/* The state after a byte of the class. `state` is neither dead nor failed. */
static inline uint32_t grammar_automaton_next(struct grammar_automaton *automaton, uint32_t state,
                                              uint32_t byte_class)
{
    uint32_t row = automaton->row_of[state & ~GRAMMAR_STATE_ACCEPTS];
    if (row != GRAMMAR_STATE_FAILED) {
        uint32_t next = automaton->table[row + byte_class];
        if (next != GRAMMAR_STATE_FAILED)
            return next;
    }
    return grammar_automaton_derive(automaton, state, byte_class);
}

#endif
