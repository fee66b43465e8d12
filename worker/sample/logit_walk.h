/*
 * One row of logits seen from its largest down: token ids in descending order of logit, equal
 * logits in order of id, found only as far as somebody asks. Plus the sums that a softmax needs.
 *
 * Every weight here is exp((logit - largest) / temperature), so the largest token weighs 1. All of
 * it is plain f32 and f64 arithmetic in a fixed order: the same row gives the same bits on every
 * machine and at every thread count.
 */
#ifndef SHOAL_WORKER_SAMPLE_LOGIT_WALK_H
#define SHOAL_WORKER_SAMPLE_LOGIT_WALK_H

#include <stdbool.h>
#include <stdint.h>

#define LOGIT_BLOCK 64u /* logits whose largest is kept, so that a search can skip them */

struct logit_candidate {
    uint32_t token;
    float weight;
    float log_weight; /* (logit - largest) / temperature */
};

struct logit_walk {
    uint32_t vocab_tokens;
    float *block_max;                   /* [blocks of LOGIT_BLOCK] */
    uint64_t *heap;                     /* [vocab_tokens] keys gathered and not yet ordered */
    struct logit_candidate *candidates; /* [vocab_tokens] ordered so far */
    const float *logits;                /* [vocab_tokens] the row; the caller's */
    float largest;                      /* -INFINITY when no logit is above it */
    float temperature;
    float gathered_down_to; /* logits above this are gathered */
    uint32_t next_margin;
    uint32_t heap_count;
    uint32_t candidate_count;
};

void logit_walk_init(struct logit_walk *walk, uint32_t vocab_tokens);
void logit_walk_fini(struct logit_walk *walk);

/* Looks at a new row and finds its largest logit; NaN counts as -infinity. The row stays the
 * caller's and must not change until the next begin. */
void logit_walk_begin(struct logit_walk *walk, const float *logits);
/* Lowest id whose logit is the largest one; 0 when there is none above -infinity. */
uint32_t logit_walk_largest(const struct logit_walk *walk);
/* Sum over the vocabulary of exp((logit - largest) / temperature); the largest must be finite. */
double logit_walk_sum(const struct logit_walk *walk, float temperature);

/* The same sum, and as the second result the sum of these weights times their logarithms, (logit -
 * largest) / temperature: what entropy is made of. Tokens that weigh nothing add nothing. */
struct logit_moments {
    double weight;
    double weighted_log;
};
struct logit_moments logit_walk_moments(const struct logit_walk *walk, float temperature);

/* Starts the descent at `temperature` > 0; the largest must be finite. */
void logit_walk_descend(struct logit_walk *walk, float temperature);
/* The candidate of rank `rank` (0 = largest), or NULL when no token is left that weighs more than
 * 0. Ranks are asked for in order; earlier ones stay readable in walk->candidates. */
const struct logit_candidate *logit_walk_candidate(struct logit_walk *walk, uint32_t rank);

#endif
