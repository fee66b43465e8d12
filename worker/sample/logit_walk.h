/*
 * One row of logits in descending order: token ids by logit, equal logits by id, found only as far
 * as the caller asks. Also the sums that a softmax needs.
 *
 * A weight is exp((logit - largest) / temperature), so the largest token has weight 1. All
 * arithmetic is f32 and f64 in a fixed order: the same row gives the same bits on every machine and
 * with any number of threads.
 */
#ifndef SHOAL_WORKER_SAMPLE_LOGIT_WALK_H
#define SHOAL_WORKER_SAMPLE_LOGIT_WALK_H

#include <stdbool.h>
#include <stdint.h>

#define LOGIT_BLOCK         64u   /* logits per stored maximum; a search skips whole blocks */
#define LOGIT_CHUNK         4096u /* logits summed relative to their own largest one */
#define LOGIT_CHUNK_THREADS 128u  /* partial sums of a chunk; each covers every 128th quad */

struct logit_candidate {
    uint32_t token;
    float weight;
    float log_weight; /* (logit - largest) * (1 / temperature) */
};

struct logit_walk {
    uint32_t vocab_tokens;
    float *block_max;                   /* [blocks of LOGIT_BLOCK] */
    uint64_t *heap;                     /* [vocab_tokens] gathered keys that are not ordered yet */
    struct logit_candidate *candidates; /* [vocab_tokens] ordered so far */
    const float *logits;                /* [vocab_tokens] the row; the caller's */
    float largest;                      /* -INFINITY if no logit is above it */
    float temperature;
    float
        /* logits are multiplied by it: products round the same on all devices */
        inverse_temperature;
    float gathered_down_to; /* logits above this are gathered */
    uint32_t next_margin;
    uint32_t heap_count;
    uint32_t candidate_count;
};

void logit_walk_init(struct logit_walk *walk, uint32_t vocab_tokens);
void logit_walk_fini(struct logit_walk *walk);

/* Starts a new row and finds its largest logit; NaN counts as -infinity. The caller keeps the row
 * unchanged until the next begin. */
void logit_walk_begin(struct logit_walk *walk, const float *logits);
/* The lowest id with the largest logit; 0 if no logit is above -infinity. */
uint32_t logit_walk_largest(const struct logit_walk *walk);
/* Number of tokens with a logit above -infinity. */
uint32_t logit_walk_finite(const struct logit_walk *walk);
/* Number of tokens whose logit is at least the token's, itself included. */
uint32_t logit_walk_rank(const struct logit_walk *walk, uint32_t token);
/* exp(x) for x <= 0, with the same bits on every machine; 0 below -87. */
float logit_walk_exp(float x);
/* 1 / temperature, at most FLT_MAX. */
float logit_walk_inverse(float temperature);
/* Starts the descent at `temperature` > 0; the largest logit must be finite. */
void logit_walk_descend(struct logit_walk *walk, float temperature);
/* The candidate of rank `rank` (0 = largest), or NULL if no further token has a weight above 0.
 * Ranks are requested in order; earlier ones stay readable in walk->candidates. */
const struct logit_candidate *logit_walk_candidate(struct logit_walk *walk, uint32_t rank);

/* Sums over the vocabulary in fixed point (fixed_weight.h): of the weights, and of weight * -log
 * weight, from which the entropy is computed. */
struct logit_sums {
    uint64_t weight;
    uint64_t entropy;
};
void logit_walk_add(struct logit_sums *sums, float weight, float log_weight);
/* Sums at the descent's temperature. logit_walk_weight() and logit_walk_sums() round within chunks,
 * logit_walk_count() adds token by token. The row's parts: `first` is a multiple of LOGIT_CHUNK
 * within the vocabulary. */
uint64_t logit_walk_weight(const struct logit_walk *walk);
struct logit_sums logit_walk_sums(const struct logit_walk *walk);
struct logit_sums logit_walk_count(const struct logit_walk *walk);
uint32_t logit_walk_chunk_tokens(const struct logit_walk *walk, uint32_t first);
float logit_walk_chunk_largest(const struct logit_walk *walk, uint32_t first);

#endif
