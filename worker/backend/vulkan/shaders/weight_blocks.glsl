/*
 * Unpacks weights in the layout of vulkan_weight_format.h.
 *
 * Before including, the includer names the specialization constant of the kind:
 *     #define WEIGHT_KIND_CONSTANT 1
 * Code for other kinds is removed when the pipeline is made.
 *
 * A quantized weight is scale * code + offset, where codes of kinds with a table are its numbers; a block is 32 columns of one row. Loading is separate
 * from unpacking, so that a kernel can have several loads in flight before it needs the first.
 *
 *     WeightBlock w = weight_load(matrix, row * (columns / 32) + b);
 *     uint codes = weight_codes(w, j);         columns 4j..4j+3 as four signed bytes, j < 8
 *     vec2 terms = weight_terms(w, j / 4);     {scale, offset} of columns 16i..16i+15, i < 2
 *     f16vec4 v = weight_halves(w, j);         the weights of columns 4j..4j+3
 *     weight_pairs(w, j)                       the same in the order 0 2 1 3, in fewer instructions
 *     weight_values(w, j)                      the same in f32
 *
 * A float row is read in units of WEIGHT_FLOATS columns, weight_float_stride(columns) of them a row,
 * padded with zeros: sixteen bytes, of F8 types eight and their scale, of those with nibbles four and their scale.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

#include "proto/ggml_type_list.h"

layout(constant_id = WEIGHT_KIND_CONSTANT) const uint WEIGHT_KIND = 0;

/* WEIGHT_Q4_0 and so on. */
#define QUANT_KIND(kind, name, number, columns, bytes, bits, span, minimum, center, offset, table) const uint WEIGHT_##name = kind;
#define FLOAT_KIND(kind, name, number, bits, scaled, table) const uint WEIGHT_##name = kind;
GGML_QUANT_LIST(QUANT_KIND)
GGML_FLOAT_LIST(FLOAT_KIND)

/* Columns of a block. */
const uint WEIGHT_BLOCK = 32;

#define TABLE_OF(kind, name, number, columns, bytes, bits, span, minimum, center, offset, table) WEIGHT_KIND == kind ? table :

/* A column of the table at the specialized kind; the last number is for float kinds, which do not use it. */
#define BITS_OF(kind, name, number, columns, bytes, bits, span, minimum, center, offset, table) WEIGHT_KIND == kind ? bits :
#define SPAN_OF(kind, name, number, columns, bytes, bits, span, minimum, center, offset, table) WEIGHT_KIND == kind ? span :
#define MINIMUM_OF(kind, name, number, columns, bytes, bits, span, minimum, center, offset, table) WEIGHT_KIND == kind ? minimum :
#define SPAN_BLOCKS_OF(kind, name, number, columns, bytes, bits, span, minimum, center, offset, table) WEIGHT_KIND == kind ? (span + 31) / 32 :
#define SCALED_OF(kind, name, number, bits, scaled, table) WEIGHT_KIND == kind ? scaled :
#define FLOATS_OF(kind, name, number, bits, scaled, table) WEIGHT_KIND == kind ? table :
#define CENTER_OF(kind, name, number, columns, bytes, bits, span, minimum, center, offset, table) WEIGHT_KIND == kind ? center :
#define SCALES_OF(kind, name, number, columns, bytes, bits, span, minimum, center, offset, table) WEIGHT_KIND == kind ? GGML_SCALES(table, span) :
#define BYTES_OF(kind, name, number, columns, bytes, bits, span, minimum, center, offset, table) WEIGHT_KIND == kind ? (GGML_BYTE_SCALES(columns, table) ? 1 : 0) :

const bool WEIGHT_QUANTIZED = WEIGHT_KIND < WEIGHT_F32;
const uint WEIGHT_BITS = GGML_QUANT_LIST(BITS_OF) 4;
const uint WEIGHT_CODE_BITS = GGML_LOW_BITS(WEIGHT_BITS);
const uint WEIGHT_HIGH_BITS = WEIGHT_BITS - WEIGHT_CODE_BITS;
/* Spans (scales) of a block: 1 or 2. */
const uint WEIGHT_SPANS = (GGML_QUANT_LIST(SPAN_OF) 32) == 16 ? 2 : 1;
const bool WEIGHT_MINIMUM = (GGML_QUANT_LIST(MINIMUM_OF) 0) == 1;
/* weight = scale * (code - zero), where others have a minimum. */
const bool WEIGHT_ZERO = (GGML_QUANT_LIST(MINIMUM_OF) 0) == 2;
/* Blocks that share their scales. */
const uint WEIGHT_SPAN_BLOCKS = GGML_QUANT_LIST(SPAN_BLOCKS_OF) 1;
/* Kinds whose codes stand for the numbers of a table. */
const uint WEIGHT_TABLE = GGML_QUANT_LIST(TABLE_OF) 0;
/* weight_codes() gives signed bytes. */
const bool WEIGHT_SIGNED = WEIGHT_CODE_BITS == 8 || WEIGHT_TABLE != 0;
/* weight = scale * (code - center) for kinds without a minimum. */
const uint WEIGHT_CENTER = GGML_QUANT_LIST(CENTER_OF) 0;
/* GGML_SCALES_… of ggml_type_list.h, and whether the f16 scale of 256 columns and the bytes below it are apart. */
const uint WEIGHT_SCALES = GGML_QUANT_LIST(SCALES_OF) 0;
const bool WEIGHT_BYTE_SCALES = (GGML_QUANT_LIST(BYTES_OF) 0) == 1;
const bool WEIGHT_FACTOR = WEIGHT_SCALES == GGML_SCALES_E4M3;

/* Device addresses of a matrix's arrays; 0 where the kind has no such array. With WEIGHT_FACTOR the low four bits of
 * `high` are the logarithm of the blocks that share a factor. */
struct WeightMatrix {
    uint64_t codes;
    uint64_t high;
    uint64_t scales;
};

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Weight16Bytes
{
    uvec4 at[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Weight8Bytes
{
    uvec2 at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Weight4Bytes
{
    uint at[];
};
layout(buffer_reference, std430, buffer_reference_align = 2) readonly buffer Weight2Bytes
{
    float16_t at[];
};

struct WeightBlock {
    uvec4 low;      /* 2-bit codes: x and y; 8-bit: the first half */
    uvec4 low_tail; /* 8-bit codes: the second half */
    uvec2 high;
    f16vec4 scales; /* {scale, minimum or zero} of the first and of the second span; WEIGHT_BYTE_SCALES: {scale, byte} */
    float factor;   /* WEIGHT_FACTOR: of both scales */
};

/* Byte `i` of an array of them. */
uint weight_byte(uint64_t array, uint i)
{
    return Weight4Bytes(array).at[i / 4] >> 8 * (i & 3) & 0xFFu;
}

/* Two E4M3 bytes, in the low half of each 16-bit word, as halves. With a bias of 8 more, exponents are those of
 * a half: 2^(e - 7) * (1 + m / 8). Where e is 0, twice that less 2^-6 is the number, m * 2^-9. So no step
 * has a subnormal half, which a device may flush to zero. */
f16vec2 weight_f8_halves(uint bytes)
{
    f16vec2 sizes = unpackFloat2x16((bytes & 0x007F007Fu) + 0x00400040u << 7);
    sizes += min(sizes - 0.015625hf, f16vec2(0.0hf));
    return unpackFloat2x16(packFloat2x16(sizes) | (bytes & 0x00800080u) << 8);
}

f16vec4 weight_load_scales(WeightMatrix matrix, uint block)
{
    if (WEIGHT_BYTE_SCALES) {
        float16_t scale = Weight2Bytes(matrix.scales).at[block / 8];
        if (WEIGHT_SPANS == 1)
            return f16vec2(scale, float16_t(int(weight_byte(matrix.high, block) << 24) >> 24)).xyxy;
        int both = int(Weight4Bytes(matrix.high).at[block / 2] << 16 * (1 - (block & 1)));
        return f16vec4(scale, float16_t(both << 8 >> 24), scale, float16_t(both >> 24));
    }
    if (WEIGHT_SCALES == GGML_SCALES_E8M0) {
        uint byte = weight_byte(matrix.scales, block);
        return f16vec2(unpackFloat2x16(GGML_E8M0_HALF(byte)).x, 0.0hf).xyxy;
    }
    if (WEIGHT_SCALES == GGML_SCALES_E4M3) {
        uint both = Weight4Bytes(matrix.scales).at[block / 2] >> 16 * (block & 1);
        f16vec2 halves = weight_f8_halves(both & 0xFFu | (both & 0xFF00u) << 8);
        return f16vec4(halves.x, 0.0hf, halves.y, 0.0hf);
    }
    if (WEIGHT_SPANS == 2 && WEIGHT_MINIMUM) {
        uvec2 words = Weight8Bytes(matrix.scales).at[block];
        return f16vec4(unpackFloat2x16(words.x), unpackFloat2x16(words.y));
    }
    if (WEIGHT_SPANS == 2) {
        f16vec2 both = unpackFloat2x16(Weight4Bytes(matrix.scales).at[block]);
        return f16vec4(both.x, 0.0hf, both.y, 0.0hf);
    }
    if (WEIGHT_MINIMUM || WEIGHT_ZERO)
        return unpackFloat2x16(Weight4Bytes(matrix.scales).at[block / WEIGHT_SPAN_BLOCKS]).xyxy;
    float16_t scale = Weight2Bytes(matrix.scales).at[block / WEIGHT_SPAN_BLOCKS];
    return f16vec4(scale, 0.0hf, scale, 0.0hf);
}

float weight_load_factor(WeightMatrix matrix, uint block)
{
    if (!WEIGHT_FACTOR)
        return 1.0;
    uint shift = uint(matrix.high) & 15;
    return uintBitsToFloat(Weight4Bytes(matrix.high - shift).at[block >> shift]);
}

/* `block` = row * (columns / 32) + number of the block in its row. */
WeightBlock weight_load(WeightMatrix matrix, uint block)
{
    WeightBlock w;
    w.low = uvec4(0);
    w.low_tail = uvec4(0);
    w.high = uvec2(0);
    if (WEIGHT_CODE_BITS == 8) {
        w.low = Weight16Bytes(matrix.codes).at[2 * block];
        w.low_tail = Weight16Bytes(matrix.codes).at[2 * block + 1];
    } else if (WEIGHT_CODE_BITS == 2) {
        w.low.xy = Weight8Bytes(matrix.codes).at[block];
    } else {
        w.low = Weight16Bytes(matrix.codes).at[block];
    }
    if (WEIGHT_HIGH_BITS == 2)
        w.high = Weight8Bytes(matrix.high).at[block];
    else if (WEIGHT_HIGH_BITS == 1)
        w.high.x = Weight4Bytes(matrix.high).at[block];
    w.scales = weight_load_scales(matrix, block);
    w.factor = weight_load_factor(matrix, block);
    return w;
}

const int IQ4_NUMBERS[16] = int[](GGML_IQ4_NUMBERS);
const int E2M1_NUMBERS[16] = int[](GGML_E2M1_NUMBERS);
const int IQ1_NUMBERS[16] = int[](GGML_IQ1_NUMBERS);
const int IQ2_NUMBERS[16] = int[](GGML_IQ2_NUMBERS);
const int IQ3_XXS_NUMBERS[16] = int[](GGML_IQ3_XXS_NUMBERS);
const int IQ3_S_NUMBERS[16] = int[](GGML_IQ3_S_NUMBERS);

/* `i` is a constant. */
int table_number(const uint i)
{
    return WEIGHT_TABLE == GGML_TABLE_IQ4     ? IQ4_NUMBERS[i]
         : WEIGHT_TABLE == GGML_TABLE_E2M1    ? E2M1_NUMBERS[i]
         : WEIGHT_TABLE == GGML_TABLE_IQ1     ? IQ1_NUMBERS[i]
         : WEIGHT_TABLE == GGML_TABLE_IQ2     ? IQ2_NUMBERS[i]
         : WEIGHT_TABLE == GGML_TABLE_IQ3_XXS ? IQ3_XXS_NUMBERS[i]
                                              : IQ3_S_NUMBERS[i];
}

/* Four numbers of the kind's table, from number 4 * i on, as bytes. */
uint table_word(uint i)
{
    uint word = 0;
    [[unroll]] for (uint e = 0; e < 4; e++) {
        word |= (uint(table_number(4 * i + e)) & 0xFFu) << 8 * e;
    }
    return word;
}

/* Four bytes of 0..15 as the table's numbers. Words of the table are chosen by comparisons, because an array
 * that is indexed by a variable lies in memory. */
uint table_numbers(uint codes)
{
    uint numbers = 0;
    [[unroll]] for (uint e = 0; e < 4; e++) {
        uint code = codes >> 8 * e & 15;
        uint low = (code & 4) == 0 ? table_word(0) : table_word(1);
        uint high = (code & 4) == 0 ? table_word(2) : table_word(3);
        uint word = (code & 8) == 0 ? low : high;
        numbers |= (word >> 8 * (code & 3) & 0xFFu) << 8 * e;
    }
    return numbers;
}

/* Columns 4 * j .. 4 * j + 3 as four bytes, before any center is subtracted: 0..63, or signed.
 * `j` < 8, a constant once loops are unrolled. */
uint weight_codes(WeightBlock w, uint j)
{
    if (WEIGHT_CODE_BITS == 8)
        return j < 4 ? w.low[j & 3] : w.low_tail[j & 3];
    uint codes;
    if (WEIGHT_CODE_BITS == 2)
        codes = w.low[j >> 2] >> 2 * (j & 3) & 0x03030303u;
    else
        codes = w.low[j & 3] >> 4 * (j >> 2) & 0x0F0F0F0Fu;
    if (WEIGHT_HIGH_BITS == 2)
        codes |= (w.high[j >> 2] >> 2 * (j & 3) & 0x03030303u) << WEIGHT_CODE_BITS;
    else if (WEIGHT_HIGH_BITS == 1)
        codes |= (w.high.x >> j & 0x01010101u) << WEIGHT_CODE_BITS;
    if (WEIGHT_TABLE != 0)
        codes = table_numbers(codes);
    return codes;
}

/* {scale, offset}: weight = scale * code + offset for columns 16 * i .. 16 * i + 15 of the block. */
vec2 weight_terms(WeightBlock w, uint i)
{
    vec2 terms = i == 0 ? vec2(w.scales.xy) : vec2(w.scales.zw);
    if (WEIGHT_BYTE_SCALES)
        terms.x *= terms.y;
    if (WEIGHT_FACTOR)
        terms.x *= w.factor;
    if (WEIGHT_ZERO)
        return vec2(terms.x, -terms.x * terms.y);
    return WEIGHT_MINIMUM ? terms : vec2(terms.x, -float(WEIGHT_CENTER) * terms.x);
}

/* Codes less the center, or a table's numbers, times {scale, minimum or zero} of their span. Products with E4M3 scales are
 * exact halves. */
f16vec4 weight_scaled(f16vec4 codes, f16vec2 terms, float factor)
{
    if (WEIGHT_MINIMUM)
        return codes * terms.x + terms.y;
    if (WEIGHT_ZERO)
        return (codes - terms.y) * terms.x;
    if (WEIGHT_BYTE_SCALES)
        return codes * (terms.x * terms.y);
    if (WEIGHT_FACTOR)
        return f16vec4(vec4(codes * terms.x) * factor);
    return codes * terms.x;
}

/* Four bytes of weight_codes(), minus the center, exactly: 0x6400 | b is the half 1024 + b. */
f16vec4 weight_codes_to_halves(uint codes)
{
    uint biased = WEIGHT_SIGNED ? codes ^ 0x80808080u : codes;
    float16_t bias = float16_t(1024 + (WEIGHT_SIGNED ? 128 : WEIGHT_CENTER));
    f16vec2 even = unpackFloat2x16(biased & 0x00FF00FFu | 0x64006400u) - bias;
    f16vec2 odd = unpackFloat2x16(biased >> 8 & 0x00FF00FFu | 0x64006400u) - bias;
    return f16vec4(even.x, odd.x, even.y, odd.y);
}

/* The weights of columns 4 * j .. 4 * j + 3, rounded to f16. */
f16vec4 weight_halves(WeightBlock w, uint j)
{
    f16vec2 terms = j < 4 ? w.scales.xy : w.scales.zw;
    return weight_scaled(weight_codes_to_halves(weight_codes(w, j)), terms, w.factor);
}

/* The same as weight_halves() in the order 0 2 1 3, in which one instruction converts two
 * columns of a word. High nibbles are not shifted down, so they count sixteenfold until they are
 * scaled. */
f16vec4 weight_pairs(WeightBlock w, uint j)
{
    f16vec2 terms = j < 4 ? w.scales.xy : w.scales.zw;
    f16vec4 codes;
    const bool plain_nibbles = WEIGHT_CODE_BITS == 4 && WEIGHT_HIGH_BITS == 0 && WEIGHT_TABLE == 0;
    if (plain_nibbles && j >= 4) {
        uint word = w.low[j & 3];
        float16_t bias = float16_t(1024 + 16 * WEIGHT_CENTER);
        codes = f16vec4(unpackFloat2x16(word & 0x00F000F0u | 0x64006400u),
                        unpackFloat2x16(word >> 8 & 0x00F000F0u | 0x64006400u)) - bias;
        terms.x *= 0.0625hf;
        terms.y *= WEIGHT_ZERO ? 16.0hf : 1.0hf;
    } else {
        /* One mask for a word's low nibbles, so that the shift is shared with the high ones. */
        uint word = plain_nibbles ? w.low[j & 3] : weight_codes(w, j);
        uint mask = plain_nibbles ? 0x000F000Fu : 0x00FF00FFu;
        word = WEIGHT_SIGNED ? word ^ 0x80808080u : word;
        float16_t bias = float16_t(1024 + (WEIGHT_SIGNED ? 128 : WEIGHT_CENTER));
        codes = f16vec4(unpackFloat2x16(word & mask | 0x64006400u),
                        unpackFloat2x16(word >> 8 & mask | 0x64006400u)) - bias;
    }
    return weight_scaled(codes, terms, w.factor);
}

/* The same in f32, rounded only in the product and the sum. */
vec4 weight_values(WeightBlock w, uint j)
{
    vec2 terms = weight_terms(w, j / 4);
    vec4 codes = vec4(weight_codes_to_halves(weight_codes(w, j)));
    return WEIGHT_MINIMUM || WEIGHT_ZERO ? codes * terms.x + terms.y : codes * terms.x;
}

/* --- float kinds --- */

/* Columns per f32 scale; 0: no scales. */
const uint WEIGHT_SCALED = GGML_FLOAT_LIST(SCALED_OF) 0;
/* Of kinds whose nibbles stand for the numbers of a table: GGML_FLOATS_…. */
const uint WEIGHT_FLOAT_TABLE = GGML_FLOAT_LIST(FLOATS_OF) 0;
/* Columns of a unit. */
const uint WEIGHT_FLOATS = WEIGHT_KIND == WEIGHT_F32 ? 4 : 8;

uint weight_float_stride(uint columns)
{
    return (columns + WEIGHT_FLOATS - 1) / WEIGHT_FLOATS;
}

const float NF4_NUMBERS[16] = float[](GGML_NF4_NUMBERS);
const float FP4_NUMBERS[16] = float[](GGML_FP4_NUMBERS);

/* Four numbers of the kind's table, from number 4 * i on; `i` is a constant. */
vec4 float_numbers(const uint i)
{
    if (WEIGHT_FLOAT_TABLE == GGML_FLOATS_NF4)
        return vec4(NF4_NUMBERS[4 * i], NF4_NUMBERS[4 * i + 1], NF4_NUMBERS[4 * i + 2], NF4_NUMBERS[4 * i + 3]);
    return vec4(FP4_NUMBERS[4 * i], FP4_NUMBERS[4 * i + 1], FP4_NUMBERS[4 * i + 2], FP4_NUMBERS[4 * i + 3]);
}

/* The number of a nibble, chosen by comparisons, as in table_numbers(). */
float float_number(uint code)
{
    vec4 low = (code & 4) == 0 ? float_numbers(0) : float_numbers(1);
    vec4 high = (code & 4) == 0 ? float_numbers(2) : float_numbers(3);
    vec4 four = (code & 8) == 0 ? low : high;
    vec2 two = (code & 2) == 0 ? four.xy : four.zw;
    return (code & 1) == 0 ? two.x : two.y;
}

/* A unit of a float row, at row * weight_float_stride(columns) + i. Types with scales: bytes in xy, the scale in z. */
uvec4 weight_load_floats(WeightMatrix matrix, uint index)
{
    if (WEIGHT_FLOAT_TABLE != 0)
        return uvec4(Weight4Bytes(matrix.codes).at[index], 0, Weight4Bytes(matrix.scales).at[index / max(WEIGHT_SCALED / 8, 1u)], 0);
    if (WEIGHT_SCALED > 0)
        return uvec4(Weight8Bytes(matrix.codes).at[index],
                     Weight4Bytes(matrix.scales).at[index / max(WEIGHT_SCALED / 8, 1u)], 0);
    return Weight16Bytes(matrix.codes).at[index];
}

/* Values 4 * i .. 4 * i + 3 of a loaded unit; i < WEIGHT_FLOATS / 4. */
vec4 weight_floats(uvec4 bytes, uint i)
{
    if (WEIGHT_FLOAT_TABLE != 0) {
        uint codes = bytes.x >> 16 * i;
        return vec4(float_number(codes), float_number(codes >> 4), float_number(codes >> 8), float_number(codes >> 12)) *
               uintBitsToFloat(bytes.z);
    }
    if (WEIGHT_SCALED > 0) {
        uint word = i == 0 ? bytes.x : bytes.y;
        vec2 even = vec2(weight_f8_halves(word)), odd = vec2(weight_f8_halves(word >> 8));
        return vec4(even.x, odd.x, even.y, odd.y) * uintBitsToFloat(bytes.z);
    }
    if (WEIGHT_KIND == WEIGHT_F32)
        return uintBitsToFloat(bytes);
    uvec2 pair = i == 0 ? bytes.xy : bytes.zw;
    if (WEIGHT_KIND == WEIGHT_F16)
        return vec4(unpackHalf2x16(pair.x), unpackHalf2x16(pair.y));
    return uintBitsToFloat(
        uvec4(pair.x << 16, pair.x & 0xFFFF0000u, pair.y << 16, pair.y & 0xFFFF0000u));
}
