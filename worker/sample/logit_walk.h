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

#define LOGIT_BLOCK         64u   /* logits whose largest is kept, so that a search can skip them */
#define LOGIT_CHUNK         4096u /* logits that are summed up relative to their own largest */
#define LOGIT_CHUNK_THREADS 128u  /* sums within a chunk, each of every so many quads of it */

struct logit_candidate {
    uint32_t token;
    float weight;
    float log_weight; /* (logit - largest) * (1 / temperature) */
};

struct logit_walk {
    uint32_t vocab_tokens;
    float *block_max;                   /* [blocks of LOGIT_BLOCK] */
    uint64_t *heap;                     /* [vocab_tokens] keys gathered and not yet ordered */
    struct logit_candidate *candidates; /* [vocab_tokens] ordered so far */
    const float *logits;                /* [vocab_tokens] the row; the caller's */
    float largest;                      /* -INFINITY when no logit is above it */
    float temperature;
    float inverse_temperature; /* what logits are multiplied by: products round alike everywhere */
    float gathered_down_to;    /* logits above this are gathered */
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
/* 1 / temperature, at most the largest number. */
float logit_walk_inverse(float temperature);
/* Starts the descent at `temperature` > 0; the largest must be finite. */
void logit_walk_descend(struct logit_walk *walk, float temperature);
/* The candidate of rank `rank` (0 = largest), or NULL when no token is left that weighs more than
 * 0. Ranks are asked for in order; earlier ones stay readable in walk->candidates. */
const struct logit_candidate *logit_walk_candidate(struct logit_walk *walk, uint32_t rank);

/* Sums over the vocabulary, in units (weight_units.h): of weights, and of weights times how far
 * below the largest logit they lie, -log weight, which entropy is made of. */
struct logit_sums {
    uint64_t weight;
    uint64_t entropy;
};
void logit_walk_add(struct logit_sums *sums, float weight, float log_weight);
/* At the descent's temperature: rounded within chunks, and token by token without that. The row's
 * parts are within the vocabulary: `first` is a multiple of LOGIT_CHUNK. */
uint64_t logit_walk_weight(const struct logit_walk *walk);
struct logit_sums logit_walk_sums(const struct logit_walk *walk);
struct logit_sums logit_walk_count(const struct logit_walk *walk);
uint32_t logit_walk_chunk_tokens(const struct logit_walk *walk, uint32_t first);
float logit_walk_chunk_largest(const struct logit_walk *walk, uint32_t first);

#endif
