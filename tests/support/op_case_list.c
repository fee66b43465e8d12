/*
 * Shapes are small, so that hundreds of trials take seconds, and odd: widths that fill no register,
 * outputs that fill no group, heads in the middle of a row. Row counts stand on both sides of the
 * borders at which a backend may change its method.
 */
#include "tests/support/op_case_list.h"

#include <math.h>
#include <string.h>

#include "proto/must.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct visitor {
    op_case_visit_fn *visit;
    void *context;
};

/* Steps of 1, 3, 8, 9 and 33 rows, of one sequence or two. */
static void set_steps(struct op_case *c)
{
    static const uint32_t steps[][OP_TRIAL_SEQUENCES] = {{1, 0}, {2, 1}, {0, 8}, {9, 0}, {20, 13}};
    memcpy(c->steps, steps, sizeof steps);
}

/* And one of 130, for those cases whose cost allows it in every build. */
static void add_long_step(struct op_case *c)
{
    c->steps[5][0] = 130;
}

static struct op_case begin(enum op_stem stem, uint32_t input_columns, uint32_t output_columns)
{
    struct op_case c = {.stem = stem,
                        .input_columns = {input_columns},
                        .input_type = GGML_F32,
                        .input_scale = 1.0f,
                        .output_columns = output_columns,
                        .rope = {.dims = 2, .magnitude = 1.0f}};
    set_steps(&c);
    return c;
}

static void hand_over(const struct visitor *visitor, const struct op_case *c)
{
    visitor->visit(c, visitor->context);
}

static void set_norm_weight(struct op_case *c, uint32_t columns)
{
    c->weights[0] = (struct op_trial_weight){GGML_F32, 1, columns};
}

static void list_embed_rows(const struct visitor *visitor)
{
    for (int type = 0; type < GGML_TYPE_END; type++) {
        if (ggml_type_block((enum ggml_type)type).elements == 0)
            continue;
        struct op_case c = begin(OP_embed_rows, 0, 512);
        c.weights[0] = (struct op_trial_weight){(enum ggml_type)type, 512, 512};
        c.params.embed_rows.scale = 25.298221f;
        hand_over(visitor, &c);
    }
}

static void list_rms_norm(const struct visitor *visitor)
{
    static const uint32_t widths[] = {1, 7, 8, 33, 576, 1000};
    for (uint32_t i = 0; i < COUNT(widths); i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            struct op_case c = begin(OP_rms_norm, widths[i], widths[i]);
            set_norm_weight(&c, widths[i]);
            add_long_step(&c);
            c.in_place = in_place;
            c.params.rms_norm = (struct rms_norm_params){1e-5f, in_place ? 1.0f : 0.0f};
            hand_over(visitor, &c);
        }
    }
}

static void list_layer_norm(const struct visitor *visitor)
{
    static const uint32_t widths[] = {2, 7, 8, 33, 576, 1000};
    for (uint32_t i = 0; i < COUNT(widths); i++) {
        struct op_case c = begin(OP_layer_norm, widths[i], widths[i]);
        set_norm_weight(&c, widths[i]);
        add_long_step(&c);
        c.in_place = i % 2 == 0;
        c.params.layer_norm = (struct layer_norm_params){1e-5f, i % 3 == 0 ? 1.0f : 0.0f};
        hand_over(visitor, &c);
    }
}

static void list_rms_norm_add(const struct visitor *visitor)
{
    static const uint32_t widths[] = {1, 7, 8, 33, 640};
    for (uint32_t i = 0; i < COUNT(widths); i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            struct op_case c = begin(OP_rms_norm_add, widths[i], widths[i]);
            c.input_columns[1] = widths[i];
            set_norm_weight(&c, widths[i]);
            add_long_step(&c);
            c.in_place = in_place;
            c.params.rms_norm_add = (struct rms_norm_add_params){1e-6f, 1.0f};
            hand_over(visitor, &c);
        }
    }
}

static void list_head_norm(const struct visitor *visitor)
{
    static const struct head_norm_params params[] = {
        {{0, 4, 256}, 1e-6f, 0.0f}, {{5, 3, 12}, 1e-6f, 0.0f}, {{64, 3, 64}, 1e-5f, 1.0f}};
    static const uint32_t columns[COUNT(params)] = {1024, 50, 300};
    for (uint32_t i = 0; i < COUNT(params); i++) {
        struct op_case c = begin(OP_head_norm, columns[i], columns[i]);
        set_norm_weight(&c, params[i].slice.head_dim);
        add_long_step(&c);
        c.in_place = true;
        c.params.head_norm = params[i];
        hand_over(visitor, &c);
        c.weights[0].rows = 0; /* the norm alone */
        c.params.head_norm.weight_offset = 0.0f;
        hand_over(visitor, &c);
    }
}

static void list_rope(const struct visitor *visitor)
{
    static const struct {
        enum rope_pairing pairing;
        struct column_slice slice;
        uint32_t dims;
        uint32_t first_position;
    } ropes[] = {
        {ROPE_PAIRS_ADJACENT, {0, 4, 64}, 64, 0},
        {ROPE_PAIRS_ADJACENT, {7, 3, 20}, 14, 1000},
        {ROPE_PAIRS_HALVES, {0, 1, 256}, 256, 130000},
        {ROPE_PAIRS_HALVES, {3, 5, 18}, 6, 77},
    };
    for (uint32_t i = 0; i < COUNT(ropes); i++) {
        struct op_case c = begin(OP_rope, 300, 300);
        add_long_step(&c);
        c.in_place = true;
        c.rope = (struct rope_config){
            .pairing = ropes[i].pairing, .dims = ropes[i].dims, .magnitude = 1.25f};
        for (uint32_t d = 0; d < ropes[i].dims / 2; d++)
            c.rope.inverse_frequency[d] = powf(10000.0f, -2.0f * (float)d / (float)ropes[i].dims);
        c.params.rope = (struct rope_params){ropes[i].slice, 0};
        c.first_positions[0] = ropes[i].first_position;
        c.first_positions[1] = 5;
        hand_over(visitor, &c);
    }
}

/* --- linear and linear_add --- */

static struct op_case begin_linear(enum op_stem stem, uint32_t columns,
                                   const enum ggml_type types[OP_WEIGHTS_MAX],
                                   const uint32_t outputs[OP_WEIGHTS_MAX])
{
    struct op_case c = begin(stem, columns, 0);
    for (uint32_t w = 0; w < OP_WEIGHTS_MAX && outputs[w] > 0; w++) {
        c.weights[w] = (struct op_trial_weight){types[w], outputs[w], columns};
        c.output_columns += outputs[w];
    }
    if (stem == OP_linear_add)
        c.input_columns[1] = c.output_columns;
    return c;
}

static void list_linear_type(const struct visitor *visitor, enum ggml_type type)
{
    static const struct {
        uint32_t columns;
        uint32_t outputs[OP_WEIGHTS_MAX];
        bool on_logit_rows;
        bool long_step;
    } shapes[] = {
        {256, {48}, true, false}, {512, {17, 16, 1}, false, false}, {256, {133, 5}, false, true}};
    const enum ggml_type types[OP_WEIGHTS_MAX] = {type, type, type};
    for (uint32_t i = 0; i < COUNT(shapes); i++) {
        struct op_case c = begin_linear(OP_linear, shapes[i].columns, types, shapes[i].outputs);
        c.on_logit_rows = shapes[i].on_logit_rows;
        c.wanted_every = c.on_logit_rows ? 3 : 1;
        if (shapes[i].long_step)
            add_long_step(&c);
        hand_over(visitor, &c);
    }
}

static void list_linear(const struct visitor *visitor)
{
    static const enum ggml_type mixed[] = {GGML_Q5_0, GGML_F32, GGML_Q6_K};
    static const enum ggml_type floats[] = {GGML_BF16, GGML_F32, GGML_F16};
    for (int type = 0; type < GGML_TYPE_END; type++)
        if (ggml_type_block((enum ggml_type)type).elements != 0)
            list_linear_type(visitor, (enum ggml_type)type);
    struct op_case c = begin_linear(OP_linear, 256, mixed, (const uint32_t[]){40, 16, 24});
    hand_over(visitor, &c);
    c = begin_linear(OP_linear, 45, floats, (const uint32_t[]){19, 3, 7});
    hand_over(visitor, &c);
    c = begin_linear(OP_linear, 1, floats, (const uint32_t[]){16, 0, 0});
    hand_over(visitor, &c);
}

static void list_linear_add(const struct visitor *visitor)
{
    for (int t = 0; t < GGML_TYPE_END; t++) {
        const enum ggml_type types[OP_WEIGHTS_MAX] = {(enum ggml_type)t};
        if (ggml_type_block(types[0]).elements == 0)
            continue;
        struct op_case c = begin_linear(OP_linear_add, 512, types, (const uint32_t[]){48, 0, 0});
        hand_over(visitor, &c);
        c = begin_linear(OP_linear_add, 256, types, (const uint32_t[]){133, 0, 0});
        c.in_place = true;
        add_long_step(&c);
        hand_over(visitor, &c);
        c = begin_linear(OP_linear_add, 256, types, (const uint32_t[]){21, 0, 0});
        c.in_place = true;
        c.on_logit_rows = true;
        hand_over(visitor, &c);
    }
}

/* --- the cache --- */

/* The sequences' rows of each step; a prompt longer than a tile of any kernel among them. */
static void set_kv_steps(struct op_case *c)
{
    static const uint32_t steps[][OP_TRIAL_SEQUENCES] = {{33, 1}, {1, 17}, {70, 64}, {1, 1},
                                                         {5, 90}, {1, 0},  {0, 3},   {129, 2}};
    memcpy(c->steps, steps, sizeof steps);
}

static void list_kv_write(const struct visitor *visitor)
{
    static const uint32_t head_dims[] = {64, 70, 128};
    for (uint32_t i = 0; i < COUNT(head_dims); i++) {
        uint32_t wide = 3 * head_dims[i];
        struct op_case c = begin(OP_kv_write, 5 + 2 * wide + 1, wide);
        set_kv_steps(&c);
        c.window = 1;
        c.params.kv_write.keys = (struct column_slice){2, 3, head_dims[i]};
        c.params.kv_write.values = (struct column_slice){5 + wide, 3, head_dims[i]};
        hand_over(visitor, &c);
    }
}

static void list_attention(const struct visitor *visitor)
{
    static const struct {
        uint32_t heads;
        uint32_t kv_heads;
        uint32_t head_dim;
        uint32_t window;
        float magnitude; /* large ones make the softmax sharp */
        float soft_cap;
        bool sinks;
        struct kv_quantization quantization;
    } shapes[] = {
        {9, 3, 64, 0, 1.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}},
        {8, 2, 128, 0, 1.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}},
        {4, 1, 256, 40, 1.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}},
        {2, 2, 20, 7, 10.0f, 5, true, {KV_QUANT_NONE, 0, 0, 0, 0}},
        {3, 1, 5, 0, 100.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}},
        {20, 1, 16, 64, 3.0f, 0, true, {KV_QUANT_NONE, 0, 0, 0, 0}},
        {1, 1, 64, 1, 1.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}},
        {6, 3, 16, 24, 30.0f, 20, false, {KV_QUANT_NONE, 0, 0, 0, 0}},
        {4, 2, 32, 0, 1.0f, 0, false, {KV_QUANT_TURBOQUANT, 6, 8, 0, 0}},
        {2, 1, 32, 0, 3.0f, 0, true, {KV_QUANT_UNIFORM, 10, 14, 32, 0}},
        {4, 2, 32, 0, 2.0f, 0, false, {KV_QUANT_TURBOQUANT, 4, 4, 0, 40}},
        {2, 1, 32, 0, 1.0f, 20, true, {KV_QUANT_UNIFORM, 4, 4, 32, 83}},
        {2, 1, 16, 0, 2.0f, 0, true, {KV_QUANT_TURBOQUANT, 7, 5, 0, 0}},
        {4, 2, 64, 0, 1.0f, 0, false, {KV_QUANT_TURBOQUANT, 7, 7, 0, 50}},
        {3, 1, 48, 0, 1.0f, 30, false, {KV_QUANT_TURBOQUANT, 6, 8, 0, 0}},
        {2, 1, 80, 0, 1.0f, 0, true, {KV_QUANT_TURBOQUANT, 5, 7, 0, 60}},
    };
    for (uint32_t i = 0; i < COUNT(shapes); i++) {
        uint32_t queries = shapes[i].heads * shapes[i].head_dim;
        uint32_t pair = 2 * shapes[i].kv_heads * shapes[i].head_dim;
        struct op_case c = begin(OP_attention, 3 + queries + pair, queries);
        set_kv_steps(&c);
        c.input_type = GGML_F16; /* so that an f16 cache rounds nothing: the arithmetic is judged */
        c.window = shapes[i].window;
        c.quantization = shapes[i].quantization;
        c.params.attention =
            (struct attention_params){.queries = {3, shapes[i].heads, shapes[i].head_dim},
                                      .kv_heads = shapes[i].kv_heads,
                                      .scale = 0.125f * shapes[i].magnitude,
                                      .soft_cap = shapes[i].soft_cap};
        if (shapes[i].sinks)
            c.weights[0] = (struct op_trial_weight){GGML_F32, 1, shapes[i].heads};
        hand_over(visitor, &c);
    }
}

/* --- recurrent state --- */

/* Steps of both sequences shorter than the state, as long and longer; one leaves the other alone.
 */
static void set_state_steps(struct op_case *c)
{
    static const uint32_t steps[][OP_TRIAL_SEQUENCES] = {{5, 1}, {1, 2}, {0, 1}, {1, 1},
                                                         {2, 7}, {1, 0}, {40, 3}};
    memcpy(c->steps, steps, sizeof steps);
}

static void list_short_conv(const struct visitor *visitor)
{
    static const struct {
        enum short_conv_form form;
        uint32_t channels;
        uint32_t taps;
        uint32_t beside; /* columns behind those of the op */
        enum ggml_type type;
    } shapes[] = {{SHORT_CONV_GATED, 288, 3, 0, GGML_F32},
                  {SHORT_CONV_SILU, 320, 4, 7, GGML_BF16},
                  {SHORT_CONV_SILU, 37, 2, 0, GGML_F16},
                  {SHORT_CONV_GATED, 530, 8, 0, GGML_F32}};
    for (uint32_t i = 0; i < COUNT(shapes); i++) {
        uint32_t copies = shapes[i].form == SHORT_CONV_GATED ? 3 : 1;
        struct op_case c = begin(OP_short_conv, copies * shapes[i].channels + shapes[i].beside,
                                 shapes[i].channels);
        set_state_steps(&c);
        c.weights[0] = (struct op_trial_weight){shapes[i].type, shapes[i].channels, shapes[i].taps};
        c.params.short_conv = (struct short_conv_params){.form = shapes[i].form, .layer = 1};
        hand_over(visitor, &c);
    }
}

static void list_gated_delta(const struct visitor *visitor)
{
    static const struct gated_delta_params params[] = {
        {2, 4, 24, 17, 1, false, true},
        {3, 6, 5, 40, 1, true, true},
        {1, 1, 64, 33, 1, false, true},
        {2, 2, 16, 16, 1, true, false},
    };
    for (uint32_t i = 0; i < COUNT(params); i++) {
        const struct gated_delta_params *p = &params[i];
        uint32_t values = p->value_heads * p->value_dim;
        struct op_case c = begin(OP_gated_delta, 2 * p->key_heads * p->key_dim + values, values);
        c.input_columns[1] = 2 * p->value_heads;
        set_state_steps(&c);
        if (!p->rate_is_log) /* a random rate may be positive, and then matrices grow */
            memset(c.steps + 3, 0, sizeof c.steps - 3 * sizeof c.steps[0]);
        c.weights[0] = (struct op_trial_weight){GGML_F32, 1, p->value_heads};
        c.weights[1] = (struct op_trial_weight){GGML_BF16, 1, p->value_heads};
        c.params.gated_delta = *p;
        hand_over(visitor, &c);
    }
}

static void list_head_norm_gate(const struct visitor *visitor)
{
    static const struct column_slice gates[] = {{0, 4, 32}, {5, 3, 13}, {64, 2, 160}};
    for (uint32_t i = 0; i < COUNT(gates); i++) {
        uint32_t columns = gates[i].heads * gates[i].head_dim;
        struct op_case c = begin(OP_head_norm_gate, columns, columns);
        c.input_columns[1] = gates[i].offset + columns + i;
        set_norm_weight(&c, gates[i].head_dim);
        add_long_step(&c);
        c.params.head_norm_gate = (struct head_norm_gate_params){gates[i], 1e-6f};
        hand_over(visitor, &c);
    }
}

static const struct take_queries_params gated_heads[] = {{4, 16}, {3, 13}, {1, 96}};

static void list_take_queries(const struct visitor *visitor)
{
    for (uint32_t i = 0; i < COUNT(gated_heads); i++) {
        uint32_t queries = gated_heads[i].heads * gated_heads[i].head_dim, rest = 64 * (2 - i);
        struct op_case c = begin(OP_take_queries, 2 * queries + rest, queries + rest);
        c.params.take_queries = gated_heads[i];
        add_long_step(&c);
        hand_over(visitor, &c);
    }
}

static void list_gate_heads(const struct visitor *visitor)
{
    for (uint32_t i = 0; i < COUNT(gated_heads); i++) {
        uint32_t columns = gated_heads[i].heads * gated_heads[i].head_dim;
        struct op_case c = begin(OP_gate_heads, 2 * columns + 7 * i, columns);
        c.input_columns[1] = columns;
        c.input_scale = i == 2 ? 200.0f : 2.0f;
        c.in_place = i != 1;
        c.params.gate_heads =
            (struct gate_heads_params){gated_heads[i].heads, gated_heads[i].head_dim};
        add_long_step(&c);
        hand_over(visitor, &c);
    }
}

/* --- the rest --- */

static void list_gate(const struct visitor *visitor)
{
    static const uint32_t widths[] = {1, 13, 512, 1543};
    static const float scales[] = {1.0f, 12.0f, 300.0f}; /* to where exp() overflows */
    for (uint32_t i = 0; i < COUNT(widths); i++) {
        for (uint32_t s = 0; s < COUNT(scales); s++) {
            struct op_case c = begin(OP_gate, 2 * widths[i], widths[i]);
            if (widths[i] < 512)
                add_long_step(&c);
            c.input_scale = scales[s];
            c.params.gate.activation = GATE_SILU;
            hand_over(visitor, &c);
            c.params.gate.activation = GATE_GELU_TANH;
            hand_over(visitor, &c);
        }
    }
}

static void list_gather_rows(const struct visitor *visitor)
{
    for (uint32_t every = 1; every <= 4; every += 3) {
        struct op_case c = begin(OP_gather_rows, 37, 37);
        add_long_step(&c);
        c.wanted_every = every;
        hand_over(visitor, &c);
    }
}

static void list_bias_add(const struct visitor *visitor)
{
    static const uint32_t widths[][OP_WEIGHTS_MAX] = {{1}, {512}, {40, 13}, {576, 192, 192}};
    static const enum ggml_type types[OP_WEIGHTS_MAX] = {GGML_BF16, GGML_F32, GGML_F16};
    for (uint32_t i = 0; i < COUNT(widths); i++) {
        struct op_case c = begin(OP_bias_add, 0, 0);
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX && widths[i][w] > 0; w++) {
            c.weights[w] = (struct op_trial_weight){types[w], 1, widths[i][w]};
            c.output_columns += widths[i][w];
        }
        c.input_columns[0] = c.output_columns;
        c.in_place = true;
        c.on_logit_rows = i == 1;
        add_long_step(&c);
        hand_over(visitor, &c);
    }
}

static void list_position_scale(const struct visitor *visitor)
{
    static const struct position_scale_params params[] = {
        {{0, 4, 64}, 16384, 0.1f}, {{5, 3, 13}, 7, 0.37f}, {{3, 1, 200}, 1, -0.25f}};
    static const uint32_t first_positions[COUNT(params)] = {16380, 0, 250000};
    for (uint32_t i = 0; i < COUNT(params); i++) {
        struct op_case c = begin(OP_position_scale, 300, 300);
        add_long_step(&c);
        c.in_place = true;
        c.params.position_scale = params[i];
        c.first_positions[0] = first_positions[i];
        c.first_positions[1] = 5;
        hand_over(visitor, &c);
    }
}

static void list_soft_cap(const struct visitor *visitor)
{
    static const struct {
        uint32_t columns;
        float input_scale; /* from where tanh() is a line to where it is flat */
        struct soft_cap_params params;
    } cases[] = {
        {1, 40.0f, {0.5f, 30.0f}},    {13, 0.1f, {1.0f, 30.0f}}, {13, 9.0f, {0.25f, 0.0f}},
        {512, 3000.0f, {1.0f, 5.0f}}, {512, 9.0f, {0.25f, 0}},   {5003, 40.0f, {0.5f, 30.0f}},
    };
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        struct op_case c = begin(OP_soft_cap, cases[i].columns, cases[i].columns);
        c.in_place = i % 2 == 0;
        c.on_logit_rows = i % 3 == 1;
        c.wanted_every = c.on_logit_rows ? 3 : 1;
        c.input_scale = cases[i].input_scale;
        c.params.soft_cap = cases[i].params;
        hand_over(visitor, &c);
    }
}

static void list_gate_with(const struct visitor *visitor)
{
    static const struct {
        uint32_t columns, wide, offset;
    } shapes[] = {{1, 3, 2}, {13, 40, 27}, {64, 256, 128}, {1543, 1600, 5}};
    for (uint32_t i = 0; i < COUNT(shapes); i++) {
        struct op_case c = begin(OP_gate_with, shapes[i].columns, shapes[i].columns);
        c.input_columns[1] = shapes[i].wide;
        c.input_scale = i % 2 == 0 ? 1.0f : 12.0f;
        c.params.gate_with =
            (struct gate_with_params){i % 2 == 0 ? GATE_GELU_TANH : GATE_SILU, shapes[i].offset};
        hand_over(visitor, &c);
    }
}

static void list_add_rows(const struct visitor *visitor)
{
    static const uint32_t widths[] = {1, 13, 512, 1543};
    for (uint32_t i = 0; i < COUNT(widths); i++) {
        struct op_case c = begin(OP_add_rows, widths[i], widths[i]);
        c.input_columns[1] = widths[i];
        c.in_place = i % 2 == 0;
        c.params.add_rows.scale = i == 0 ? 1.0f : 0.70710678f;
        hand_over(visitor, &c);
    }
}

static void list_scale_columns(const struct visitor *visitor)
{
    static const uint32_t widths[] = {1, 13, 512, 1543};
    for (uint32_t i = 0; i < COUNT(widths); i++) {
        for (int one = 0; one < 2; one++) {
            struct op_case c = begin(OP_scale_columns, widths[i], widths[i]);
            set_norm_weight(&c, one ? 1 : widths[i]);
            c.in_place = (i + (uint32_t)one) % 2 == 0;
            hand_over(visitor, &c);
        }
    }
}

/* --- mixtures of experts --- */

static void list_moe_route(const struct visitor *visitor)
{
    static const struct {
        uint32_t experts;
        struct moe_route_params params;
        bool scaled;
    } routes[] = {
        {128, {8, false, true, 1.0f}, false}, {8, {2, false, false, 2.5f}, false},
        {5, {5, true, false, 1.0f}, true},    {33, {1, false, false, 1.0f}, false},
        {1, {1, true, false, 1.0f}, false},   {512, {22, true, false, 0.5f}, true},
    };
    for (uint32_t i = 0; i < COUNT(routes); i++) {
        struct op_case c = begin(OP_moe_route, routes[i].experts, 2 * routes[i].params.chosen);
        add_long_step(&c);
        c.input_scale = 6.0f;
        c.params.moe_route = routes[i].params;
        if (routes[i].scaled)
            set_norm_weight(&c, routes[i].experts);
        hand_over(visitor, &c);
    }
}

/* An op with a route: `columns` of x and of the output for one of `chosen` out of `experts`. */
static struct op_case begin_moe(enum op_stem stem, uint32_t columns, uint32_t outputs,
                                uint32_t chosen, uint32_t experts)
{
    bool parts = stem == OP_moe_linear || stem == OP_moe_gate;
    struct op_case c = begin(stem, chosen * columns, parts ? chosen * outputs : outputs);
    c.input_columns[1] = experts;
    c.route = (struct moe_route_params){chosen, false, true, 1.0f};
    return c;
}

static void add_stack(struct op_case *c, uint32_t slot, enum ggml_type type, uint32_t rows,
                      uint32_t columns)
{
    c->weights[slot] = (struct op_trial_weight){type, rows, columns};
}

/* The same x for all chosen experts and two stacks; then a part of x for each, one stack. */
static void list_moe_linear(const struct visitor *visitor)
{
    for (int t = 0; t < GGML_TYPE_END; t++) {
        enum ggml_type type = (enum ggml_type)t;
        if (ggml_type_block(type).elements == 0)
            continue;
        struct op_case c = begin_moe(OP_moe_linear, 256, 48 + 17, 2, 6);
        c.input_columns[0] = 256;
        add_stack(&c, 0, type, 48, 256);
        add_stack(&c, 1, type, 17, 256);
        hand_over(visitor, &c);
        c = begin_moe(OP_moe_linear, 256, 21, 3, 40);
        c.on_logit_rows = t % 2 == 0;
        add_stack(&c, 0, type, 21, 256);
        hand_over(visitor, &c);
    }
    struct op_case c = begin_moe(OP_moe_linear, 45, 19 + 3 + 7, 4, 5);
    add_stack(&c, 0, GGML_BF16, 19, 45);
    add_stack(&c, 1, GGML_F32, 3, 45);
    add_stack(&c, 2, GGML_F16, 7, 45);
    add_long_step(&c);
    hand_over(visitor, &c);
    c = begin_moe(OP_moe_linear, 64, 40, 1, 1);
    add_stack(&c, 0, GGML_Q8_0, 40, 64);
    add_long_step(&c);
    hand_over(visitor, &c);
}

static void list_moe_gate(const struct visitor *visitor)
{
    static const struct {
        uint32_t columns;
        uint32_t chosen;
        uint32_t biases; /* weights */
        struct moe_gate_params params;
    } gates[] = {
        {13, 2, 0, {GATE_SILU, false, 0, 0}},        {512, 1, 0, {GATE_GELU_TANH, false, 0, 0}},
        {33, 3, 2, {GATE_GELU_TANH, false, 0, 0}},   {600, 2, 1, {GATE_SILU, true, 0, 0}},
        {64, 4, 1, {GATE_SILU, true, 7.0f, 1.702f}}, {70, 4, 2, {GATE_SILU, false, 7.0f, 1.702f}},
    };
    for (uint32_t i = 0; i < COUNT(gates); i++) {
        uint32_t columns = gates[i].columns;
        struct op_case c = begin_moe(OP_moe_gate, 2 * columns, columns, gates[i].chosen, 9);
        for (uint32_t w = 0; w < gates[i].biases; w++)
            c.weights[w] =
                (struct op_trial_weight){GGML_F32, 9, gates[i].biases == 2 ? columns : 2 * columns};
        c.input_scale = 12.0f;
        c.params.moe_gate = gates[i].params;
        hand_over(visitor, &c);
    }
}

static void list_moe_combine(const struct visitor *visitor)
{
    static const uint32_t widths[] = {1, 37, 640};
    for (uint32_t i = 0; i < COUNT(widths); i++) {
        for (uint32_t variant = 0; variant < 4; variant++) {
            struct op_case c = begin_moe(OP_moe_combine, widths[i], widths[i], 1 + variant, 7);
            c.params.moe_combine.add = variant / 2 == 1;
            if (c.params.moe_combine.add)
                c.input_columns[OP_TRIAL_INPUTS - 1] = widths[i];
            if (variant % 2 == 1)
                c.weights[0] = (struct op_trial_weight){GGML_BF16, 7, widths[i]};
            hand_over(visitor, &c);
        }
    }
}

static void list_moe_shared(const struct visitor *visitor)
{
    static const uint32_t widths[] = {1, 37, 640};
    for (uint32_t i = 0; i < COUNT(widths); i++) {
        struct op_case c = begin(OP_moe_shared, widths[i], widths[i]);
        c.input_columns[1] = 1;
        c.input_columns[OP_TRIAL_INPUTS - 1] = widths[i];
        c.input_scale = i == 1 ? 100.0f : 3.0f; /* scores to where exp() ends */
        hand_over(visitor, &c);
    }
}

/* --- streams --- */

static const uint32_t stream_widths[] = {1, 13, 64, 700};

static struct op_case begin_streams(enum op_stem stem, uint32_t x, uint32_t y, uint32_t out)
{
    struct op_case c = begin(stem, x, out);
    c.input_columns[1] = y;
    return c;
}

static void list_stream_take(const struct visitor *visitor)
{
    for (uint32_t i = 0; i < COUNT(stream_widths); i++) {
        uint32_t width = stream_widths[i];
        struct op_case c = begin_streams(OP_stream_take, 3 * width, 0, width);
        c.params.stream_take.stream = i % 3;
        hand_over(visitor, &c);
    }
}

static void list_stream_mix(const struct visitor *visitor)
{
    for (uint32_t i = 0; i < COUNT(stream_widths); i++) {
        uint32_t streams = i % 2 == 0 ? 4 : 3, wide = streams * stream_widths[i];
        struct op_case c = begin_streams(OP_stream_mix, wide, streams * streams, wide);
        c.params.stream_mix.streams = streams;
        hand_over(visitor, &c);
    }
}

static void list_stream_correct(const struct visitor *visitor)
{
    for (uint32_t i = 0; i < COUNT(stream_widths); i++) {
        uint32_t streams = i % 2 == 0 ? 4 : 3, wide = streams * stream_widths[i];
        struct op_case c = begin_streams(OP_stream_correct, stream_widths[i], streams, wide);
        c.params.stream_correct.streams = streams;
        c.input_columns[OP_TRIAL_INPUTS - 1] = wide;
        hand_over(visitor, &c);
    }
}

static void list_stream_add(const struct visitor *visitor)
{
    for (uint32_t i = 0; i < COUNT(stream_widths); i++) {
        struct op_case c = begin_streams(OP_stream_add, stream_widths[i], 0, 4 * stream_widths[i]);
        c.params.stream_add.first = i % 3;
        c.input_columns[OP_TRIAL_INPUTS - 1] = 4 * stream_widths[i];
        hand_over(visitor, &c);
    }
}

static void list_stream_match(const struct visitor *visitor)
{
    for (uint32_t i = 0; i < COUNT(stream_widths); i++) {
        uint32_t width = stream_widths[i];
        struct op_case c = begin_streams(OP_stream_match, 3 * width, width, 2 * width);
        c.params.stream_match = (struct stream_match_params){i % 3, i % 2, i >= 2};
        c.input_scale = i == 1 ? 1e-4f : 1.0f; /* below the least magnitude */
        c.input_columns[OP_TRIAL_INPUTS - 1] = 2 * width;
        hand_over(visitor, &c);
    }
}

static void list_stream_cut(const struct visitor *visitor)
{
    for (uint32_t i = 0; i < COUNT(stream_widths); i++) {
        uint32_t wide = 2 * stream_widths[i];
        struct op_case c = begin_streams(OP_stream_cut, wide, 0, wide);
        c.params.stream_cut = (struct stream_cut_params){2, i == 2 ? 0.0f : 0.75f};
        c.in_place = true;
        hand_over(visitor, &c);
    }
}

void op_case_list_visit(enum op_stem stem, op_case_visit_fn *visit, void *context)
{
    static void (*const lists[OP_STEM_COUNT])(const struct visitor *) = {
#define LIST(stem, ...) [OP_##stem] = list_##stem,
        OP_LIST(LIST)
#undef LIST
    };
    must(stem < OP_STEM_COUNT);
    lists[stem](&(struct visitor){visit, context});
}
