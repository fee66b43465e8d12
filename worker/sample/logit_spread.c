/*
 * The variance of a row in two passes over each chunk of LOGIT_CHUNK logits. Pass 1 finds a number
 * near the mean of the distances from the chunk's largest logit. Pass 2 sums the differences from
 * that number and their squares; both are small, so subtracting them loses no precision. The chunks
 * are then moved to one common center and added in order.
 *
 * Within a chunk the order is that of a workgroup: LOGIT_CHUNK_THREADS threads with four lanes
 * each. Each thread sums every LOGIT_CHUNK_THREADS-th quad, then its lanes, and the threads are
 * added in halves.
 *
 * There are no divisions and no square roots, which devices round differently: the limit is
 * compared squared and multiplied by the squared number of logits.
 */
#include "worker/sample/logit_spread.h"

#include <math.h>

#include "proto/must.h"

#define LANES        4u
#define DISTANCE_MAX 0x1p30f
#define CENTER_SHARE (1.0f / (float)LOGIT_CHUNK) /* a power of two */

/* Sums over a chunk's logits above -infinity: distances from its largest one, less `center`. */
struct chunk_spread {
    float count;
    float center;
    float sum;
    float squares;
};

struct chunk {
    const float *logits;
    uint32_t count;
    float largest;
};

static float distance_of(float largest, float logit)
{
    float distance = largest - logit;
    return distance < DISTANCE_MAX ? distance : DISTANCE_MAX;
}

static float sum_threads(float *threads)
{
    for (uint32_t step = LOGIT_CHUNK_THREADS / 2; step > 0; step /= 2)
        for (uint32_t t = 0; t < step; t++)
            threads[t] += threads[t + step];
    return threads[0];
}

/* Sums over the chunk of (distance - center), or of its square. */
static float sum_chunk(const struct chunk *chunk, float center, bool squared)
{
    float threads[LOGIT_CHUNK_THREADS];
    for (uint32_t t = 0; t < LOGIT_CHUNK_THREADS; t++) {
        float lanes[LANES] = {0};
        for (uint32_t first = LANES * t; first < chunk->count;
             first += LANES * LOGIT_CHUNK_THREADS) {
            for (uint32_t j = 0; j < LANES && first + j < chunk->count; j++) {
                float logit = chunk->logits[first + j];
                if (!(logit > -INFINITY))
                    continue;
                float from = distance_of(chunk->largest, logit) - center;
                lanes[j] += squared ? from * from : from;
            }
        }
        threads[t] = lanes[0] + lanes[1] + (lanes[2] + lanes[3]);
    }
    return sum_threads(threads);
}

static struct chunk_spread measure(const struct chunk *chunk)
{
    struct chunk_spread spread = {0};
    uint32_t finite = 0;
    for (uint32_t i = 0; i < chunk->count; i++)
        finite += chunk->logits[i] > -INFINITY;
    spread.count = (float)finite;
    spread.center = sum_chunk(chunk, 0.0f, false) * CENTER_SHARE;
    spread.sum = sum_chunk(chunk, spread.center, false);
    spread.squares = sum_chunk(chunk, spread.center, true);
    return spread;
}

struct logit_cutoff logit_spread_cutoff(const struct logit_walk *walk, float top_n_sigma)
{
    must(isfinite(walk->largest));
    struct chunk_spread row = {0};
    for (uint32_t first = 0; first < walk->vocab_tokens; first += LOGIT_CHUNK) {
        struct chunk chunk = {.logits = walk->logits + first,
                              .count = logit_walk_chunk_tokens(walk, first),
                              .largest = logit_walk_chunk_largest(walk, first)};
        if (chunk.largest == -INFINITY)
            continue;
        struct chunk_spread spread = measure(&chunk);
        float center = distance_of(walk->largest, chunk.largest) + spread.center;
        if (row.count == 0.0f)
            row.center = center;
        float gap = center - row.center;
        float shift = spread.count * gap;
        row.sum = row.sum + (spread.sum + shift);
        row.squares = row.squares + (spread.squares + (2.0f * gap * spread.sum + shift * gap));
        row.count = row.count + spread.count;
    }
    float variance = row.count * row.squares - row.sum * row.sum;
    return (struct logit_cutoff){.scale = row.count * row.count,
                                 .limit = top_n_sigma * top_n_sigma *
                                          (variance > 0.0f ? variance : 0.0f)};
}

bool logit_spread_keeps(const struct logit_cutoff *cutoff, float distance)
{
    return !(distance * distance * cutoff->scale > cutoff->limit);
}
