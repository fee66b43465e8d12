/*
 * Rows of other layouts as rows of GGUF types (contract in weight_source.h).
 *
 * Four-bit floats are sixteen numbers times a power of two. MXFP4's numbers are 0, 1, 2, 3, 4, 6,
 * 8, 12 and their negatives, in units of half the block's power. Kernels on devices compute with
 * halves, which hold powers from 2^-24 to 2^15. If a block that is not all zeros has another one, the
 * whole matrix becomes BF16, which holds all these numbers.
 *
 * The conversion is exact, except of layouts whose publishers round to 16 bits (weight_nibbles.c,
 * and weight_fp8.c if scales change inside 32 columns).
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
#define MXFP4_BYTES 17u
#define BF16_BYTES  (2u * BLOCK)

static const int8_t fp4_numbers[16] = {GGML_E2M1_NUMBERS};

static void store_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

/* --- four-bit floats -------------------------------------------------------------------------- */

struct fp4_block {
    uint8_t exponent;
    uint8_t codes[BLOCK]; /* of numbers in units of 2^(exponent - 128) */
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
            loaded.codes[i] = at[1 + i % 16] >> (i / 16 * 4) & 15;
    } else {
        at += 16 * block;
        loaded.exponent = source->scales[row * (columns / BLOCK) + block];
        for (uint32_t i = 0; i < BLOCK; i++)
            loaded.codes[i] = at[i / 2] >> (i % 2 * 4) & 15;
    }
    return loaded;
}

static bool is_zero(const struct fp4_block *block)
{
    for (uint32_t i = 0; i < BLOCK; i++)
        if (fp4_numbers[block->codes[i]] != 0)
            return false;
    return true;
}

static bool has_half_power(uint8_t exponent)
{
    return exponent >= GGML_E8M0_MIN && exponent <= GGML_E8M0_MAX;
}

static void write_mxfp4(const struct fp4_block *block, uint8_t *out)
{
    out[0] = block->exponent;
    for (uint32_t i = 0; i < BLOCK / 2; i++)
        out[1 + i] = (uint8_t)(block->codes[i] | block->codes[16 + i] << 4);
}

/* Numbers of three bits times a power of two: the lower half of the float is 0. */
static void write_bf16(const struct fp4_block *block, uint8_t *out)
{
    for (uint32_t i = 0; i < BLOCK; i++) {
        float value = ldexpf((float)fp4_numbers[block->codes[i]], block->exponent - 128);
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
    return GGML_MXFP4;
}

static void read_fp4(const struct weight_source *source, uint32_t columns, struct weight_span span,
                     uint8_t *out)
{
    for (uint32_t c = span.first; c < span.first + span.count; c += BLOCK) {
        struct fp4_block block = load_fp4(source, span.row, columns, c / BLOCK);
        if (source->type == GGML_MXFP4) {
            write_mxfp4(&block, out);
            out += MXFP4_BYTES;
        } else {
            write_bf16(&block, out);
            out += BF16_BYTES;
        }
    }
}

/* --- floats ----------------------------------------------------------------------------------- */

static enum ggml_type keep_type(const struct weight_source *source, uint64_t rows, uint64_t columns)
{
    (void)rows;
    (void)columns;
    return source->type;
}

static void read_transposed(const struct weight_source *source, uint32_t columns,
                            struct weight_span span, uint8_t *out)
{
    (void)columns;
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

static void read_slice(const struct weight_source *source, uint32_t columns,
                       struct weight_span span, uint8_t *out)
{
    struct ggml_block block = ggml_type_block(source->type);
    must(span.first + span.count <= columns && span.first % block.elements == 0);
    memcpy(out,
           source->data + span.row * source->row_bytes + span.first / block.elements * block.bytes,
           span.count / block.elements * block.bytes);
}

/* --- all -------------------------------------------------------------------------------------- */

#define ONE_TYPE GGML_TYPE_END /* `choose` always chooses the same type */

#define IQUANT                                                                                     \
    {                                                                                              \
        weight_iquant_type, GGML_F32, weight_iquant_read, false                                    \
    }
#define TERNARY                                                                                    \
    {                                                                                              \
        weight_iquant_type, ONE_TYPE, weight_iquant_read, false                                    \
    }
#define FOUR_BIT_FLOATS                                                                            \
    {                                                                                              \
        choose_for_fp4, GGML_BF16, read_fp4, false                                                 \
    }
#define INTEGERS                                                                                   \
    {                                                                                              \
        weight_integers_type, GGML_F32, weight_integers_read, false                                \
    }

/* By layout; WEIGHT_IN_PLACE is never read. */
static const struct {
    enum ggml_type (*choose)(const struct weight_source *source, uint64_t rows, uint64_t columns);
    enum ggml_type wide; /* weight_source_wide_type() */
    void (*read)(const struct weight_source *source, uint32_t columns, struct weight_span span,
                 uint8_t *out);
    bool any_span; /* a span may begin and end anywhere */
} layouts[] = {
    [WEIGHT_MXFP4] = FOUR_BIT_FLOATS,
    [WEIGHT_NVFP4_64] = {weight_nvfp4_type, GGML_F32, weight_nibbles_read, false},
    [WEIGHT_IQ1_S] = IQUANT,
    [WEIGHT_IQ1_M] = IQUANT,
    [WEIGHT_IQ2_XXS] = IQUANT,
    [WEIGHT_IQ2_XS] = IQUANT,
    [WEIGHT_IQ2_S] = IQUANT,
    [WEIGHT_IQ3_XXS] = IQUANT,
    [WEIGHT_IQ3_S] = IQUANT,
    [WEIGHT_TQ1_0] = TERNARY,
    [WEIGHT_TQ2_0] = TERNARY,
    [WEIGHT_FP4] = FOUR_BIT_FLOATS,
    [WEIGHT_AFFINE] = {weight_affine_type, GGML_F32, weight_affine_read, false},
    [WEIGHT_FP8] = {weight_fp8_type, GGML_BF16, weight_fp8_read, true},
    [WEIGHT_PACKED] = INTEGERS,
    [WEIGHT_AWQ] = INTEGERS,
    [WEIGHT_GPTQ] = INTEGERS,
    [WEIGHT_NVFP4] = {weight_nvfp4_type, ONE_TYPE, weight_nibbles_read, false},
    [WEIGHT_TABLE4] = {weight_table4_type, ONE_TYPE, weight_nibbles_read, true},
    [WEIGHT_TRANSPOSED] = {keep_type, ONE_TYPE, read_transposed, true},
    [WEIGHT_INTERLEAVED] = {keep_type, ONE_TYPE, read_interleaved, true},
    [WEIGHT_SLICE] = {keep_type, ONE_TYPE, read_slice, true},
};

static enum weight_layout layout_of_gguf(enum ggml_type type)
{
    switch (type) {
#define CONVERTED_LAYOUT(name, number, columns, bytes)                                             \
    case GGML_##name: return WEIGHT_##name;
        GGML_CONVERTED_LIST(CONVERTED_LAYOUT)
#undef CONVERTED_LAYOUT
    case GGML_MXFP4: return WEIGHT_MXFP4;
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
    if (source.type == tensor->type)
        return (struct weight_source){.layout = WEIGHT_IN_PLACE, .type = tensor->type};
    return source;
}

void weight_source_choose_type(struct weight_source *source, uint64_t rows, uint64_t columns)
{
    must(layouts[source->layout].choose);
    source->type = layouts[source->layout].choose(source, rows, columns);
}

enum ggml_type weight_source_wide_type(const struct weight_source *source)
{
    bool one = !layouts[source->layout].read || layouts[source->layout].wide == ONE_TYPE;
    if (source->layout == WEIGHT_TABLE4)
        return source->scale_type;
    return one ? source->type : layouts[source->layout].wide;
}

void weight_source_read(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out)
{
    must(layouts[source->layout].read);
    must(layouts[source->layout].any_span || (span.first % BLOCK == 0 && span.count % BLOCK == 0));
    span.row += source->first_row;
    layouts[source->layout].read(source, columns, span, out);
}
