/*
 * The seam of speculative decoding: a drafter proposes tokens that may follow a sequence, and the
 * scheduler verifies them by drawing at every drafted position as usual. A proposal therefore
 * affects only timing, never tokens.
 *
 * A drafter keeps one state for each sequence. It reads only known tokens, so nothing has to be
 * taken back when drafts are refused. A preempted or replayed sequence continues with the same
 * state or with a new one.
 */
#ifndef SHOAL_WORKER_DRAFT_DRAFTER_H
#define SHOAL_WORKER_DRAFT_DRAFTER_H

#include <stdint.h>

#include "proto/limits.h"

/* Classes of proposed tokens: those of text that was found again (worker/draft/suffix_drafter.c) and
 * those of a draft model, both from the least reliable to the most reliable one. The policy learns
 * how often tokens of each class are accepted. */
#define DRAFT_CLASSES       13u
#define DRAFT_CLASS_TEXT    6u /* the grammar forces the text, but not its tokens; not of drafters */
#define DRAFT_CLASS_CERTAIN 7u
#define DRAFT_CLASS_MODEL   8u /* the first of a draft model (worker/draft/draft_model.h) */

/* Longest draft of a draft model; within one KV block. */
#define DRAFT_MODEL_TOKENS 8u

struct draft_proposal {
    uint32_t count;
    uint32_t tokens[LIMIT_DRAFT_TOKENS];
    uint8_t classes[LIMIT_DRAFT_TOKENS]; /* of each token, if those before it are accepted */
};

struct drafter {
    /* State of a sequence of at most `tokens_max` tokens; NULL: out of memory. */
    void *(*open)(const struct drafter *drafter, uint32_t tokens_max);
    void (*close)(void *state); /* NULL is fine */
    /* Proposes at most `most` <= LIMIT_DRAFT_TOKENS tokens that follow tokens[0..known). Calls for
     * one sequence have equal tokens as far as they are known, and `known` never falls. */
    void (*propose)(void *state, const uint32_t *tokens, uint32_t known, uint32_t most,
                    struct draft_proposal *proposal);
};

/* Needs no model: suffix_drafter.c. */
extern const struct drafter suffix_drafter;

#endif
