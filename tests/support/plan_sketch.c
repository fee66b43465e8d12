/*
 * Owns the arrays of the plan and the random bytes of its weights.
 */
#include "tests/support/plan_sketch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"

enum { TENSORS_MAX = 64, WEIGHTS_MAX = 64, OPS_MAX = 64 };

struct plan_sketch {
    struct plan plan;
    struct plan_tensor tensors[TENSORS_MAX];
    struct plan_weight weights[WEIGHTS_MAX];
    void *weight_data[WEIGHTS_MAX];
    struct plan_op ops[OPS_MAX];
    struct test_random random;
};

struct plan_sketch *plan_sketch_create(uint64_t seed)
{
    struct plan_sketch *s = must_alloc(1, sizeof *s);
    s->random.state = seed;
    s->plan.tensors = s->tensors;
    s->plan.weights = s->weights;
    s->plan.ops = s->ops;
    return s;
}

void plan_sketch_destroy(struct plan_sketch *s)
{
    for (uint32_t w = 0; w < s->plan.weight_count; w++)
        free(s->weight_data[w]);
    free(s);
}

struct plan *plan_sketch_plan(struct plan_sketch *s)
{
    return &s->plan;
}

struct test_random *plan_sketch_random(struct plan_sketch *s)
{
    return &s->random;
}

float plan_sketch_uniform(struct plan_sketch *s)
{
    return (float)(test_random_next(&s->random) >> 40) * 0x1p-23f - 1.0f;
}

plan_tensor_id plan_sketch_tensor(struct plan_sketch *s, enum plan_rows rows, uint32_t columns)
{
    must(s->plan.tensor_count < TENSORS_MAX);
    s->tensors[s->plan.tensor_count] = (struct plan_tensor){rows, columns};
    return (plan_tensor_id)s->plan.tensor_count++;
}

/* Random E4M3 bytes without NaNs: they have tests of their own. Scales keep the outputs in the range of
 * halves. */
static void fill_f8(struct plan_sketch *s, enum ggml_type type, uint8_t *bytes, uint64_t byte_count)
{
    const uint32_t block_bytes = ggml_type_block(type).bytes;
    test_random_fill(&s->random, bytes, byte_count);
    for (uint64_t at = 0; at < byte_count; at += block_bytes) {
        float scale = plan_sketch_uniform(s) / 256;
        for (uint32_t i = sizeof scale; i < block_bytes; i++)
            bytes[at + i] &= (bytes[at + i] & 0x7f) == 0x7f ? 0xbf : 0xff;
        memcpy(bytes + at, &scale, sizeof scale);
    }
}

/* MXFP4 with ordinary powers; NVFP4 with scales that are not NaN and a factor for each row. */
static void fill_fp4(struct plan_sketch *s, enum ggml_type type, uint8_t *bytes, uint64_t rows,
                     uint64_t row_bytes)
{
    const uint32_t block_bytes = ggml_type_block(type).bytes;
    test_random_fill(&s->random, bytes, rows * row_bytes);
    for (uint64_t row = 0; row < rows; row++) {
        float factor = 0x1p-20f + fabsf(plan_sketch_uniform(s)) * 0x1p-10f;
        if (row % 2 == 1)
            factor = -1.0f / factor; /* divides */
        for (uint64_t at = row * row_bytes; at < (row + 1) * row_bytes; at += block_bytes) {
            if (type == GGML_MXFP4) {
                bytes[at] = (uint8_t)(114 + bytes[at] % 10);
                continue;
            }
            memcpy(bytes + at, &factor, sizeof factor);
            for (uint32_t i = 4; i < 6; i++)
                bytes[at + i] &= (bytes[at + i] & 0x7f) == 0x7f ? 0xbf : 0xff;
        }
    }
}

/* Random nibbles and small scales. */
static void fill_f4(struct plan_sketch *s, enum ggml_type type, uint8_t *bytes, uint64_t byte_count)
{
    uint32_t block_bytes = ggml_type_block(type).bytes;
    test_random_fill(&s->random, bytes, byte_count);
    for (uint64_t at = 0; at < byte_count; at += block_bytes) {
        float scale = plan_sketch_uniform(s);
        memcpy(bytes + at, &scale, sizeof scale);
    }
}

/* Random bytes, with small finite f16 scales in every block of a quantized type, and zero points that are integers. */
static void fill_weight(struct plan_sketch *s, enum ggml_type type, uint8_t *bytes, uint64_t rows,
                        uint64_t byte_count)
{
    if (type == GGML_F8_128 || type == GGML_F8_32) {
        fill_f8(s, type, bytes, byte_count);
        return;
    }
    if (type == GGML_NF4_64 || type == GGML_FP4_64) {
        fill_f4(s, type, bytes, byte_count);
        return;
    }
    if (type == GGML_MXFP4 || type == GGML_NVFP4) {
        fill_fp4(s, type, bytes, rows, byte_count / rows);
        return;
    }
    bool quantized = ggml_type_block(type).elements > 1;
    struct ggml_layout layout = {.bytes = ggml_type_block(type).bytes};
    if (quantized)
        layout = ggml_type_layout(type);
    test_random_fill(&s->random, bytes, byte_count);
    for (uint64_t at = 0; at < byte_count; at += layout.bytes) {
        float value = plan_sketch_uniform(s);
        if (type == GGML_F32) {
            memcpy(bytes + at, &value, sizeof value);
        } else if (type == GGML_BF16) {
            memcpy(bytes + at, (const char *)&value + 2, 2);
        } else {
            for (uint32_t i = 0; i < 1u + layout.minimum; i++) {
                float number = layout.zero && i == 1 ? roundf(fabsf(value) * 15) : value * 0.05f;
                uint16_t half = ggml_f32_to_f16(quantized ? number : value);
                memcpy(bytes + at + layout.offset + 2 * i, &half, sizeof half);
                value = plan_sketch_uniform(s);
            }
        }
    }
}

plan_weight_id plan_sketch_weight(struct plan_sketch *s, enum ggml_type type, uint32_t rows,
                                  uint32_t columns)
{
    must(s->plan.weight_count < WEIGHTS_MAX);
    uint32_t id = s->plan.weight_count++;
    uint64_t bytes = rows * ggml_row_bytes(type, columns);
    s->weight_data[id] = must_alloc(bytes, 1);
    fill_weight(s, type, s->weight_data[id], rows, bytes);
    s->weights[id] = (struct plan_weight){.type = type,
                                          .rows = rows,
                                          .columns = columns,
                                          .data = s->weight_data[id],
                                          .data_bytes = bytes};
    return (plan_weight_id)id;
}

void plan_sketch_split_weight(struct plan_sketch *s, plan_weight_id weight, uint32_t experts)
{
    struct plan_weight *w = &s->weights[weight];
    must(w->rows % experts == 0);
    w->rows /= experts;
    w->experts = experts;
}

void plan_sketch_append(struct plan_sketch *s, struct plan_op op)
{
    must(s->plan.op_count < OPS_MAX);
    s->ops[s->plan.op_count++] = op;
}

void plan_sketch_append_op(struct plan_sketch *sketch, enum op_stem stem, plan_tensor_id x,
                           plan_tensor_id y, plan_tensor_id out, const plan_weight_id *weights,
                           uint32_t count, union op_params params)
{
    struct plan_op op = {.stem = stem,
                         .inputs = {x, y},
                         .output = out,
                         .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                         .params = params};
    for (uint32_t i = 0; i < count; i++)
        op.weights[i] = weights[i];
    plan_sketch_append(sketch, op);
}

void plan_sketch_stages(struct plan_sketch *sketch, plan_tensor_id pixels, uint32_t frames,
                        struct plan_op op)
{
    plan_sketch_append(sketch,
                       (struct plan_op){.stem = OP_patch_rows,
                                        .inputs = {PLAN_NONE, PLAN_NONE},
                                        .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                                        .output = pixels,
                                        .params.patch_rows = {.frames = frames, .gain = 1.0f}});
    plan_sketch_append(sketch, op);
    sketch->plan.logits = PLAN_NONE;
    sketch->plan.stage_ends[0] = 1;
    sketch->plan.stage_ends[1] = 2;
}

void plan_sketch_set_kv(struct plan_sketch *s, uint32_t layers, uint32_t kv_heads,
                        uint32_t head_dim, uint32_t window)
{
    s->plan.kv = (struct kv_layout){.group_count = 1,
                                    .layer_count = layers,
                                    .groups = {{.kind = window ? KV_SLIDING : KV_FULL,
                                                .window = window,
                                                .layers = layers,
                                                .kv_heads = kv_heads,
                                                .head_dim = head_dim}}};
    for (uint32_t layer = 0; layer < layers; layer++)
        s->plan.kv.layer_index[layer] = (uint16_t)layer;
}

void plan_sketch_quantize_kv(struct plan_sketch *s, const struct kv_quantization *quantization)
{
    struct kv_layout *layout = &s->plan.kv;
    layout->quantization = *quantization;
    layout->groups[0].quantized = quantization->scheme != KV_QUANT_NONE;
    if (quantization->start_tokens == 0)
        return;
    layout->group_count = 2;
    layout->groups[1] = layout->groups[0];
    layout->groups[1].kind = KV_OPENING;
    layout->groups[1].quantized = false;
    layout->groups[1].opening = quantization->start_tokens;
    layout->groups[1].opening_of = 0;
}

void plan_sketch_set_state(struct plan_sketch *s, uint32_t layers, uint32_t conv_floats,
                           uint32_t delta_floats, uint32_t conv_row_floats,
                           uint32_t delta_row_floats)
{
    s->plan.state = (struct state_layout){.layers = layers,
                                          .conv_floats = conv_floats,
                                          .delta_floats = delta_floats,
                                          .conv_row_floats = conv_row_floats,
                                          .delta_row_floats = delta_row_floats};
    for (uint32_t layer = 0; layer < layers; layer++)
        s->plan.state.layer_index[layer] = (uint16_t)layer;
}

void plan_sketch_weight_row(const struct plan_sketch *s, plan_weight_id weight, uint32_t row,
                            float *out)
{
    const struct plan_weight *w = &s->weights[weight];
    const uint8_t *bytes = w->data;
    ggml_dequantize_row(w->type, bytes + row * ggml_row_bytes(w->type, w->columns), w->columns,
                        out);
}
