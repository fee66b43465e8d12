/*
 * Sampling needs tokens in descending order of probability, but seldom more than a few dozen of up
 * to a quarter of a million. Sorting the vocabulary would cost more than a small model's forward
 * pass.
 *
 * The first pass finds the largest logit of each block of 64. The descent works in slices: it
 * gathers the logits within a margin of the largest one into a heap, skipping blocks that cannot
 * hold any, and pops them one by one. If the heap is empty, it gathers the next slice further down.
 * Each slice lies below the one before it, so the order is exact however few candidates are
 * requested. A heap key is the logit's bits, mapped to an ascending integer, and the id, so equal
 * logits pop in order of id.
 *
 * Sums over the vocabulary work in chunks of LOGIT_CHUNK. Weights relative to the chunk's largest
 * one are added in the order of a workgroup of LOGIT_CHUNK_THREADS threads, the threads' sums are
 * integers (fixed_weight.h), and the chunk's sum is scaled to the row's largest logit. A GPU can
 * compute the same without knowing the row's largest logit first.
 *
 * exp() is a vectorized polynomial with a relative error below 2e-7. The C library's exp() is
 * slower and may differ between machines.
 */
#include "worker/sample/logit_walk.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/sample/fixed_weight.h"

#define LANES          4u
#define MIN_LOG_WEIGHT (-87.0f) /* log of the smallest weight; smaller ones are 0 */
#define SCALE_SHIFT    7        /* distances are below 2^7 */

/* Distances from the largest logit at which slices end, in units of temperature. Beyond the last
 * one every weight is 0. */
static const float margins[] = {3.0f, 8.0f, 16.0f, 88.0f};
#define MARGIN_COUNT (sizeof margins / sizeof margins[0])

void logit_walk_init(struct logit_walk *walk, uint32_t vocab_tokens)
{
    must(vocab_tokens > 0);
    *walk = (struct logit_walk){.vocab_tokens = vocab_tokens};
    walk->block_max = must_alloc((vocab_tokens + LOGIT_BLOCK - 1) / LOGIT_BLOCK, sizeof(float));
    walk->heap = must_alloc(vocab_tokens, sizeof *walk->heap);
    walk->candidates = must_alloc(vocab_tokens, sizeof *walk->candidates);
}

void logit_walk_fini(struct logit_walk *walk)
{
    free(walk->block_max);
    free(walk->heap);
    free(walk->candidates);
}

/* Four floats through the compilers' vector extension: baseline instructions on every machine, with
 * the same bits on all of them. */
typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));

static inline f32x4 f32x4_load(const float *from)
{
    f32x4 value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline f32x4 f32x4_select(i32x4 mask, f32x4 yes, f32x4 no)
{
    return (f32x4)(((i32x4)yes & mask) | ((i32x4)no & ~mask));
}

/* exp(x) for x <= 0; 0 below -87 and for NaN. */
static inline f32x4 exp_negative(f32x4 x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, kept in the low bits */
    f32x4 shifted = x * 0x1.715476p0f + magic; /* x / ln 2 */
    f32x4 n = shifted - magic;
    f32x4 r = x - n * 0x1.62e4p-1f; /* ln 2 in two parts: n times the first one is exact */
    r = r - n * 0x1.7f7d1cp-20f;
    f32x4 p = r * 0x1.6c16c2p-10f + 0x1.111112p-7f; /* 1/6!, 1/5!, … */
    p = p * r + 0x1.555556p-5f;
    p = p * r + 0x1.555556p-3f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    u32x4 power_bits = ((u32x4)shifted << 23) + 0x3f800000u; /* 2^n */
    f32x4 value = p * (f32x4)power_bits;
    return f32x4_select(x >= MIN_LOG_WEIGHT, value, (f32x4){0});
}

static float exp_negative_one(float x)
{
    return exp_negative((f32x4){x, x, x, x})[0];
}

static float block_largest(const float *logits, uint32_t count)
{
    float largest = -INFINITY;
    uint32_t whole = count / LANES * LANES;
    if (whole > 0) {
        f32x4 lanes = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
        for (uint32_t i = 0; i < whole; i += LANES) {
            f32x4 x = f32x4_load(logits + i);
            lanes = f32x4_select(x > lanes, x, lanes); /* a NaN compares false */
        }
        for (uint32_t j = 0; j < LANES; j++)
            largest = lanes[j] > largest ? lanes[j] : largest;
    }
    for (uint32_t i = whole; i < count; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    return largest;
}

static uint32_t block_count_of(const struct logit_walk *walk, uint32_t first)
{
    uint32_t left = walk->vocab_tokens - first;
    return left < LOGIT_BLOCK ? left : LOGIT_BLOCK;
}

void logit_walk_begin(struct logit_walk *walk, const float *logits)
{
    walk->logits = logits;
    walk->largest = -INFINITY;
    walk->heap_count = 0;
    walk->candidate_count = 0;
    for (uint32_t first = 0; first < walk->vocab_tokens; first += LOGIT_BLOCK) {
        float largest = block_largest(logits + first, block_count_of(walk, first));
        walk->block_max[first / LOGIT_BLOCK] = largest;
        if (largest > walk->largest)
            walk->largest = largest;
    }
}

uint32_t logit_walk_largest(const struct logit_walk *walk)
{
    if (walk->largest == -INFINITY)
        return 0;
    uint32_t block = 0;
    while (walk->block_max[block] != walk->largest)
        block++;
    uint32_t token = block * LOGIT_BLOCK;
    while (walk->logits[token] != walk->largest)
        token++;
    return token;
}

uint32_t logit_walk_chunk_tokens(const struct logit_walk *walk, uint32_t first)
{
    uint32_t left = walk->vocab_tokens - first;
    return left < LOGIT_CHUNK ? left : LOGIT_CHUNK;
}

float logit_walk_chunk_largest(const struct logit_walk *walk, uint32_t first)
{
    float largest = -INFINITY;
    uint32_t end = first + logit_walk_chunk_tokens(walk, first);
    for (uint32_t block = first / LOGIT_BLOCK; block * LOGIT_BLOCK < end; block++)
        largest = walk->block_max[block] > largest ? walk->block_max[block] : largest;
    return largest;
}

/* Up to four logits; missing ones are -infinity, so their weight is 0. */
static inline f32x4 f32x4_load_some(const float *from, uint32_t count)
{
    f32x4 value = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    if (count >= LANES)
        return f32x4_load(from);
    memcpy(&value, from, count * sizeof *from);
    return value;
}

static uint64_t lanes_units(f32x4 lanes)
{
    return fixed_weight_of(lanes[0] + lanes[1] + (lanes[2] + lanes[3]));
}

/* Sums relative to the chunk's largest logit. Inline because `with_entropy` is a constant. */
static inline struct logit_sums sum_chunk(const float *logits, uint32_t count, float largest,
                                          float inverse_temperature, bool with_entropy)
{
    struct logit_sums sums = {0};
    for (uint32_t thread = 0; thread < LOGIT_CHUNK_THREADS; thread++) {
        f32x4 weights = {0};
        f32x4 entropies = {0};
        for (uint32_t at = LANES * thread; at < count; at += LANES * LOGIT_CHUNK_THREADS) {
            f32x4 x = (f32x4_load_some(logits + at, count - at) - largest) * inverse_temperature;
            f32x4 weight = exp_negative(x);
            weights += weight;
            if (with_entropy)
                entropies += f32x4_select(x >= MIN_LOG_WEIGHT, weight * -x, (f32x4){0});
        }
        sums.weight += lanes_units(weights);
        sums.entropy += lanes_units(entropies);
    }
    return sums;
}

static inline struct logit_sums sum_row(const struct logit_walk *walk, bool with_entropy)
{
    must(isfinite(walk->largest));
    struct logit_sums total = {0};
    for (uint32_t first = 0; first < walk->vocab_tokens; first += LOGIT_CHUNK) {
        float largest = logit_walk_chunk_largest(walk, first);
        float below = (largest - walk->largest) * walk->inverse_temperature;
        float factor = exp_negative_one(below);
        if (factor == 0.0f)
            continue;
        struct logit_sums sums =
            sum_chunk(walk->logits + first, logit_walk_chunk_tokens(walk, first), largest,
                      walk->inverse_temperature, with_entropy);
        uint64_t weight = fixed_weight_scale(sums.weight, factor);
        float distance = (0.0f - below) / (float)(1u << SCALE_SHIFT);
        total.weight += weight;
        if (with_entropy)
            total.entropy += fixed_weight_scale(sums.entropy, factor) +
                             fixed_weight_scale(weight << SCALE_SHIFT, distance);
    }
    return total;
}

uint64_t logit_walk_weight(const struct logit_walk *walk)
{
    return sum_row(walk, false).weight;
}

struct logit_sums logit_walk_sums(const struct logit_walk *walk)
{
    return sum_row(walk, true);
}

void logit_walk_add(struct logit_sums *sums, float weight, float log_weight)
{
    sums->weight += fixed_weight_of(weight);
    sums->entropy += weight > 0.0f ? fixed_weight_of(weight * (0.0f - log_weight)) : 0;
}

struct logit_sums logit_walk_count(const struct logit_walk *walk)
{
    must(isfinite(walk->largest));
    struct logit_sums sums = {0};
    for (uint32_t block = 0; block * LOGIT_BLOCK < walk->vocab_tokens; block++) {
        uint32_t first = block * LOGIT_BLOCK;
        if (walk->block_max[block] == -INFINITY)
            continue;
        for (uint32_t token = first; token < first + block_count_of(walk, first); token++) {
            float log_weight = (walk->logits[token] - walk->largest) * walk->inverse_temperature;
            logit_walk_add(&sums, exp_negative_one(log_weight), log_weight);
        }
    }
    return sums;
}

/* Ascending keys are descending logits, then ascending ids. */
static uint64_t key_make(float logit, uint32_t token)
{
    uint32_t bits;
    logit += 0.0f; /* -0 becomes 0: they compare equal */
    memcpy(&bits, &logit, sizeof bits);
    uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)~ascending << 32 | token;
}

static void heap_sift_down(uint64_t *heap, uint32_t count, uint32_t at)
{
    uint64_t key = heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= key)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = key;
}

/* Gathers the slice (lower, gathered_down_to] into the empty heap; false if none is left. */
static bool gather_slice(struct logit_walk *walk)
{
    if (walk->next_margin == MARGIN_COUNT)
        return false;
    float upper = walk->gathered_down_to;
    float lower = walk->largest - margins[walk->next_margin++] * walk->temperature;
    if (lower == walk->largest) /* the margin was lost in rounding */
        lower = nextafterf(lower, -INFINITY);

    uint32_t count = 0;
    for (uint32_t first = 0; first < walk->vocab_tokens; first += LOGIT_BLOCK) {
        if (!(walk->block_max[first / LOGIT_BLOCK] > lower))
            continue;
        uint32_t end = first + block_count_of(walk, first);
        for (uint32_t token = first; token < end; token++) {
            float logit = walk->logits[token];
            if (logit > lower && logit <= upper)
                walk->heap[count++] = key_make(logit, token);
        }
    }
    walk->heap_count = count;
    walk->gathered_down_to = lower;
    for (uint32_t at = count / 2; at-- > 0;)
        heap_sift_down(walk->heap, count, at);
    return true;
}

uint32_t logit_walk_rank(const struct logit_walk *walk, uint32_t token)
{
    float logit = walk->logits[token];
    if (!(logit > -INFINITY))
        return walk->vocab_tokens;
    uint32_t count = 0;
    for (uint32_t first = 0; first < walk->vocab_tokens; first += LOGIT_BLOCK) {
        if (walk->block_max[first / LOGIT_BLOCK] < logit)
            continue;
        uint32_t end = first + block_count_of(walk, first);
        for (uint32_t at = first; at < end; at++)
            count += walk->logits[at] >= logit;
    }
    return count;
}

uint32_t logit_walk_finite(const struct logit_walk *walk)
{
    uint32_t count = 0;
    for (uint32_t token = 0; token < walk->vocab_tokens; token++)
        count += walk->logits[token] > -INFINITY;
    return count;
}

float logit_walk_exp(float x)
{
    return exp_negative_one(x);
}

float logit_walk_inverse(float temperature)
{
    return fminf(1.0f / temperature, FLT_MAX);
}

void logit_walk_descend(struct logit_walk *walk, float temperature)
{
    must(isfinite(walk->largest) && temperature > 0.0f);
    walk->temperature = temperature;
    walk->inverse_temperature = logit_walk_inverse(temperature);
    walk->gathered_down_to = INFINITY;
    walk->next_margin = 0;
    walk->heap_count = 0;
    walk->candidate_count = 0;
}

const struct logit_candidate *logit_walk_candidate(struct logit_walk *walk, uint32_t rank)
{
    if (rank < walk->candidate_count)
        return &walk->candidates[rank];
    must(rank == walk->candidate_count);
    while (walk->heap_count == 0) {
        if (!gather_slice(walk))
            return NULL;
    }
    uint32_t token = (uint32_t)walk->heap[0];
    walk->heap[0] = walk->heap[--walk->heap_count];
    if (walk->heap_count > 0)
        heap_sift_down(walk->heap, walk->heap_count, 0);
    struct logit_candidate *candidate = &walk->candidates[walk->candidate_count++];
    candidate->token = token;
    candidate->log_weight = (walk->logits[token] - walk->largest) * walk->inverse_temperature;
    candidate->weight = exp_negative_one(candidate->log_weight);
    return candidate;
}
