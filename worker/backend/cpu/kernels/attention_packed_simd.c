/*
 * Attention over quantized blocks without decoding more than one of them at a time.
 *
 * Eight codes of b bits are b bytes. For b up to 4 they fit in 32 bits, which are broadcast to all
 * lanes and shifted by lane; for 5 to 7 bits a shuffle first gives each lane the two bytes that
 * contain its code; for 8 bits codes are bytes. A code then is converted to a number (uniform) or
 * selects a level from one or two registers that hold the codebook. Reads of a few bytes beyond the
 * codes stay inside the block, since scales follow codes. With many queries a segment's codes are
 * unpacked once, onto the stack, and the same sums are computed from there.
 *
 * Scales and biases are not applied to single elements. For keys, a group's dot product is
 * multiplied by the scale, plus the bias times the sum of the query's elements; for values, weights
 * are multiplied by the scale before the sum, and the bias is multiplied by the sum of the weights.
 *
 * The order of every sum is fixed by segment, position and dimension: it does not depend on how
 * many queries share a call.
 */
#include "worker/backend/cpu/kernels/attention_packed_simd.h"

#include <string.h>

#include "worker/backend/cpu/kernels/simd_floats.h"

#define INLINE SIMD_INLINE
#define UNROLL SIMD_UNROLL

enum { BLOCK = KV_BLOCK_TOKENS, LANES = 8 };

/* How codes are stored and decoded. */
enum code_form {
    CODE_NUMBER,  /* a number of up to four bits */
    CODE_WIDE,    /* a number of up to eight bits */
    CODE_BYTE,    /* a number of eight bits */
    CODE_LEVEL8,  /* one of up to eight levels */
    CODE_LEVEL16, /* one of sixteen */
    CODE_FLOAT,   /* unpacked already */
};

/* A segment's codes of all slots. */
struct code_rows {
    const uint8_t *codes; /* of slot 0 */
    size_t row_bytes;
    size_t chunk_bytes; /* of eight codes */
};

struct unpacker {
    simd_ints places; /* WIDE: bytes of each lane's code */
    simd_ints shifts;
    simd_ints mask;
    simd_levels levels;
};

static enum code_form form_of(const struct kv_side *side, const struct kv_segment *segment)
{
    if (side->rotated)
        return segment->bits <= 3 ? CODE_LEVEL8 : CODE_LEVEL16;
    return segment->bits <= 4 ? CODE_NUMBER : segment->bits == 8 ? CODE_BYTE : CODE_WIDE;
}

static struct unpacker unpacker_of(const struct kv_side *side, const struct kv_segment *segment)
{
    struct unpacker unpacker;
    uint8_t places[32];
    uint32_t shifts[LANES];
    float levels[KV_CODEBOOK_LEVELS_MAX] = {0};
    bool wide = form_of(side, segment) == CODE_WIDE;
    memset(places, 0x80, sizeof places); /* selects zero */
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t bit = i * segment->bits;
        places[4 * i] = (uint8_t)(bit / 8);
        places[4 * i + 1] = (uint8_t)(bit / 8 + 1);
        shifts[i] = wide ? bit % 8 : bit;
    }
    if (side->rotated)
        memcpy(levels, side->codebooks[segment->codebook].levels, sizeof levels);
    if (side->rotated && segment->bits < 3) /* bits above a code need no masking then */
        for (uint32_t i = 1u << segment->bits; i < LANES; i++)
            levels[i] = levels[i % (1u << segment->bits)];
    unpacker.places = simd_load_ints(places);
    unpacker.shifts = simd_load_ints(shifts);
    unpacker.mask = simd_all_ints((1 << segment->bits) - 1);
    unpacker.levels = simd_load_levels(levels);
    return unpacker;
}

/* Each lane's code in its lowest bits; higher bits are not cleared. */
INLINE simd_ints spread_codes(enum code_form form, const struct unpacker *unpacker,
                              const uint8_t *codes)
{
    int32_t bytes;
    if (form == CODE_WIDE)
        return simd_shift_right(simd_spread_bytes(codes, unpacker->places), unpacker->shifts);
    memcpy(&bytes, codes, sizeof bytes);
    return simd_shift_right(simd_all_ints(bytes), unpacker->shifts);
}

INLINE simd_floats unpack(enum code_form form, const struct unpacker *unpacker,
                          const uint8_t *codes)
{
    if (form == CODE_FLOAT)
        return simd_load((const float *)(const void *)codes);
    if (form == CODE_BYTE)
        return simd_load_bytes(codes);
    simd_ints x = spread_codes(form, unpacker, codes);
    if (form == CODE_NUMBER || form == CODE_WIDE)
        return simd_to_floats(simd_and(x, unpacker->mask));
    return form == CODE_LEVEL8 ? simd_pick_of_eight(unpacker->levels, x)
                               : simd_pick_of_sixteen(unpacker->levels, x);
}

static struct code_rows rows_of(const struct kv_side *side, const struct kv_segment *segment,
                                const uint8_t *side_memory)
{
    return (struct code_rows){side_memory + segment->code_offset, side->code_bytes, segment->bits};
}

INLINE void unpack_rows(enum code_form form, const struct kv_side *side,
                        const struct kv_segment *segment, const uint8_t *side_memory, float *out)
{
    const struct unpacker unpacker = unpacker_of(side, segment);
    const struct code_rows rows = rows_of(side, segment, side_memory);
    for (uint32_t slot = 0; slot < BLOCK; slot++) {
        const uint8_t *codes = rows.codes + slot * rows.row_bytes;
        for (uint32_t d = 0; d < segment->count;
             d += LANES, codes += rows.chunk_bytes, out += LANES)
            simd_store(out, unpack(form, &unpacker, codes));
    }
}

/* floats [BLOCK][segment->count]. */
static struct code_rows unpack_segment(const struct kv_side *side, const struct kv_segment *segment,
                                       const uint8_t *side_memory, float *floats)
{
    switch (form_of(side, segment)) {
    case CODE_NUMBER: unpack_rows(CODE_NUMBER, side, segment, side_memory, floats); break;
    case CODE_WIDE: unpack_rows(CODE_WIDE, side, segment, side_memory, floats); break;
    case CODE_BYTE: unpack_rows(CODE_BYTE, side, segment, side_memory, floats); break;
    case CODE_LEVEL8: unpack_rows(CODE_LEVEL8, side, segment, side_memory, floats); break;
    default: unpack_rows(CODE_LEVEL16, side, segment, side_memory, floats); break;
    }
    return (struct code_rows){(const uint8_t *)floats, segment->count * sizeof *floats,
                              LANES * sizeof *floats};
}

/* Half `half` (8 slots) of the block's scales or biases at `offset`. */
INLINE simd_floats load_halves(const uint8_t *side_memory, uint32_t offset, uint32_t scale,
                               uint32_t half)
{
    const uint8_t *at = side_memory + offset + 2 * (size_t)(scale * BLOCK + half * LANES);
    return simd_load_halves((const void *)at);
}

void attention_packed_begin(const struct kv_side *keys, float *query,
                            float group_sums[KV_SEGMENTS_MAX])
{
    if (keys->rotated)
        kv_rotation_apply(&keys->rotation, query);
    for (uint32_t i = 0; keys->biased && i < keys->segment_count; i++) {
        const struct kv_segment *segment = &keys->segments[i];
        float sum = 0.0f;
        for (uint32_t d = 0; d < segment->count; d++)
            sum += query[segment->first + d];
        group_sums[segment->scale] = sum;
    }
}

/* Calls `function` with the segment's form as a constant; for many queries unpacks its codes. */
#define FOR_SEGMENT(function, side, segment, memory, count, ...)                                   \
    do {                                                                                           \
        struct code_rows rows = rows_of(side, segment, memory);                                    \
        float floats[BLOCK * LIMIT_HEAD_DIM];                                                      \
        enum code_form form = form_of(side, segment);                                              \
        if ((count) > SIMD_QUERIES) {                                                              \
            rows = unpack_segment(side, segment, memory, floats);                                  \
            form = CODE_FLOAT;                                                                     \
        }                                                                                          \
        switch (form) {                                                                            \
        case CODE_NUMBER: function(CODE_NUMBER, side, segment, &rows, memory, __VA_ARGS__); break; \
        case CODE_WIDE: function(CODE_WIDE, side, segment, &rows, memory, __VA_ARGS__); break;     \
        case CODE_BYTE: function(CODE_BYTE, side, segment, &rows, memory, __VA_ARGS__); break;     \
        case CODE_LEVEL8: function(CODE_LEVEL8, side, segment, &rows, memory, __VA_ARGS__); break; \
        case CODE_LEVEL16: function(CODE_LEVEL16, side, segment, &rows, memory, __VA_ARGS__);      \
            break;                                                                                 \
        case CODE_FLOAT: function(CODE_FLOAT, side, segment, &rows, memory, __VA_ARGS__); break;   \
        }                                                                                          \
    } while (0)

/* --- keys ------------------------------------------------------------------------------------- */

/* Adds a segment's part to the scores of queries first..first + count - 1. */
INLINE void score_some(uint32_t count, uint32_t first, enum code_form form,
                       const struct kv_side *side, const struct kv_segment *segment,
                       const struct code_rows *rows, const uint8_t *side_memory,
                       const struct attention_packed_queries *q, float *scores)
{
    const struct unpacker unpacker = unpacker_of(side, segment);
    const float *queries = q->queries + (size_t)first * side->head_dim + segment->first;
    float dots[SIMD_QUERIES][BLOCK * LANES];
    for (uint32_t slot = 0; slot < BLOCK; slot++) {
        const uint8_t *codes = rows->codes + slot * rows->row_bytes;
        simd_floats sums[SIMD_QUERIES];
        UNROLL for (uint32_t m = 0; m < count; m++) sums[m] = simd_zero();
        for (uint32_t d = 0; d < segment->count; d += LANES, codes += rows->chunk_bytes) {
            simd_floats key = unpack(form, &unpacker, codes);
            UNROLL for (uint32_t m = 0; m < count; m++) sums[m] =
                simd_fma(simd_load(queries + (size_t)m * side->head_dim + d), key, sums[m]);
        }
        UNROLL for (uint32_t m = 0; m < count; m++) simd_store(dots[m] + slot * LANES, sums[m]);
    }
    for (uint32_t half = 0; half < 2; half++) {
        simd_floats scale = load_halves(side_memory, side->scale_offset, segment->scale, half);
        for (uint32_t m = 0; m < count; m++) {
            float *at = scores + (size_t)(first + m) * ATTENTION_TILE + half * LANES;
            simd_floats dot = simd_sum_lanes_of_eight(dots[m] + half * LANES * LANES);
            simd_floats sum = simd_fma(dot, scale, simd_load(at));
            if (side->biased)
                sum = simd_fma_one(
                    &q->group_sums[first + m][segment->scale],
                    load_halves(side_memory, side->bias_offset, segment->scale, half), sum);
            simd_store(at, sum);
        }
    }
}

INLINE void score_segment(enum code_form form, const struct kv_side *side,
                          const struct kv_segment *segment, const struct code_rows *rows,
                          const uint8_t *memory, const struct attention_packed_queries *q,
                          float *scores)
{
    ATTENTION_FOR_QUERIES(score_some, q->count, form, side, segment, rows, memory, q, scores);
}

void attention_packed_scores(const struct kv_side *keys, const uint8_t *side_memory,
                             const struct attention_packed_queries *queries, float *scores)
{
    for (uint32_t m = 0; m < queries->count; m++)
        memset(scores + (size_t)m * ATTENTION_TILE, 0, BLOCK * sizeof *scores);
    for (uint32_t i = 0; i < keys->segment_count; i++)
        FOR_SEGMENT(score_segment, keys, &keys->segments[i], side_memory, queries->count, queries,
                    scores);
}

/* --- values ----------------------------------------------------------------------------------- */

/* A segment's weights: those of the slots times its scales, and what its biases add. */
struct scaled_weights {
    float slots[SIMD_QUERIES][BLOCK];
    float biases[SIMD_QUERIES];
};

static void scale_weights(uint32_t count, const struct kv_side *side,
                          const struct kv_segment *segment, const uint8_t *side_memory,
                          const float *weights, struct scaled_weights *scaled)
{
    for (uint32_t m = 0; m < count; m++) {
        simd_floats bias = simd_zero();
        for (uint32_t half = 0; half < 2; half++) {
            simd_floats weight = simd_load(weights + (size_t)m * ATTENTION_TILE + half * LANES);
            simd_floats scale = load_halves(side_memory, side->scale_offset, segment->scale, half);
            simd_store(scaled->slots[m] + half * LANES, simd_mul(weight, scale));
            if (side->biased)
                bias = simd_fma(weight,
                                load_halves(side_memory, side->bias_offset, segment->scale, half),
                                bias);
        }
        scaled->biases[m] = simd_sum_lanes(bias);
    }
}

/* `chunks` times eight dimensions from d on, whose codes of slot 0 are at `codes`. */
INLINE void add_chunks(uint32_t chunks, uint32_t count, enum code_form form,
                       const struct unpacker *unpacker, const struct code_rows *rows,
                       const uint8_t *codes, const struct scaled_weights *scaled, uint32_t d,
                       float *const *outs)
{
    simd_floats sums[SIMD_QUERIES][2];
    UNROLL for (uint32_t m = 0; m < count; m++) UNROLL for (uint32_t c = 0; c < chunks; c++)
        sums[m][c] = simd_add(simd_load(outs[m] + d + c * LANES), simd_all(scaled->biases[m]));
    for (uint32_t slot = 0; slot < BLOCK; slot++, codes += rows->row_bytes) {
        simd_floats value[2];
        UNROLL for (uint32_t c = 0; c < chunks; c++) value[c] =
            unpack(form, unpacker, codes + c * rows->chunk_bytes);
        UNROLL for (uint32_t m = 0; m < count; m++)
        {
            const float *weight = scaled->slots[m] + slot;
            UNROLL for (uint32_t c = 0; c < chunks; c++) sums[m][c] =
                simd_fma_one(weight, value[c], sums[m][c]);
        }
    }
    UNROLL for (uint32_t m = 0; m < count; m++) UNROLL for (uint32_t c = 0; c < chunks; c++)
        simd_store(outs[m] + d + c * LANES, sums[m][c]);
}

/* Adds a segment's part to the sums of queries first..first + count - 1. */
INLINE void add_some(uint32_t count, uint32_t first, enum code_form form,
                     const struct kv_side *side, const struct kv_segment *segment,
                     const struct code_rows *rows, const uint8_t *side_memory, const float *weights,
                     float *const *outs)
{
    const struct unpacker unpacker = unpacker_of(side, segment);
    const uint8_t *codes = rows->codes;
    const uint32_t end = segment->first + segment->count;
    struct scaled_weights scaled;
    scale_weights(count, side, segment, side_memory, weights + (size_t)first * ATTENTION_TILE,
                  &scaled);
    uint32_t d = segment->first;
    for (; d + 2 * LANES <= end; d += 2 * LANES, codes += 2 * rows->chunk_bytes)
        add_chunks(2, count, form, &unpacker, rows, codes, &scaled, d, outs + first);
    if (d < end)
        add_chunks(1, count, form, &unpacker, rows, codes, &scaled, d, outs + first);
}

INLINE void add_segment(enum code_form form, const struct kv_side *side,
                        const struct kv_segment *segment, const struct code_rows *rows,
                        const uint8_t *memory, const float *weights, uint32_t count,
                        float *const *outs)
{
    ATTENTION_FOR_QUERIES(add_some, count, form, side, segment, rows, memory, weights, outs);
}

void attention_packed_values(const struct kv_side *values, const uint8_t *side_memory,
                             const float *weights, uint32_t count, float *const *outs)
{
    for (uint32_t i = 0; i < values->segment_count; i++)
        FOR_SEGMENT(add_segment, values, &values->segments[i], side_memory, count, weights, count,
                    outs);
}
