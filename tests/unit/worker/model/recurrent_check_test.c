/*
 * plan_op_check() on the ops of recurrent layers, of attention with an output gate and of an expert
 * that every row uses: those of tiny qwen3_5, qwen3_5_moe, lfm2 and falcon_h1 checkpoints pass, and each
 * is refused after one change.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/plan_lookup.h"
#include "worker/model/model.h"
#include "worker/plan/plan_check.h"

static struct model *model;
static const struct plan *plan;

static void open_form(const char *path)
{
    struct error_text error = {""};
    if (model_open(path, &model, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    plan = model_plan(model);
}

static int open_qwen3_5(void **state)
{
    (void)state;
    open_form("build/checkpoints/qwen3_5-f32.gguf");
    return 0;
}

static int open_qwen3_5_moe(void **state)
{
    (void)state;
    open_form("build/checkpoints/qwen3_5_moe-f32.gguf");
    return 0;
}

static int open_lfm2(void **state)
{
    (void)state;
    open_form("build/checkpoints/lfm2-f32");
    return 0;
}

static int open_falcon_h1(void **state)
{
    (void)state;
    open_form("build/checkpoints/falcon_h1-f32");
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    model_close(model);
    return 0;
}

static uint32_t attention_layer(void)
{
    uint32_t layer = 0;
    while (plan->config.layer[layer].kind != LAYER_ATTENTION)
        layer++;
    return layer;
}

static void refuse(struct plan_op op, const char *words)
{
    struct error_text error = {""};
    if (plan_op_check(plan, &op, 3, &error) == RESULT_OK)
        fail_msg("%s accepted: %s", op_stem_name(op.stem), words);
    if (!strstr(error.text, words) || !strstr(error.text, op_stem_name(op.stem)))
        fail_msg("\"%s\" lacks \"%s\"", error.text, words);
}

static void test_all_ops_pass(void **state)
{
    (void)state;
    struct error_text error = {""};
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (plan_op_check(plan, &plan->ops[i], i, &error) != RESULT_OK)
            fail_msg("%s", error.text);
}

static void test_short_conv(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_short_conv);
    op.params.short_conv.layer = attention_layer();
    refuse(op, "keeps no state");
    op.params.short_conv.layer = plan->config.layers;
    refuse(op, "no such layer");
    op.params.short_conv.layer = UINT32_MAX;
    refuse(op, "no such layer");
    op = plan_lookup_op(plan, OP_short_conv);
    op.params.short_conv.form =
        op.params.short_conv.form == SHORT_CONV_GATED ? SHORT_CONV_SILU : SHORT_CONV_GATED;
    if (op.params.short_conv.form == SHORT_CONV_GATED)
        refuse(op, "columns do not fit");
    op = plan_lookup_op(plan, OP_short_conv);
    op.weights[0] = plan_lookup_op(plan, OP_rms_norm).weights[0];
    refuse(op, "taps");
    op = plan_lookup_op(plan, OP_short_conv);
    op.output = op.inputs[0];
    refuse(op, "taps"); /* the input is wider */
    op = plan_lookup_op(plan, OP_short_conv);
    op.inputs[0] = plan_lookup_op(plan, OP_embed_rows).output;
    refuse(op, "columns do not fit");
}

static void test_gated_delta(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_gated_delta);
    op.params.gated_delta.layer = attention_layer();
    refuse(op, "keeps no state");
    op = plan_lookup_op(plan, OP_gated_delta);
    op.params.gated_delta.key_heads = 3;
    refuse(op, "evenly");
    op.params.gated_delta.key_heads = 0;
    refuse(op, "evenly");
    op = plan_lookup_op(plan, OP_gated_delta);
    op.params.gated_delta.key_dim = LIMIT_HEAD_DIM + 1;
    refuse(op, "range");
    op = plan_lookup_op(plan, OP_gated_delta);
    op.params.gated_delta.key_dim--;
    refuse(op, "another shape");
    op = plan_lookup_op(plan, OP_gated_delta);
    op.inputs[1] = op.inputs[0];
    refuse(op, "two values");
    op = plan_lookup_op(plan, OP_gated_delta);
    op.weights[1] = plan_lookup_op(plan, OP_rms_norm).weights[0];
    refuse(op, "one value per value head");
    op = plan_lookup_op(plan, OP_gated_delta);
    op.output = plan_lookup_op(plan, OP_embed_rows).output;
    refuse(op, "another tensor");
}

static void test_head_norm_gate(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_head_norm_gate);
    op.params.head_norm_gate.gates.offset++;
    refuse(op, "slice");
    op = plan_lookup_op(plan, OP_head_norm_gate);
    op.params.head_norm_gate.gates.heads--;
    refuse(op, "slice");
    op = plan_lookup_op(plan, OP_head_norm_gate);
    op.params.head_norm_gate.epsilon = 0.0f;
    refuse(op, "epsilon");
    op = plan_lookup_op(plan, OP_head_norm_gate);
    op.weights[0] = plan_lookup_op(plan, OP_rms_norm).weights[0];
    refuse(op, "weight");
    op = plan_lookup_op(plan, OP_head_norm_gate);
    op.output = plan_lookup_op(plan, OP_embed_rows).output;
    refuse(op, "shape");
}

static void test_gated_heads(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_take_queries);
    op.params.take_queries.heads++;
    refuse(op, "without the gates");
    op.params.take_queries.heads = 0;
    refuse(op, "without the gates");
    op = plan_lookup_op(plan, OP_gate_heads);
    op.params.gate_heads.head_dim++;
    refuse(op, "heads");
    op = plan_lookup_op(plan, OP_gate_heads);
    op.inputs[0] = op.inputs[1];
    refuse(op, "heads");
    op = plan_lookup_op(plan, OP_gate_heads);
    op.output = plan_lookup_op(plan, OP_embed_rows).output;
    if (plan->tensors[op.output].columns != plan->tensors[op.inputs[1]].columns)
        refuse(op, "shape");
}

static void test_caches_of_recurrent_layers(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_kv_write);
    op.params.kv_write.layer = 0;
    refuse(op, "keeps no keys");
    op = plan_lookup_op(plan, OP_attention);
    op.params.attention.layer = 0;
    refuse(op, "keeps no keys");
}

static void test_moe_shared(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_moe_shared);
    op.inputs[0] = op.output;
    refuse(op, "another tensor");
    op = plan_lookup_op(plan, OP_moe_shared);
    op.inputs[0] = op.inputs[1];
    refuse(op, "shape");
    op = plan_lookup_op(plan, OP_moe_shared);
    op.inputs[1] = op.inputs[0];
    refuse(op, "not one value per row");
    op = plan_lookup_op(plan, OP_moe_shared);
    op.inputs[1] = op.output;
    refuse(op, "not one value per row");
}

static void test_biased_conv(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_short_conv);
    op.params.short_conv.offset += 7 + plan->tensors[op.inputs[0]].columns;
    refuse(op, "columns do not fit");
    op.params.short_conv.offset = UINT32_MAX;
    refuse(op, "columns do not fit");
    op = plan_lookup_op(plan, OP_short_conv);
    op.weights[1] = plan_lookup_op(plan, OP_rms_norm).weights[0];
    refuse(op, "one value per channel");
}

static void test_ssm_scan(void **state)
{
    (void)state;
    const struct plan_op whole = plan_lookup_op(plan, OP_ssm_scan);
    struct plan_op op = whole;
    op.params.ssm_scan.layer = plan->config.layers;
    refuse(op, "no such layer");
    op = whole;
    op.params.ssm_scan.groups = 0;
    refuse(op, "evenly");
    op.params.ssm_scan.groups = 4;
    refuse(op, "evenly");
    op = whole;
    op.params.ssm_scan.state = LIMIT_HEAD_DIM + 1;
    refuse(op, "range");
    op = whole;
    op.params.ssm_scan.state--;
    refuse(op, "another shape");
    op = whole;
    op.params.ssm_scan.least_step = 2.0f;
    op.params.ssm_scan.most_step = 1.0f;
    refuse(op, "order");
    op.params.ssm_scan.most_step = NAN;
    refuse(op, "order");
    op = whole;
    op.params.ssm_scan.steps_offset++;
    refuse(op, "a step per head");
    op.params.ssm_scan.steps_offset = UINT32_MAX;
    refuse(op, "a step per head");
    op = whole;
    op.inputs[0] = op.inputs[1];
    refuse(op, "a step per head");
    op = whole;
    op.weights[2] = plan_lookup_op(plan, OP_rms_norm).weights[0];
    refuse(op, "one value per head");
    op = whole;
    op.output = op.inputs[1];
    refuse(op, "another tensor");
}

static void test_group_norm_gate(void **state)
{
    (void)state;
    const struct plan_op whole = plan_lookup_op(plan, OP_group_norm_gate);
    struct plan_op op = whole;
    op.params.group_norm_gate.gates.heads--;
    refuse(op, "slice");
    op = whole;
    op.params.group_norm_gate.gates.offset = plan->tensors[op.inputs[1]].columns;
    refuse(op, "slice");
    op = whole;
    op.params.group_norm_gate.epsilon = 0.0f;
    refuse(op, "epsilon");
    op = whole;
    op.weights[0] = plan_lookup_op(plan, OP_rms_norm).weights[0];
    refuse(op, "weight");
    op = whole;
    op.output = op.inputs[0];
    refuse(op, "overwrites");
    op = whole;
    op.output = op.inputs[1];
    refuse(op, "shape");
}

static void test_scale_parts(void **state)
{
    (void)state;
    const struct plan_op whole = plan_lookup_op(plan, OP_scale_parts);
    struct plan_op op = whole;
    op.params.scale_parts.count = 0;
    refuse(op, "no parts");
    op.params.scale_parts.count = SCALE_PARTS_MAX + 1;
    refuse(op, "too many");
    op = whole;
    op.params.scale_parts.columns[0]++;
    refuse(op, "all columns");
    op.params.scale_parts.columns[0] = UINT32_MAX;
    refuse(op, "all columns");
    op = whole;
    op.params.scale_parts.scales[1] = INFINITY;
    refuse(op, "finite");
}

int main(void)
{
    const struct CMUnitTest qwen3_5[] = {
        cmocka_unit_test(test_all_ops_pass), cmocka_unit_test(test_short_conv),
        cmocka_unit_test(test_gated_delta),  cmocka_unit_test(test_head_norm_gate),
        cmocka_unit_test(test_gated_heads),  cmocka_unit_test(test_caches_of_recurrent_layers),
    };
    const struct CMUnitTest qwen3_5_moe[] = {
        cmocka_unit_test(test_all_ops_pass),
        cmocka_unit_test(test_moe_shared),
    };
    const struct CMUnitTest lfm2[] = {
        cmocka_unit_test(test_all_ops_pass),
        cmocka_unit_test(test_short_conv),
        cmocka_unit_test(test_caches_of_recurrent_layers),
    };
    const struct CMUnitTest falcon_h1[] = {
        cmocka_unit_test(test_all_ops_pass), cmocka_unit_test(test_biased_conv),
        cmocka_unit_test(test_ssm_scan),     cmocka_unit_test(test_group_norm_gate),
        cmocka_unit_test(test_scale_parts),
    };
    int failed = cmocka_run_group_tests(qwen3_5, open_qwen3_5, close_model);
    failed += cmocka_run_group_tests(qwen3_5_moe, open_qwen3_5_moe, close_model);
    failed += cmocka_run_group_tests(lfm2, open_lfm2, close_model);
    return failed + cmocka_run_group_tests(falcon_h1, open_falcon_h1, close_model);
}
