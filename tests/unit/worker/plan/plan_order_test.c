/*
 * The plans of both families, op by op, for two layers: what is fused, what is gathered, and that
 * every cache is written before it is read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/tiny_checkpoint.h"

static struct tiny_checkpoint tiny;

static void assert_ops(const struct plan *plan, const enum op_stem *stems, size_t count)
{
    assert_int_equal(plan->op_count, count);
    for (size_t i = 0; i < count; i++)
        if (plan->ops[i].stem != stems[i])
            fail_msg("op %zu is %s, not %s", i, op_stem_name(plan->ops[i].stem),
                     op_stem_name(stems[i]));
}

static void test_llama(void **state)
{
    (void)state;
    static const enum op_stem stems[] = {
        OP_embed_rows,
        /* layer 0 */
        OP_rms_norm, OP_linear, OP_rope, OP_rope, OP_kv_write, OP_attention, OP_linear_add,
        OP_rms_norm, OP_linear, OP_gate, OP_linear_add,
        /* the last layer: logit rows part ways after attention */
        OP_rms_norm, OP_linear, OP_rope, OP_rope, OP_kv_write, OP_attention, OP_gather_rows,
        OP_gather_rows, OP_linear_add, OP_rms_norm, OP_linear, OP_gate, OP_linear_add,
        /* the head */
        OP_rms_norm, OP_linear};
    tiny_checkpoint_init_llama(&tiny, 2);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    const struct plan *plan = model_plan(model);
    assert_ops(plan, stems, sizeof stems / sizeof stems[0]);

    const struct plan_op *qkv = &plan->ops[2];
    assert_string_equal(plan->weights[qkv->weights[0]].name, "blk.0.attn_q.weight");
    assert_string_equal(plan->weights[qkv->weights[1]].name, "blk.0.attn_k.weight");
    assert_string_equal(plan->weights[qkv->weights[2]].name, "blk.0.attn_v.weight");
    assert_int_equal(plan->tensors[qkv->output].columns, (4 + 2 * 2) * 4);
    const struct plan_op *gate_up = &plan->ops[9];
    assert_string_equal(plan->weights[gate_up->weights[0]].name, "blk.0.ffn_gate.weight");
    assert_string_equal(plan->weights[gate_up->weights[1]].name, "blk.0.ffn_up.weight");
    assert_int_equal(plan->ops[10].params.gate.activation, GATE_SILU);

    const struct plan_op *head = &plan->ops[plan->op_count - 1];
    assert_int_equal(head->weights[0], plan->ops[0].weights[0]); /* tied */
    assert_int_equal(head->output, plan->logits);
    assert_int_equal(plan->tensors[plan->logits].rows, PLAN_ROWS_LOGITS);
    assert_int_equal(plan->tensors[plan->logits].columns, 8);
    model_close(model);
}

static void test_llama_of_one_layer(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_tensor(&tiny, "output.weight", 16, 8);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    const struct plan *plan = model_plan(model);
    const struct plan_op *head = &plan->ops[plan->op_count - 1];
    assert_int_equal(plan->op_count, 16);
    assert_string_equal(plan->weights[head->weights[0]].name, "output.weight");
    model_close(model);
}

static void test_gemma3(void **state)
{
    (void)state;
    static const enum op_stem stems[] = {
        OP_embed_rows,   OP_rms_norm, OP_linear,       OP_head_norm, OP_head_norm,
        OP_rope,         OP_rope,     OP_kv_write,     OP_attention, OP_linear,
        OP_rms_norm_add, OP_rms_norm, OP_linear,       OP_gate,      OP_linear,
        OP_rms_norm_add, OP_rms_norm, OP_linear,       OP_head_norm, OP_head_norm,
        OP_rope,         OP_rope,     OP_kv_write,     OP_attention, OP_gather_rows,
        OP_gather_rows,  OP_linear,   OP_rms_norm_add, OP_rms_norm,  OP_linear,
        OP_gate,         OP_linear,   OP_rms_norm_add, OP_rms_norm,  OP_linear};
    tiny_checkpoint_init_gemma3(&tiny, 2);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    const struct plan *plan = model_plan(model);
    assert_ops(plan, stems, sizeof stems / sizeof stems[0]);
    assert_string_equal(plan->weights[plan->ops[3].weights[0]].name, "blk.0.attn_q_norm.weight");
    assert_int_equal(plan->ops[3].params.head_norm.slice.offset, 0);
    assert_string_equal(plan->weights[plan->ops[4].weights[0]].name, "blk.0.attn_k_norm.weight");
    assert_int_equal(plan->ops[4].params.head_norm.slice.offset, 16);
    assert_int_equal(plan->ops[8].params.attention.window, 8);
    assert_int_equal(plan->ops[13].params.gate.activation, GATE_GELU_TANH);
    model_close(model);
}

/* The file's tensors are used in place, not copied. */
static void test_weights_lie_in_the_file(void **state)
{
    (void)state;
    tiny_checkpoint_init_gemma3(&tiny, 2);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    const struct plan *plan = model_plan(model);
    assert_int_equal(plan->weight_count, tiny.tensor_count);
    for (uint32_t i = 0; i < plan->weight_count; i++) {
        const uint8_t *data = plan->weights[i].data;
        assert_true(data > tiny.file.bytes);
        assert_true(data + plan->weights[i].data_bytes <= tiny.file.bytes + tiny.file.byte_count);
    }
    model_close(model);
}

/* Vectors do not count; every matrix of a stack does. */
static void test_bits_a_weight(void **state)
{
    (void)state;
    char types[64], cut[4];
    struct plan_weight weights[] = {
        {.type = GGML_Q4_0, .rows = 96, .columns = 64},
        {.type = GGML_Q8_0, .rows = 8, .columns = 64, .experts = 4},
        {.type = GGML_F32, .rows = 1, .columns = 64},
    };
    struct plan plan = {.weight_count = 3, .weights = weights};
    assert_true(plan_weight_bits(&plan) == 4.5 * 0.75 + 8.5 * 0.25);
    plan_weight_types(&plan, types, sizeof types);
    assert_string_equal(types, "Q4_0 75.0 %, Q8_0 25.0 %");
    plan_weight_types(&plan, cut, sizeof cut);
    assert_string_equal(cut, "Q4_");
    plan.weight_count = 0;
    assert_true(plan_weight_bits(&plan) == 0.0);
    plan_weight_types(&plan, types, sizeof types);
    assert_string_equal(types, "");
}

/* Types that are kept as they are stored have the bits of the file. */
static void test_bits_of_native_types(void **state)
{
    static const struct {
        enum ggml_type type;
        double bits;
    } cases[] = {{GGML_IQ4_NL, 4.5},  {GGML_IQ4_XS, 4.25}, {GGML_MXFP4, 4.25}, {GGML_NVFP4, 4.5},
                 {GGML_F8_128, 8.25}, {GGML_Q4_K, 4.5},    {GGML_A4_64, 4.5},  {GGML_A4_128, 4.25},
                 {GGML_A6_64, 6.5},   {GGML_Z4_128, 4.25}, {GGML_A5_64, 5.5},  {GGML_A6, 7.0},
                 {GGML_A3, 4.0},      {GGML_A2, 3.0},      {GGML_Z4, 5.0},     {GGML_Z8, 9.0},
                 {GGML_NF4_64, 4.5}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plan_weight weight = {.type = cases[i].type, .rows = 32, .columns = 256};
        const struct plan plan = {.weight_count = 1, .weights = &weight};
        assert_true(plan_weight_bits(&plan) == cases[i].bits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_a_weight), cmocka_unit_test(test_bits_of_native_types),
        cmocka_unit_test(test_llama),         cmocka_unit_test(test_llama_of_one_layer),
        cmocka_unit_test(test_gemma3),        cmocka_unit_test(test_weights_lie_in_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
