/*
 * A grammar as matchers run it: the checked blob, its automaton, and what follows from both. Shared
 * by the matchers of equal blobs; its lock is held while one of them follows or masks.
 */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_PROGRAM_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_PROGRAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/grammar_blob.h"
#include "worker/sample/grammar_automaton.h"
#include "worker/sample/grammar_mask_cache.h"
#include "worker/sample/grammar_result.h"

struct grammar_program {
    pthread_mutex_t lock;
    void *blob;
    size_t blob_bytes;
    struct grammar_blob_view view;
    struct grammar_automaton automaton;
    uint32_t *terminal_states; /* [terminals] at the start of each */
    bool *rule_nullable;       /* [rules] the rule has a derivation of the empty text */
    uint32_t *repeat_minimum;  /* [repeats] 0 if the symbol is nullable */
    uint32_t *group_first;     /* [groups] first choice of each */
    struct grammar_mask_cache masks;
    uint32_t matchers; /* that use it; this and is_kept under the vocabulary's lock */
    bool is_kept;      /* the vocabulary lists it */
};

/* NULL: *result says why. */
struct grammar_program *grammar_program_open(const void *blob, size_t bytes,
                                             enum grammar_result *result);
void grammar_program_close(struct grammar_program *program);

#endif
