/*
 * Which tokens the terminals of a grammar allow, found once and kept.
 *
 * A chain is a sequence of terminals' states: the first terminal goes on from its state, each
 * further one starts at its own. An entry of a chain has the tokens whose bytes are read by the
 * whole chain, the last terminal still open or just read, and the exits: the trie nodes where the
 * last terminal has been read and longer tokens go on. What an entry holds depends on the
 * vocabulary and the automaton alone; which chains a mask visits is the parser's matter.
 */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_MASK_CACHE_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_MASK_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/sample/grammar_slices.h"

struct grammar_automaton;
struct grammar_vocabulary;

/* As the parent: the chain is one terminal. Its entry leaves out the plain tokens of the first
 * `slices` slices, which the mask has already, and exits that lead to no other token. */
#define GRAMMAR_CHAIN_START(slices) (UINT32_MAX - (slices))

struct grammar_mask_entry {
    uint32_t parent; /* entry of the chain without its last terminal */
    uint32_t state;  /* where the last terminal goes on */
    uint32_t token_count;
    uint32_t exit_count;
    uint32_t *tokens; /* [token_count]; or NULL and ... */
    uint32_t *words;  /* [mask words] if there are more tokens than words */
    uint32_t *exits;  /* [exit_count] trie nodes */
};

struct grammar_mask_cache {
    struct grammar_mask_entry *entries;
    uint32_t entry_count;
    uint32_t entry_capacity;
    uint32_t *slots; /* hash table of entry + 1 */
    uint32_t slot_mask;
    size_t bytes;
    struct grammar_slices slices;
    uint32_t *found_tokens; /* scratch of one walk, grown as needed */
    uint32_t *found_exits;
    uint32_t found_token_count;
    uint32_t found_token_capacity;
    uint32_t found_exit_count;
    uint32_t found_exit_capacity;
};

void grammar_mask_cache_fini(struct grammar_mask_cache *cache);
/* Drops all entries if they take more than `bytes`. */
void grammar_mask_cache_trim(struct grammar_mask_cache *cache, size_t bytes);

/* The entry of the chain; UINT32_MAX: the automaton failed or memory is out. */
uint32_t grammar_mask_cache_find(struct grammar_mask_cache *cache,
                                 const struct grammar_vocabulary *vocabulary,
                                 struct grammar_automaton *automaton, uint32_t parent,
                                 uint32_t state);

#endif
