/*
 * A block of 256 columns has one f16 number d, and every value is
 *
 *   d / 2^shift * scale * code      scale: an integer for 16 columns; code: an integer
 *
 * with 8 numbers (IQ1, IQ2) or 4 (IQ3) of codes at once taken from a code book, and signs beside
 * them. IQ1's numbers are -1, 0 and 1, shifted by an eighth: as codes, 8 * number +- 1. A type has six
 * or sixteen different codes, so nibbles of N4_... number them, if d / 2^shift is an f16 number.
 * Products have at most 24 bits, so F32 is exact.
 *
 * Ternary values are d times -1, 0 or 1: T2_128, with the block's d in both of its blocks.
 *
 * Source: the gguf Python package, quants.py (dequantize_blocks of each type).
 */
#include "worker/plan/weight_iquant.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "proto/ggml_half.h"
#include "proto/must.h"
#include "worker/plan/iquant_grids.h"

#define BLOCK      WEIGHT_IQUANT_BLOCK
#define GROUP      16u /* columns of a scale */
#define N4_BYTES   146u
#define T2_COLUMNS 128u
#define T2_BYTES   34u
#define F32_BYTES  (4u * BLOCK)

struct iquant_block {
    float d;
    uint32_t shift;
    int8_t scales[BLOCK / GROUP];
    int8_t codes[BLOCK];
};

static const int8_t iq1_numbers[] = {-8, 0, 8};
static const int8_t iq2_numbers[] = {8, 25, 43};
static const int8_t iq3_xxs_halves[] = {2, 6, 10, 14, 18, 22, 26, 31}; /* half of the numbers */
static const int8_t iq3_s_numbers[] = {1, 3, 5, 7, 9, 11, 13, 15};

static uint16_t load_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t load_u32(const uint8_t *at)
{
    return load_u16(at) | (uint32_t)load_u16(at + 2) << 16;
}

/* Eight signs of which the last is stated by the others: their number is even. */
static uint32_t even_signs(uint32_t seven)
{
    return seven | (uint32_t)__builtin_parity(seven) << 7;
}

/* Writes the eight codes of an entry of IQ2. */
static void put_eight(uint16_t entry, uint32_t signs, int8_t *codes)
{
    for (uint32_t i = 0; i < 8; i++) {
        int8_t number = iq2_numbers[entry >> (2 * i) & 3];
        codes[i] = (int8_t)(signs >> i & 1 ? -number : number);
    }
}

static void put_four(uint16_t entry, const int8_t *numbers, uint32_t signs, int8_t *codes)
{
    for (uint32_t i = 0; i < 4; i++) {
        int8_t number = numbers[entry >> (4 * i) & 15];
        codes[i] = (int8_t)(signs >> i & 1 ? -number : number);
    }
}

static void put_ternary(uint16_t entry, bool down, int8_t *codes)
{
    for (uint32_t i = 0; i < 8; i++)
        codes[i] = (int8_t)(iq1_numbers[entry >> (2 * i) & 3] + (down ? -1 : 1));
}

/* 2s + 1 for the 4-bit s of 16 columns, the low nibble first. */
static void put_nibble_scales(const uint8_t *scales, struct iquant_block *b)
{
    for (uint32_t i = 0; i < BLOCK / GROUP; i++)
        b->scales[i] = (int8_t)(2 * (scales[i / 2] >> (i % 2 * 4) & 15) + 1);
}

static void put_pair(uint32_t group, uint32_t scale, struct iquant_block *b)
{
    b->scales[2 * group] = b->scales[2 * group + 1] = (int8_t)scale;
}

/* --- the types -------------------------------------------------------------------------------- */

static void load_iq1_s(const uint8_t *at, struct iquant_block *b)
{
    b->d = ggml_f16_to_f32(load_u16(at));
    b->shift = 3;
    for (uint32_t g = 0; g < 8; g++) {
        uint16_t high = load_u16(at + 34 + 2 * g);
        put_pair(g, 2u * (high >> 12 & 7) + 1, b);
        for (uint32_t i = 0; i < 4; i++)
            put_ternary(iq1_s_grid[at[2 + 4 * g + i] | (high >> (3 * i) & 7) << 8], high >> 15,
                        b->codes + 32 * g + 8 * i);
    }
}

static float iq1_m_d(const uint8_t *at)
{
    uint32_t half = 0;
    for (uint32_t i = 0; i < 4; i++)
        half |= (uint32_t)(load_u16(at + 48 + 2 * i) >> 12) << (4 * i);
    return ggml_f16_to_f32((uint16_t)half);
}

static void load_iq1_m(const uint8_t *at, struct iquant_block *b)
{
    b->d = iq1_m_d(at);
    b->shift = 3;
    for (uint32_t i = 0; i < BLOCK / GROUP; i++)
        b->scales[i] = (int8_t)(2 * (load_u16(at + 48 + i / 4 * 2) >> (i % 4 * 3) & 7) + 1);
    for (uint32_t i = 0; i < BLOCK / 8; i++) {
        uint32_t high = (uint32_t)at[32 + i / 2] >> (i % 2 * 4) & 15u;
        put_ternary(iq1_s_grid[at[i] | (high & 7) << 8], high >> 3, b->codes + 8 * i);
    }
}

static void load_iq2_xxs(const uint8_t *at, struct iquant_block *b)
{
    b->d = ggml_f16_to_f32(load_u16(at));
    b->shift = 3;
    for (uint32_t g = 0; g < 8; g++) {
        const uint8_t *group = at + 2 + 8 * g;
        uint32_t word = load_u32(group + 4);
        put_pair(g, 2 * (word >> 28) + 1, b);
        for (uint32_t i = 0; i < 4; i++)
            put_eight(iq2_xxs_grid[group[i]], even_signs(word >> (7 * i) & 127),
                      b->codes + 32 * g + 8 * i);
    }
}

static void load_iq2_xs(const uint8_t *at, struct iquant_block *b)
{
    b->d = ggml_f16_to_f32(load_u16(at));
    b->shift = 3;
    put_nibble_scales(at + 66, b);
    for (uint32_t i = 0; i < BLOCK / 8; i++) {
        uint16_t word = load_u16(at + 2 + 2 * i);
        put_eight(iq2_xs_grid[word & 511], even_signs(word >> 9), b->codes + 8 * i);
    }
}

static void load_iq2_s(const uint8_t *at, struct iquant_block *b)
{
    b->d = ggml_f16_to_f32(load_u16(at));
    b->shift = 3;
    put_nibble_scales(at + 74, b);
    for (uint32_t i = 0; i < BLOCK / 8; i++) {
        uint32_t high = (uint32_t)at[66 + i / 4] >> (i % 4 * 2) & 3u;
        put_eight(iq2_s_grid[at[2 + i] | high << 8], at[34 + i], b->codes + 8 * i);
    }
}

static void load_iq3_xxs(const uint8_t *at, struct iquant_block *b)
{
    b->d = ggml_f16_to_f32(load_u16(at));
    b->shift = 1;
    for (uint32_t g = 0; g < 8; g++) {
        uint32_t word = load_u32(at + 66 + 4 * g);
        put_pair(g, 2 * (word >> 28) + 1, b);
        for (uint32_t i = 0; i < 8; i++)
            put_four(iq3_xxs_grid[at[2 + 8 * g + i]], iq3_xxs_halves,
                     even_signs(word >> (i / 2 * 7) & 127) >> (i % 2 * 4),
                     b->codes + 32 * g + 4 * i);
    }
}

static void load_iq3_s(const uint8_t *at, struct iquant_block *b)
{
    b->d = ggml_f16_to_f32(load_u16(at));
    b->shift = 0;
    for (uint32_t g = 0; g < 8; g++)
        put_pair(g, 2u * (at[106 + g / 2] >> (g % 2 * 4) & 15) + 1, b);
    for (uint32_t i = 0; i < BLOCK / 4; i++) {
        uint32_t high = (uint32_t)at[66 + i / 8] >> (i % 8) & 1u;
        put_four(iq3_s_grid[at[2 + i] | high << 8], iq3_s_numbers,
                 (uint32_t)at[74 + i / 2] >> (i % 2 * 4), b->codes + 4 * i);
    }
}

static uint8_t ternary_digit(uint8_t byte, uint32_t digit)
{
    static const uint8_t powers[] = {1, 3, 9, 27, 81};
    return (uint8_t)((uint8_t)(byte * powers[digit]) * 3 >> 8);
}

/* Codes 0 to 2 stand for -1 to 1. */
static void load_tq1_0(const uint8_t *at, struct iquant_block *b)
{
    b->d = ggml_f16_to_f32(load_u16(at + 52));
    for (uint32_t i = 0; i < 160; i++)
        b->codes[i] = (int8_t)(ternary_digit(at[i % 32], i / 32) - 1);
    for (uint32_t i = 0; i < 80; i++)
        b->codes[160 + i] = (int8_t)(ternary_digit(at[32 + i % 16], i / 16) - 1);
    for (uint32_t i = 0; i < 16; i++)
        b->codes[240 + i] = (int8_t)(ternary_digit(at[48 + i % 4], i / 4) - 1);
}

static void load_tq2_0(const uint8_t *at, struct iquant_block *b)
{
    b->d = ggml_f16_to_f32(load_u16(at + 64));
    for (uint32_t i = 0; i < BLOCK; i++)
        b->codes[i] = (int8_t)((at[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3) - 1);
}

/* By layout. */
static const struct {
    void (*load)(const uint8_t *at, struct iquant_block *block);
    enum ggml_type becomes; /* T2_128 holds every scale; of the others see weight_iquant.h */
} types[] = {
    [WEIGHT_IQ1_S] = {load_iq1_s, GGML_N4_IQ1},
    [WEIGHT_IQ1_M] = {load_iq1_m, GGML_N4_IQ1},
    [WEIGHT_IQ2_XXS] = {load_iq2_xxs, GGML_N4_IQ2},
    [WEIGHT_IQ2_XS] = {load_iq2_xs, GGML_N4_IQ2},
    [WEIGHT_IQ2_S] = {load_iq2_s, GGML_N4_IQ2},
    [WEIGHT_IQ3_XXS] = {load_iq3_xxs, GGML_N4_IQ3_XXS},
    [WEIGHT_IQ3_S] = {load_iq3_s, GGML_N4_IQ3_S},
    [WEIGHT_TQ1_0] = {load_tq1_0, GGML_T2_128},
    [WEIGHT_TQ2_0] = {load_tq2_0, GGML_T2_128},
};

static const uint32_t block_bytes[] = {
#define BLOCK_BYTES(name, number, columns, bytes) [WEIGHT_##name] = bytes,
    GGML_CONVERTED_LIST(BLOCK_BYTES)
#undef BLOCK_BYTES
};

/* --- as other types --------------------------------------------------------------------------- */

static void write_f32(const struct iquant_block *b, uint8_t *out)
{
    float d = ldexpf(b->d, -(int)b->shift);
    for (uint32_t c = 0; c < BLOCK; c++) {
        float value = d * (float)b->scales[c / GROUP] * (float)b->codes[c];
        memcpy(out + 4 * c, &value, sizeof value);
    }
}

static void store_half(float value, uint8_t *out)
{
    uint16_t half = ggml_f32_to_f16(value);
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
}

/* By code plus 128: the nibble that numbers it. */
struct nibbles {
    uint8_t of[256];
};

static struct nibbles nibbles_of(enum ggml_type type)
{
    static const struct {
        enum ggml_type type;
        int8_t numbers[16];
    } tables[] = {
        {GGML_N4_IQ1, {GGML_IQ1_NUMBERS}},
        {GGML_N4_IQ2, {GGML_IQ2_NUMBERS}},
        {GGML_N4_IQ3_XXS, {GGML_IQ3_XXS_NUMBERS}},
        {GGML_N4_IQ3_S, {GGML_IQ3_S_NUMBERS}},
    };
    struct nibbles nibbles = {{0}};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (uint8_t i = 0; tables[t].type == type && i < 16; i++)
            nibbles.of[tables[t].numbers[i] + 128] = i;
    return nibbles;
}

/* The block's scale, those of 16 columns, nibbles as in IQ4_XS. */
static void write_n4(const struct iquant_block *b, const struct nibbles *nibbles, uint8_t *out)
{
    store_half(ldexpf(b->d, -(int)b->shift), out);
    memcpy(out + 2, b->scales, sizeof b->scales);
    out += 2 + sizeof b->scales;
    for (uint32_t first = 0; first < BLOCK; first += 32)
        for (uint32_t i = first; i < first + 16; i++)
            *out++ = (uint8_t)(nibbles->of[b->codes[i] + 128] | nibbles->of[b->codes[i + 16] + 128]
                                                                    << 4);
}

static void write_t2(const struct iquant_block *b, uint8_t *out)
{
    for (uint32_t first = 0; first < BLOCK; first += T2_COLUMNS) {
        store_half(b->d, out);
        out += 2;
        for (uint32_t i = first; i < first + T2_COLUMNS; i += 4)
            *out++ = (uint8_t)((b->codes[i] + 1) | (b->codes[i + 1] + 1) << 2 |
                               (b->codes[i + 2] + 1) << 4 | (b->codes[i + 3] + 1) << 6);
    }
}

static bool is_half(float value)
{
    return isnan(value) || ggml_f16_to_f32(ggml_f32_to_f16(value)) == value;
}

static bool scales_are_halves(const struct weight_source *source, uint64_t rows, uint64_t columns)
{
    struct iquant_block block;
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t b = 0; b < columns / BLOCK; b++) {
            types[source->layout].load(
                source->data + row * source->row_bytes + b * block_bytes[source->layout], &block);
            if (!is_half(ldexpf(block.d, -(int)block.shift)))
                return false;
        }
    return true;
}

enum ggml_type weight_iquant_type(const struct weight_source *source, uint64_t rows,
                                  uint64_t columns)
{
    enum ggml_type type = types[source->layout].becomes;
    return type == GGML_T2_128 || scales_are_halves(source, rows, columns) ? type : GGML_F32;
}

void weight_iquant_read(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out)
{
    uint32_t bytes = block_bytes[source->layout];
    const uint8_t *at =
        source->data + span.row * source->row_bytes + (uint64_t)(span.first / BLOCK) * bytes;
    (void)columns;
    must(span.first % BLOCK == 0 && span.count % BLOCK == 0);
    struct nibbles nibbles = nibbles_of(source->type);
    for (uint32_t c = 0; c < span.count; c += BLOCK, at += bytes) {
        struct iquant_block block;
        types[source->layout].load(at, &block);
        if (source->type == GGML_F32) {
            write_f32(&block, out);
            out += F32_BYTES;
        } else if (source->type == GGML_T2_128) {
            write_t2(&block, out);
            out += BLOCK / T2_COLUMNS * T2_BYTES;
        } else {
            must(source->type == types[source->layout].becomes);
            write_n4(&block, &nibbles, out);
            out += N4_BYTES;
        }
    }
}
