/*
 * Every rule of plan_op_check(): a plan that passes is broken in one place, and the op is rejected.
 * The base is Gemma's plan, which has all stems except linear_add; llama's has that one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/plan_lookup.h"
#include "tests/support/tiny_checkpoint.h"
#include "worker/plan/plan_check.h"

static struct tiny_checkpoint tiny;
static struct model *model;
static const struct plan *plan;

static int open_gemma3(void **state)
{
    (void)state;
    tiny_checkpoint_init_gemma3(&tiny, 2);
    model = tiny_checkpoint_must_open(&tiny);
    plan = model_plan(model);
    return 0;
}

static int open_llama(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 2);
    model = tiny_checkpoint_must_open(&tiny);
    plan = model_plan(model);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    model_close(model);
    return 0;
}

static void accept(const struct plan_op *op)
{
    struct error_text error = {""};
    if (plan_op_check(plan, op, 0, &error) != RESULT_OK)
        fail_msg("%s", error.text);
}

static void refuse(const struct plan_op *op, const char *words)
{
    struct error_text error = {""};
    if (plan_op_check(plan, op, 3, &error) == RESULT_OK)
        fail_msg("%s accepted: %s", op_stem_name(op->stem), words);
    if (!strstr(error.text, words) || !strstr(error.text, op_stem_name(op->stem)))
        fail_msg("\"%s\" lacks \"%s\"", error.text, words);
}

static void test_all_ops_pass(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < plan->op_count; i++)
        accept(&plan->ops[i]);
}

static void test_ids(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_rms_norm);
    op.inputs[0] = (plan_tensor_id)plan->tensor_count;
    refuse(&op, "inputs");
    op = plan_lookup_op(plan, OP_rms_norm);
    op.inputs[1] = 0;
    refuse(&op, "inputs");
    op = plan_lookup_op(plan, OP_rms_norm);
    op.weights[0] = PLAN_NONE;
    refuse(&op, "weights");
    op = plan_lookup_op(plan, OP_rms_norm);
    op.weights[1] = op.weights[0];
    refuse(&op, "weights");
    op = plan_lookup_op(plan, OP_linear);
    op.weights[0] = PLAN_NONE; /* a hole before q and k */
    refuse(&op, "weights");
    op = plan_lookup_op(plan, OP_linear);
    op.weights[2] = (plan_weight_id)plan->weight_count;
    refuse(&op, "weights");
    op = plan_lookup_op(plan, OP_gate);
    op.output = PLAN_NONE;
    refuse(&op, "output");
    op = plan_lookup_op(plan, OP_kv_write);
    op.output = op.inputs[0];
    refuse(&op, "output");
    struct error_text error;
    op.stem = OP_STEM_COUNT;
    assert_int_equal(plan_op_check(plan, &op, 0, &error), RESULT_INVALID);
}

static void test_norms(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_rms_norm);
    op.output = op.inputs[0];
    accept(&op);
    op.output = plan_lookup_tensor(plan, PLAN_ROWS_LOGITS, 16);
    refuse(&op, "shape");
    op = plan_lookup_op(plan, OP_rms_norm);
    op.weights[0] = plan_lookup_op(plan, OP_head_norm).weights[0];
    refuse(&op, "weight");
    op = plan_lookup_op(plan, OP_rms_norm);
    op.params.rms_norm.epsilon = NAN;
    refuse(&op, "epsilon");
    op = plan_lookup_op(plan, OP_rms_norm);
    op.stem = OP_layer_norm;
    op.params.layer_norm = (struct layer_norm_params){1e-5f, 0.0f};
    accept(&op);
    op.params.layer_norm.epsilon = 0;
    refuse(&op, "epsilon");
    op.params.layer_norm.epsilon = 1e-5f;
    op.output = plan_lookup_tensor(plan, PLAN_ROWS_LOGITS, 16);
    refuse(&op, "shape");
    op = plan_lookup_op(plan, OP_rms_norm_add);
    op.inputs[0] = op.output;
    refuse(&op, "overwrites");
    op = plan_lookup_op(plan, OP_rms_norm_add);
    op.params.rms_norm_add.epsilon = 0;
    refuse(&op, "epsilon");
    op = plan_lookup_op(plan, OP_head_norm);
    op.weights[0] = PLAN_NONE;
    accept(&op);
    op = plan_lookup_op(plan, OP_head_norm);
    op.params.head_norm.slice.offset = 32 - 15;
    refuse(&op, "slice");
    op = plan_lookup_op(plan, OP_head_norm);
    op.params.head_norm.slice.offset = UINT32_MAX;
    refuse(&op, "slice");
    op = plan_lookup_op(plan, OP_head_norm);
    op.params.head_norm.slice.heads = UINT32_MAX;
    refuse(&op, "slice");
    op = plan_lookup_op(plan, OP_head_norm);
    op.output = plan_lookup_op(plan, OP_attention).output;
    refuse(&op, "in place");
}

/* No plan here has these: they are made of its tensors. */
static void test_elementwise(void **state)
{
    (void)state;
    const struct plan_op norm = plan_lookup_op(plan, OP_rms_norm),
                         gate = plan_lookup_op(plan, OP_gate);
    struct plan_op with = {.stem = OP_gate_with,
                           .inputs = {gate.output, gate.inputs[0]},
                           .output = gate.output,
                           .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE}};
    with.params.gate_with.offset = plan->tensors[gate.output].columns;
    accept(&with);
    with.params.gate_with.offset++;
    refuse(&with, "outside");
    with.params.gate_with.offset = 0;
    with.inputs[1] = with.output;
    refuse(&with, "not another tensor");
    struct plan_op add = {.stem = OP_add_rows,
                          .inputs = {norm.inputs[0], norm.output},
                          .output = norm.output,
                          .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE}};
    add.params.add_rows.scale = 1.0f;
    accept(&add);
    add.params.add_rows.scale = INFINITY;
    refuse(&add, "scale");
    add.inputs[1] = gate.inputs[0];
    refuse(&add, "shape");
    struct plan_op scale = {.stem = OP_scale_columns,
                            .inputs = {norm.output, PLAN_NONE},
                            .output = norm.output,
                            .weights = {norm.weights[0], PLAN_NONE, PLAN_NONE}};
    accept(&scale);
    scale.weights[0] = plan_lookup_op(plan, OP_head_norm).weights[0];
    refuse(&scale, "the weight is neither one value nor one value per column");
    struct plan_op clip = {.stem = OP_clip_columns,
                           .inputs = {gate.output, PLAN_NONE},
                           .output = gate.inputs[0],
                           .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE}};
    clip.params.clip_columns = (struct clip_columns_params){
        .offset = plan->tensors[gate.output].columns, .minimum = -INFINITY, .maximum = 0.5f};
    accept(&clip);
    clip.params.clip_columns.offset++;
    refuse(&clip, "outside");
    clip.params.clip_columns.offset = 0;
    clip.params.clip_columns.stride = 2;
    accept(&clip);
    clip.params.clip_columns.offset = 2;
    refuse(&clip, "outside");
    clip.params.clip_columns.offset = 0;
    clip.params.clip_columns.stride = 0;
    clip.params.clip_columns.minimum = 0.75f;
    refuse(&clip, "the minimum is above the maximum");
    clip.params.clip_columns.minimum = NAN;
    refuse(&clip, "the minimum is above the maximum");
}

/* This plan has no rows of sounds. */
static void test_sounds(void **state)
{
    (void)state;
    const struct plan_op norm = plan_lookup_op(plan, OP_rms_norm);
    struct plan_op op = {.stem = OP_sound_rows,
                         .inputs = {PLAN_NONE, PLAN_NONE},
                         .output = norm.output,
                         .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE}};
    refuse(&op, "it is not for rows of sounds");
    op.stem = OP_sound_taps;
    op.inputs[0] = norm.inputs[0];
    refuse(&op, "it is not for rows of sounds");
}

/* Nor maps. */
static void test_maps(void **state)
{
    (void)state;
    const struct plan_op norm = plan_lookup_op(plan, OP_rms_norm);
    uint32_t columns = plan->tensors[norm.output].columns;
    struct plan_op op = norm;
    op.stem = OP_conv_2d;
    op.params.conv_2d = (struct conv_2d_params){{1, 1, columns}, {1, 1, columns}, 1, 1, 0, 0};
    refuse(&op, "not another tensor of patches");
    op.stem = OP_near_attention;
    refuse(&op, "it is for rows of sounds");
    op.stem = OP_conv_depthwise;
    op.params.conv_depthwise.shape =
        (struct conv_2d_params){{1, 1, columns}, {1, 1, 1}, 1, 1, 0, 0};
    refuse(&op, "differ in channels");
    op.stem = OP_embed_over;
    op.inputs[0] = PLAN_NONE;
    op.output = plan_lookup_op(plan, OP_linear).output;
    refuse(&op, "as wide as the output");
    op = norm;
    op.stem = OP_part_norm;
    op.inputs[0] = op.output;
    op.params.part_norm = (struct part_norm_params){0, 1e-5f};
    refuse(&op, "no such parts");
    op.params.part_norm = (struct part_norm_params){1, 0.0f};
    refuse(&op, "epsilon");
    op.params.part_norm = (struct part_norm_params){2, 1e-5f};
    refuse(&op, "the normalized columns");
}

static void test_cross_attention(void **state)
{
    (void)state;
    const struct plan_op norm = plan_lookup_op(plan, OP_rms_norm);
    uint32_t columns = plan->tensors[norm.output].columns;
    struct plan_op op = {.stem = OP_cross_attention,
                         .inputs = {norm.inputs[0], PLAN_NONE},
                         .output = norm.output,
                         .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                         .params.cross_attention = {{0, 2, columns / 2}, 2, 0, 0.5f}};
    refuse(&op, "attends to no features");
    op.params.cross_attention.scale = NAN;
    refuse(&op, "attends to no features");
    op.params.cross_attention.kv_heads = 0;
    refuse(&op, "share keys");
    op.params.cross_attention.queries.offset = 1;
    refuse(&op, "outside the input");
    op.output = op.inputs[0];
    refuse(&op, "another output");
    struct plan_op seeing = {.stem = OP_seeing_rows,
                             .inputs = {norm.output, PLAN_NONE},
                             .output = norm.output,
                             .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE}};
    refuse(&seeing, "attends to features");
    const struct plan *whole = plan;
    struct plan crossed = *plan;
    crossed.config.crossed_layers = 1;
    plan = &crossed;
    accept(&seeing);
    seeing.inputs[0] = seeing.output = plan->logits;
    refuse(&seeing, "step rows");
    plan = whole;
}

/* This plan has no rows of canvases. */
static void test_patch_table(void **state)
{
    (void)state;
    const struct plan_op norm = plan_lookup_op(plan, OP_rms_norm);
    struct plan_op op = {.stem = OP_patch_table,
                         .inputs = {norm.output, PLAN_NONE},
                         .output = norm.output,
                         .weights = {norm.weights[0], PLAN_NONE, PLAN_NONE},
                         .params.patch_table = {.scale = 1.0f, .leads = true}};
    refuse(&op, "rows of canvases");
    const enum plan_rows rows = plan->tensors[norm.output].rows;
    const struct plan *whole = plan;
    struct plan tower = *plan;
    tower.tensors[norm.output].rows = PLAN_ROWS_PATCHES;
    tower.vision.canvas_tiles = tower.vision.canvas_side = 2;
    plan = &tower;
    accept(&op);
    op.params.patch_table.scale = NAN;
    refuse(&op, "not finite");
    op.params.patch_table.leads = false;
    refuse(&op, "takes part");
    op.params.patch_table.tiles = true;
    refuse(&op, "for each tile and place");
    op.params.patch_table.places = 4;
    refuse(&op, "no places");
    tower.tensors[norm.output].rows = rows;
    plan = whole;
}

static void test_rope(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_rope);
    op.params.rope.rope = plan->config.rope_count;
    refuse(&op, "rotary");
    op = plan_lookup_op(plan, OP_rope);
    op.params.rope.slice = (struct column_slice){0, 8, 2};
    refuse(&op, "dimensions");
    op = plan_lookup_op(plan, OP_rope);
    op.params.rope.slice.heads = 9;
    refuse(&op, "slice");
    op = plan_lookup_op(plan, OP_rope);
    op.inputs[0] = op.output = plan_lookup_tensor(plan, PLAN_ROWS_LOGITS, 16);
    refuse(&op, "positions");
}

/* Made of a norm, whose weight is a vector too. */
static void test_bias_add(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_rms_norm);
    op.stem = OP_bias_add;
    op.output = op.inputs[0];
    accept(&op);
    op.weights[1] = op.weights[0];
    refuse(&op, "add up");
    op = plan_lookup_op(plan, OP_linear);
    op.stem = OP_bias_add;
    op.output = op.inputs[0];
    refuse(&op, "not one row");
    op = plan_lookup_op(plan, OP_rms_norm);
    op.stem = OP_bias_add;
    op.output = plan_lookup_op(plan, OP_linear).inputs[0];
    refuse(&op, "in place");
}

static void test_position_scale(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_rope);
    struct column_slice slice = op.params.rope.slice;
    op.stem = OP_position_scale;
    op.params.position_scale = (struct position_scale_params){slice, 16, 0.1f};
    accept(&op);
    struct plan_op broken = op;
    broken.params.position_scale.period_tokens = 0;
    refuse(&broken, "period");
    broken = op;
    broken.params.position_scale.beta = NAN;
    refuse(&broken, "beta");
    broken = op;
    broken.params.position_scale.slice.heads = 100;
    refuse(&broken, "slice");
    broken = op;
    broken.inputs[0] = broken.output = plan_lookup_tensor(plan, PLAN_ROWS_LOGITS, 16);
    refuse(&broken, "positions");
}

static void test_linear(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_linear);
    op.weights[2] = PLAN_NONE;
    refuse(&op, "add up");
    op = plan_lookup_op(plan, OP_linear);
    op.inputs[0] = plan_lookup_tensor(plan, PLAN_ROWS_STEP, 20);
    refuse(&op, "columns");
    op = plan_lookup_op(plan, OP_linear);
    op.inputs[0] = plan_lookup_tensor(plan, PLAN_ROWS_LOGITS, 16);
    refuse(&op, "rows");
}

static void test_linear_add(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_linear_add);
    accept(&op);
    op.inputs[0] = op.inputs[1];
    refuse(&op, "one tensor");
    op = plan_lookup_op(plan, OP_linear_add);
    op.inputs[1] = plan_lookup_tensor(plan, PLAN_ROWS_STEP, 20);
    refuse(&op, "shape");
    op = plan_lookup_op(plan, OP_linear_add);
    op.output = op.inputs[0];
    refuse(&op, "overwrites");
}

static void test_caches(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_kv_write);
    op.params.kv_write.layer = 2;
    refuse(&op, "layer");
    op = plan_lookup_op(plan, OP_kv_write);
    op.params.kv_write.values.heads = 1;
    refuse(&op, "cache");
    op = plan_lookup_op(plan, OP_kv_write);
    op.params.kv_write.values.offset = 25;
    refuse(&op, "slice");
    op = plan_lookup_op(plan, OP_attention);
    op.params.attention.window = 0;
    refuse(&op, "window");
    op = plan_lookup_op(plan, OP_attention);
    op.params.attention.queries.heads = 3;
    refuse(&op, "evenly");
    op = plan_lookup_op(plan, OP_attention);
    op.params.attention.kv_heads = 4;
    refuse(&op, "cache");
    op = plan_lookup_op(plan, OP_attention);
    op.output = plan_lookup_tensor(plan, PLAN_ROWS_STEP, 20);
    refuse(&op, "output");
    op = plan_lookup_op(plan, OP_attention);
    op.params.attention.scale = -1.0f;
    refuse(&op, "scale");
    op = plan_lookup_op(plan, OP_attention);
    op.params.attention.soft_cap = 50.0f;
    accept(&op);
    op.params.attention.soft_cap = NAN;
    refuse(&op, "soft cap");
    op.params.attention.soft_cap = -1.0f;
    refuse(&op, "soft cap");
}

static void test_others(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_embed_rows);
    op.output = plan_lookup_tensor(plan, PLAN_ROWS_LOGITS, 16);
    refuse(&op, "step rows");
    op = plan_lookup_op(plan, OP_embed_rows);
    op.weights[0] = plan_lookup_op(plan, OP_linear).weights[0];
    refuse(&op, "vocabulary");
    op = plan_lookup_op(plan, OP_embed_rows);
    op.params.embed_rows.scale = INFINITY;
    refuse(&op, "scale");
    op = plan_lookup_op(plan, OP_embed_rows);
    op.params.embed_rows.image_token = plan->config.vocab_tokens;
    refuse(&op, "vocabulary");
    op = plan_lookup_op(plan, OP_gate);
    op.output = plan_lookup_tensor(plan, PLAN_ROWS_STEP, 16);
    refuse(&op, "twice as wide");
    op = plan_lookup_op(plan, OP_gather_rows);
    op.inputs[0] = op.output;
    refuse(&op, "logit rows");
    op = plan_lookup_op(plan, OP_gather_rows);
    op.inputs[0] = plan_lookup_tensor(plan, PLAN_ROWS_STEP, 20);
    refuse(&op, "columns");
    op = plan_lookup_op(plan, OP_gather_rows);
    op.stem = OP_soft_cap;
    op.inputs[0] = op.output;
    op.params.soft_cap = (struct soft_cap_params){0.25f, 30.0f};
    accept(&op);
    op.params.soft_cap.cap = -30.0f;
    refuse(&op, "cap");
    op.params.soft_cap = (struct soft_cap_params){0.0f, 0.0f};
    refuse(&op, "scale");
    op.params.soft_cap.scale = 1.0f;
    op.inputs[0] = plan_lookup_tensor(plan, PLAN_ROWS_STEP, 16);
    refuse(&op, "shape");
}

int main(void)
{
    const struct CMUnitTest gemma3[] = {
        cmocka_unit_test(test_all_ops_pass),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_sounds),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_patch_table),
        cmocka_unit_test(test_cross_attention),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_bias_add),
        cmocka_unit_test(test_position_scale),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_caches),
        cmocka_unit_test(test_others),
    };
    const struct CMUnitTest llama[] = {
        cmocka_unit_test(test_all_ops_pass),
        cmocka_unit_test(test_linear_add),
    };
    return cmocka_run_group_tests(gemma3, open_gemma3, close_model) +
           cmocka_run_group_tests(llama, open_llama, close_model);
}
