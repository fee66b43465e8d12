/*
 * Rows of other layouts as rows of GGUF types (contract in weight_source.h).
 *
 * Four-bit floats are sixteen numbers times a power of two. MXFP4's numbers are 0, 1, 2, 3, 4, 6,
 * 8, 12 and their negatives, in units of half the block's power. As integers of five bits they fit
 * Q5_0, whose f16 scale holds the power from 2^-24 to 2^15. A block of zeros gets a scale of 0. If
 * another block has a power outside this range, the whole matrix becomes BF16, which holds all
 * these numbers. IQ4_NL's sixteen numbers are integers of eight bits and its scale is f16, which is
 * Q8_0.
 *
 * The conversion is exact, except of layouts whose publishers round to 16 bits (weight_fp8.c,
 * weight_nibbles.c).
 *
 * Sources: ggml's published block layouts; the OCP Microscaling formats specification (E2M1, E8M0).
 */
#include "worker/plan/weight_source.h"

#include <math.h>
#include <string.h>

#include "proto/ggml_half.h"
#include "proto/must.h"
#include "worker/plan/weight_affine.h"
#include "worker/plan/weight_fp8.h"
#include "worker/plan/weight_integers.h"
#include "worker/plan/weight_iquant.h"
#include "worker/plan/weight_nibbles.h"

#define BLOCK       WEIGHT_SOURCE_BLOCK
#define Q8_0_BYTES  34u
#define Q5_0_BYTES  22u
#define Q5_0_CENTER 16
#define BF16_BYTES  (2u * BLOCK)

/* Exponents e whose power 2^(e - 128) f16 holds: 2^-24 .. 2^15. */
#define EXPONENT_MIN 104u
#define EXPONENT_MAX 143u

static const int8_t iq4_nl_numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t fp4_numbers[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void store_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

/* --- four-bit floats -------------------------------------------------------------------------- */

struct fp4_block {
    uint8_t exponent;
    int8_t numbers[BLOCK]; /* in units of 2^(exponent - 128) */
};

static struct fp4_block load_fp4(const struct weight_source *source, uint64_t row, uint64_t columns,
                                 uint64_t block)
{
    struct fp4_block loaded;
    const uint8_t *at = source->data + row * source->row_bytes;
    if (source->layout == WEIGHT_MXFP4) { /* the low nibbles are the block's first half */
        at += 17 * block;
        loaded.exponent = at[0];
        for (uint32_t i = 0; i < BLOCK; i++)
            loaded.numbers[i] = fp4_numbers[at[1 + i % 16] >> (i / 16 * 4) & 15];
    } else {
        at += 16 * block;
        loaded.exponent = source->scales[row * (columns / BLOCK) + block];
        for (uint32_t i = 0; i < BLOCK; i++)
            loaded.numbers[i] = fp4_numbers[at[i / 2] >> (i % 2 * 4) & 15];
    }
    return loaded;
}

static bool is_zero(const struct fp4_block *block)
{
    for (uint32_t i = 0; i < BLOCK; i++)
        if (block->numbers[i] != 0)
            return false;
    return true;
}

static bool has_half_power(uint8_t exponent)
{
    return exponent >= EXPONENT_MIN && exponent <= EXPONENT_MAX;
}

static void write_q5_0(const struct fp4_block *block, uint8_t *out)
{
    float power = has_half_power(block->exponent) ? ldexpf(1.0f, block->exponent - 128) : 0.0f;
    memset(out, 0, Q5_0_BYTES);
    store_u16(out, ggml_f32_to_f16(power));
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t code = (uint32_t)(block->numbers[i] + Q5_0_CENTER);
        out[2 + i / 8] = (uint8_t)(out[2 + i / 8] | (code >> 4) << (i % 8));
        out[6 + i % 16] = (uint8_t)(out[6 + i % 16] | (code & 15) << (i / 16 * 4));
    }
}

/* Numbers of three bits times a power of two: the lower half of the float is 0. */
static void write_bf16(const struct fp4_block *block, uint8_t *out)
{
    for (uint32_t i = 0; i < BLOCK; i++) {
        float value = ldexpf((float)block->numbers[i], block->exponent - 128);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        store_u16(out + 2 * i, (uint16_t)(bits >> 16));
    }
}

static enum ggml_type choose_for_fp4(const struct weight_source *source, uint64_t rows,
                                     uint64_t columns)
{
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t b = 0; b < columns / BLOCK; b++) {
            uint8_t exponent = source->layout == WEIGHT_MXFP4
                                   ? source->data[row * source->row_bytes + 17 * b]
                                   : source->scales[row * (columns / BLOCK) + b];
            if (has_half_power(exponent))
                continue;
            struct fp4_block block = load_fp4(source, row, columns, b);
            if (!is_zero(&block))
                return GGML_BF16;
        }
    }
    return GGML_Q5_0;
}

static void read_fp4(const struct weight_source *source, uint32_t columns, struct weight_span span,
                     uint8_t *out)
{
    for (uint32_t c = span.first; c < span.first + span.count; c += BLOCK) {
        struct fp4_block block = load_fp4(source, span.row, columns, c / BLOCK);
        if (source->type == GGML_Q5_0) {
            write_q5_0(&block, out);
            out += Q5_0_BYTES;
        } else {
            write_bf16(&block, out);
            out += BF16_BYTES;
        }
    }
}

/* --- IQ4_NL ----------------------------------------------------------------------------------- */

/* A block is a half and 16 bytes of nibbles. */
static void read_iq4_nl(const struct weight_source *source, struct weight_span span, uint8_t *out)
{
    const uint8_t *at = source->data + span.row * source->row_bytes + 18u * (span.first / BLOCK);
    for (uint32_t c = 0; c < span.count; c += BLOCK, at += 18, out += Q8_0_BYTES) {
        memcpy(out, at, 2);
        for (uint32_t i = 0; i < BLOCK; i++)
            out[2 + i] = (uint8_t)iq4_nl_numbers[at[2 + i % 16] >> (i / 16 * 4) & 15];
    }
}

static void read_transposed(const struct weight_source *source, struct weight_span span,
                            uint8_t *out)
{
    uint64_t bytes = ggml_type_block(source->type).bytes;
    const uint8_t *at = source->data + (span.first * source->block_rows + span.row) * bytes;
    for (uint32_t i = 0; i < span.count; i++, at += source->block_rows * bytes)
        memcpy(out + i * bytes, at, bytes);
}

static void read_interleaved(const struct weight_source *source, uint32_t columns,
                             struct weight_span span, uint8_t *out)
{
    uint64_t bytes = ggml_type_block(source->type).bytes;
    uint32_t parts = columns / source->group;
    const uint8_t *row = source->data + span.row * source->row_bytes;
    for (uint32_t i = 0; i < span.count; i++) {
        uint64_t part = (span.first + i) / source->group, c = (span.first + i) % source->group;
        memcpy(out + i * bytes, row + (c * parts + part) * bytes, bytes);
    }
}

/* --- all -------------------------------------------------------------------------------------- */

static enum weight_layout layout_of_gguf(enum ggml_type type)
{
    switch (type) {
#define CONVERTED_LAYOUT(name, number, columns, bytes)                                             \
    case GGML_##name: return WEIGHT_##name;
        GGML_CONVERTED_LIST(CONVERTED_LAYOUT)
#undef CONVERTED_LAYOUT
    default: return WEIGHT_IN_PLACE;
    }
}

struct weight_source weight_source_of_gguf(const struct gguf_tensor *tensor)
{
    struct weight_source source = {.layout = layout_of_gguf(tensor->type), .type = tensor->type};
    if (source.layout == WEIGHT_IN_PLACE)
        return source;
    struct ggml_block block = ggml_type_stored_block(tensor->type);
    uint64_t columns = tensor->dimensions[0];
    source.data = tensor->data;
    source.row_bytes = columns / block.elements * block.bytes;
    weight_source_choose_type(&source, tensor->data_bytes / source.row_bytes, columns);
    return source;
}

void weight_source_choose_type(struct weight_source *source, uint64_t rows, uint64_t columns)
{
    switch (source->layout) {
    case WEIGHT_IQ4_NL: source->type = GGML_Q8_0; return;
    case WEIGHT_MXFP4:
    case WEIGHT_FP4: source->type = choose_for_fp4(source, rows, columns); return;
    case WEIGHT_FP8:
    case WEIGHT_NVFP4: source->type = GGML_BF16; return;
    case WEIGHT_TABLE4: return; /* the checkpoint states it */
    case WEIGHT_AFFINE: source->type = weight_affine_type(source, rows, columns); return;
    case WEIGHT_PACKED:
    case WEIGHT_AWQ:
    case WEIGHT_GPTQ: source->type = weight_integers_type(source, rows, columns); return;
    case WEIGHT_IQ1_S:
    case WEIGHT_IQ1_M:
    case WEIGHT_IQ2_XXS:
    case WEIGHT_IQ2_XS:
    case WEIGHT_IQ2_S:
    case WEIGHT_IQ3_XXS:
    case WEIGHT_IQ3_S:
    case WEIGHT_IQ4_XS:
    case WEIGHT_TQ1_0:
    case WEIGHT_TQ2_0: source->type = weight_iquant_type(source, rows, columns); return;
    default: must_fail("a layout with a choice", __FILE__, __LINE__);
    }
}

enum ggml_type weight_source_wide_type(const struct weight_source *source)
{
    switch (source->layout) {
    case WEIGHT_MXFP4:
    case WEIGHT_FP4: return GGML_BF16;
    case WEIGHT_AFFINE:
    case WEIGHT_PACKED:
    case WEIGHT_AWQ:
    case WEIGHT_GPTQ: return GGML_F32;
    case WEIGHT_TQ1_0:
    case WEIGHT_TQ2_0: return source->type;
    case WEIGHT_IQ1_S:
    case WEIGHT_IQ1_M:
    case WEIGHT_IQ2_XXS:
    case WEIGHT_IQ2_XS:
    case WEIGHT_IQ2_S:
    case WEIGHT_IQ3_XXS:
    case WEIGHT_IQ3_S:
    case WEIGHT_IQ4_XS: return GGML_F32;
    default: return source->type;
    }
}

void weight_source_read(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out)
{
    span.row += source->first_row;
    must(source->layout == WEIGHT_FP8 || source->layout == WEIGHT_TRANSPOSED ||
         source->layout == WEIGHT_INTERLEAVED || source->layout == WEIGHT_TABLE4 ||
         (span.first % BLOCK == 0 && span.count % BLOCK == 0));
    switch (source->layout) {
    case WEIGHT_IQ4_NL: read_iq4_nl(source, span, out); return;
    case WEIGHT_MXFP4:
    case WEIGHT_FP4: read_fp4(source, columns, span, out); return;
    case WEIGHT_FP8: weight_fp8_read(source, columns, span, out); return;
    case WEIGHT_AFFINE: weight_affine_read(source, columns, span, out); return;
    case WEIGHT_PACKED:
    case WEIGHT_AWQ:
    case WEIGHT_GPTQ: weight_integers_read(source, columns, span, out); return;
    case WEIGHT_NVFP4:
    case WEIGHT_TABLE4: weight_nibbles_read(source, columns, span, out); return;
    case WEIGHT_IQ1_S:
    case WEIGHT_IQ1_M:
    case WEIGHT_IQ2_XXS:
    case WEIGHT_IQ2_XS:
    case WEIGHT_IQ2_S:
    case WEIGHT_IQ3_XXS:
    case WEIGHT_IQ3_S:
    case WEIGHT_IQ4_XS:
    case WEIGHT_TQ1_0:
    case WEIGHT_TQ2_0: weight_iquant_read(source, span, out); return;
    case WEIGHT_TRANSPOSED: read_transposed(source, span, out); return;
    case WEIGHT_INTERLEAVED: read_interleaved(source, columns, span, out); return;
    default: must_fail("a layout to read", __FILE__, __LINE__);
    }
}
