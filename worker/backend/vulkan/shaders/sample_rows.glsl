/*
 * Shared by the sampler's kernels: the host's record of each row (vulkan_sampler.c), the order of
 * logits, and their weights exp((logit - largest) / temperature) as numbers that can be summed in
 * any order.
 *
 * Order. key() maps a logit's bits to an integer that grows with it: NaN counts as -infinity,
 * +infinity as the largest finite number, and both zeros are equal. A code has the complement of the
 * key in its upper bits and the token's id in its lower bits, so ascending codes are descending logits,
 * and equal logits in order of id. No decision depends on a comparison of floats.
 *
 * Weights have the same bits as the CPU sampler's (worker/sample/logit_walk.c): the same polynomial,
 * step by step. They are summed as integers, in units of 2^-43 (worker/sample/fixed_weight.h): a
 * million tokens of weight 1 fit 63 bits, and the sum does not depend on the order. f32 are added in the
 * same order as in the CPU's sampler. So the tokens are the same.
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_control_flow_attributes : require
#include "step.glsl"

/* Tokens are dealt to invocations of sample_scan in blocks of BLOCK: invocation t of a chunk of
 * CHUNK tokens has 4 t .. 4 t + 3 and those at multiples of 4 * SCANNERS after them. */
const uint BLOCK = 32;
layout(constant_id = 1) const uint SCANNERS = 128; /* invocations of sample_scan */
const uint CHUNK = SCANNERS * BLOCK;

/* enum vulkan_sampler_flag */
const uint ROW_LOGPROB = 1; /* its token's probability is wanted */
const uint ROW_PENALTIES = 2;
const uint ROW_HISTORY = 4; /* counts come from the tokens kept on the device, else from a list */
const uint ROW_MASS = 8;    /* the draw needs the sum of all weights */
const uint ROW_FILTERS = 16; /* typical_p or top_n_sigma: sample_filter draws, not sample_draw */
const uint ROW_EXPLAIN = 32; /* sample_explain tells the probability, and the best tokens */

/* Byte map: struct vulkan_sampler_record, vulkan_sampler.c. */
struct SampleRecord {
    uint flags;
    uint position; /* of the token being drawn */
    uint forced;   /* forced token; NO_TOKEN: none */
    uint top_k;    /* 0 = off */
    float temperature;
    float top_p;
    float min_p;
    float repetition;
    float presence;
    float frequency;
    uint seed_low;
    uint seed_high;
    uint bias_first; /* entries {token, bias} */
    uint bias_count;
    uint count_first; /* entries {token, count} */
    uint count_count;
    uint repetition_from; /* positions from here on count for the penalty */
    uint presence_from;
    uint frequency_from;
    uint raw_at; /* copy that is made of the logits before they change; NO_TOKEN: none */
    float inverse_temperature;
    float typical_p;   /* 1 = off */
    float top_n_sigma; /* 0 = off */
    uint top_logprobs; /* ROW_EXPLAIN: how many tokens */
    uint mask_first;   /* entries from here on hold a bit for each token: may be drawn; NO_TOKEN: all may */
    uint unused;
};

/* Results of sample_scan for a chunk: 32 bytes. */
struct SamplePart {
    uint best_key;
    uint best_token;
    uint lowest_key; /* of its blocks' keys that are above -infinity's; all ones: none is */
    uint unused;
    uint64_t mass;         /* sum of exp((logit - chunk's largest) / temperature) */
    uint64_t natural_mass; /* the same at temperature 1, for logprobs */
};

/* Results of sample_spread for a chunk: 32 bytes. Its logits above -infinity, as distances from its
 * largest one: their number, a center near their mean, sums of the differences from it and of their
 * squares; and the sum of weights times -log weight, relative to the chunk's largest. */
struct SampleSpread {
    float count;
    float center;
    float sum;
    float squares;
    uint64_t entropy;
    uint64_t unused;
};

/* Result for the host: struct vulkan_sampler_result. */
struct SampleResult {
    uint token;
    float distance; /* its logit minus the largest */
    uint64_t natural_mass;
    /* ROW_EXPLAIN, all of the row as it was */
    float largest;
    float logit; /* the token's */
    uint best_count;
    uint rank;    /* tokens whose logit is at least the token's */
    uvec2 best[20]; /* token and logit, in descending order */
};

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer SampleRecords
{
    SampleRecord at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer SampleParts
{
    SamplePart at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) buffer SampleSpreads
{
    SampleSpread at[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer SampleEntries
{
    uvec2 at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) buffer SampleResults
{
    SampleResult at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer SampleWords
{
    uint at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) buffer SampleQuads
{
    uvec4 value;
};

layout(push_constant) uniform Push
{
    uint64_t logits;     /* f32 [rows, vocab_tokens] */
    uint64_t records;    /* SampleRecord [rows] */
    uint64_t entries;    /* biases, counts and masks of all rows */
    uint64_t parts;      /* SamplePart [rows, chunk_count] */
    uint64_t block_keys; /* u32 [rows, chunk_count * SCANNERS] largest key of each block */
    uint64_t arrivals;   /* u32 [rows], 0 between steps */
    uint64_t drawn;      /* u32 [rows] for the next step */
    uint64_t results;    /* SampleResult [rows] for the host */
    uint64_t rows;       /* step data */
    uint64_t sequences;
    uint64_t tables;
    uint64_t logit_rows;
    uint64_t history; /* u32 [blocks of group 0, KV_BLOCK_TOKENS] */
    uint64_t copies;  /* rows before they change, and what was seen of them: copy_of() */
    uint vocab_tokens;
    uint chunk_count;
    uint64_t spreads; /* SampleSpread [rows, chunk_count] */
} push;

uint64_t parts_of(uint row)
{
    return push.parts + uint64_t(row * push.chunk_count) * 32;
}

uint64_t spreads_of(uint row)
{
    return push.spreads + uint64_t(row * push.chunk_count) * 32;
}

uint64_t logits_of(uint row)
{
    return push.logits + 4 * (uint64_t(row) * push.vocab_tokens);
}

uint64_t keys_of(uint row)
{
    return push.block_keys + uint64_t(row * push.chunk_count) * (4 * SCANNERS);
}

/* A copy: its logits (f32, padded to quads), then its parts and its blocks' keys, as those of rows.
 */
uint64_t copy_of(uint at)
{
    uint quads = (push.vocab_tokens + 3) / 4;
    return push.copies +
           uint64_t(at) * (16 * quads + push.chunk_count * (32 + 4 * SCANNERS));
}

uint64_t copy_parts(uint at)
{
    return copy_of(at) + 16 * ((push.vocab_tokens + 3) / 4);
}

uint64_t copy_keys(uint at)
{
    return copy_parts(at) + 32 * push.chunk_count;
}

/* --- order --- */

const uint MINUS_INFINITY = 0xFF800000u, PLUS_INFINITY = 0x7F800000u, LARGEST_FINITE = 0x7F7FFFFFu;
const uint LOWEST_KEY = 0x007FFFFFu; /* of -infinity */
const uint HIGHEST_KEY = 0xFF7FFFFFu; /* of the largest finite number */
const uint NO_TOKEN = 0xFFFFFFFFu;

/* A logit's bits with NaN, +infinity and -0 replaced. */
uint clean(uint bits)
{
    uint magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > PLUS_INFINITY)
        return MINUS_INFINITY;
    if (bits == PLUS_INFINITY)
        return LARGEST_FINITE;
    return magnitude == 0 ? 0 : bits;
}

uint key(uint clean_bits)
{
    return clean_bits ^ (uint(int(clean_bits) >> 31) | 0x80000000u);
}

float logit_of(uint key)
{
    return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key);
}

uint64_t code(uint key, uint token)
{
    return uint64_t(~key) << 32 | token;
}

/* --- tokens of a block --- */

uint block_token(uint block, uint quad)
{
    return block / SCANNERS * CHUNK + (quad * SCANNERS + block % SCANNERS) * 4;
}

/* The bits of four neighbouring logits of a row; those past the vocabulary are -infinity. */
uvec4 load_raw_quad(uint64_t logits, uint token)
{
    uvec4 bits = uvec4(MINUS_INFINITY);
    uint64_t at = logits + 4 * token;
    if (push.vocab_tokens % 4 == 0) {
        if (token < push.vocab_tokens)
            bits = SampleQuads(at).value;
    } else {
        for (uint i = 0; i < 4; i++)
            if (token + i < push.vocab_tokens)
                bits[i] = SampleWords(at).at[i];
    }
    return bits;
}

uvec4 clean_quad(uvec4 bits)
{
    return uvec4(clean(bits.x), clean(bits.y), clean(bits.z), clean(bits.w));
}

/* --- weights --- */

/* exp(x) for x <= 0; 0 below -87 and for NaN. */
float exp_negative(float x)
{
    const float magic = 12582912.0; /* 1.5 * 2^23: adding it rounds to an integer */
    precise float shifted = x * uintBitsToFloat(0x3FB8AA3Bu) + magic;
    precise float n = shifted - magic;
    precise float r = x - n * uintBitsToFloat(0x3F317200u);
    r = r - n * uintBitsToFloat(0x35BFBE8Eu);
    precise float p = r * uintBitsToFloat(0x3AB60B61u) + uintBitsToFloat(0x3C088889u);
    p = p * r + uintBitsToFloat(0x3D2AAAABu);
    p = p * r + uintBitsToFloat(0x3E2AAAABu);
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    precise float value = p * uintBitsToFloat((floatBitsToUint(shifted) << 23) + 0x3F800000u);
    return x >= -87.0 ? value : 0.0;
}

/* Exponent of a clean logit's weight. A product, because the rounding of divisions differs by device. */
float log_weight(uint bits, float largest, float inverse_temperature)
{
    precise float distance = uintBitsToFloat(bits) - largest;
    precise float product = distance * inverse_temperature;
    return product;
}

float weight(uint bits, float largest, float inverse_temperature)
{
    float x = log_weight(bits, largest, inverse_temperature);
    return bits == MINUS_INFINITY ? 0.0 : exp_negative(x);
}

/* --- sums: units of 2^-43 --- */

const uint UNIT_BITS = 43;

uint64_t units(float value)
{
    uint bits = floatBitsToUint(value);
    int shift = int(bits >> 23) - 150 + int(UNIT_BITS);
    uint64_t mantissa = uint64_t(bits & 0x007FFFFFu | 0x00800000u);
    if (bits == 0 || shift < -24)
        return 0;
    return shift >= 0 ? mantissa << shift : mantissa >> -shift;
}

/* sum * m / 2^shift, rounded down; m < 2^24, sum <= 2^63, shift >= 23. */
uint64_t scale_down(uint64_t sum, uint m, uint shift, out bool exact)
{
    uint64_t low = (sum & 0xFFFFFFFFul) * m;
    uint64_t scaled = ((sum >> 32) * m << 9) + (low >> 23);
    uint left = shift - 23;
    exact = (low & 0x7FFFFFul) == 0;
    if (left >= 64) {
        exact = exact && scaled == 0;
        return 0;
    }
    exact = exact && (scaled & (1ul << left) - 1ul) == 0;
    return scaled >> left;
}

/* sum * factor for factor in [0, 1]. */
uint64_t scale_by(uint64_t sum, float factor, out bool exact)
{
    uint bits = floatBitsToUint(factor);
    uint exponent = bits >> 23;
    exact = true;
    if (bits == 0)
        return 0;
    if (exponent == 0)
        return scale_down(sum, bits, 149, exact);
    return scale_down(sum, bits & 0x007FFFFFu | 0x00800000u, 150 - exponent, exact);
}

/* The same, rounded up. */
uint64_t scale_up(uint64_t sum, float factor)
{
    bool exact;
    uint64_t scaled = scale_by(sum, factor, exact);
    return exact ? scaled : scaled + 1;
}
