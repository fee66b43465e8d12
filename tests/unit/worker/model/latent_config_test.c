/*
 * DeepSeek's configs: sizes of the latent, the factor of scores, which layers and groups have experts,
 * and what is refused; and its ops, each refused after one change.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/hf_config_case.h"
#include "tests/support/plan_lookup.h"
#include "worker/model/model.h"
#include "worker/plan/plan_check.h"

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"                         \
    "\"num_attention_heads\":4,\"vocab_size\":100,\"max_position_embeddings\":512"
#define V2 "\"model_type\":\"deepseek_v2\",\"num_experts_per_tok\":6," SIZES
#define V3 "\"model_type\":\"deepseek_v3\"," SIZES

static struct model_config config;

static void test_defaults_are_the_published_sizes(void **state)
{
    (void)state;
    hf_config_case_must_read(V3, "", &config);
    assert_int_equal(config.head_dim, 576);
    assert_int_equal(config.kv_heads, 1);
    assert_int_equal(config.latent.query_columns, 1536);
    assert_int_equal(config.experts.count, 256);
    assert_int_equal(config.experts.groups, 8);
    assert_int_equal(config.experts.shared, 2048);
    assert_true(config.experts.choice_bias && config.experts.sigmoid && config.layer[0].latent);
    assert_false(config.layer[2].experts);
    assert_true(config.layer[3].experts);
    assert_float_equal(config.attention_scale, 1 / sqrtf(192), 1e-7);
    hf_config_case_must_read(V2, "\"q_lora_rank\":null,\"n_shared_experts\":null", &config);
    assert_int_equal(config.latent.query_columns, 0);
    assert_int_equal(config.experts.shared, 0);
    assert_true(config.layer[0].experts);
}

static void test_yarn_scales_scores(void **state)
{
    (void)state;
    const char *yarn = "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale\":1.0,"
                       "\"mscale_all_dim\":1.0,\"original_max_position_embeddings\":4096}";
    float magnitude = 0.1f * logf(40) + 1;
    hf_config_case_must_read(V3, yarn, &config);
    assert_float_equal(config.attention_scale, magnitude * magnitude / sqrtf(192), 1e-6);
    assert_float_equal(config.ropes[0].magnitude, 1, 1e-6);
}

static void test_groups_that_choose_nothing_are_none(void **state)
{
    (void)state;
    hf_config_case_must_read(V3, "\"n_group\":1,\"topk_group\":1", &config);
    assert_int_equal(config.experts.groups, 0);
    hf_config_case_must_read(V3, "\"n_group\":8,\"topk_group\":8", &config);
    assert_int_equal(config.experts.groups, 0);
    hf_config_case_must_read(V2, "\"n_group\":8,\"topk_group\":3", &config);
    assert_int_equal(config.experts.groups, 0); /* its method is greedy */
}

static void test_refusals(void **state)
{
    (void)state;
    hf_config_case_must_refuse(V3, "\"kv_lora_rank\":1000", "latent of 1064 columns");
    hf_config_case_must_refuse(V3, "\"kv_lora_rank\":0", "kv_lora_rank");
    hf_config_case_must_refuse(V3, "\"qk_nope_head_dim\":500", "heads of 564 columns");
    hf_config_case_must_refuse(V3, "\"qk_rope_head_dim\":7", "cannot rotate");
    hf_config_case_must_refuse(V3, "\"v_head_dim\":513", "v_head_dim");
    hf_config_case_must_refuse(V3, "\"n_group\":7", "equal groups");
    hf_config_case_must_refuse(V3, "\"n_group\":256,\"topk_group\":8", "equal groups of 2");
    hf_config_case_must_refuse(V3, "\"topk_group\":9", "9 groups of 8 cannot be chosen");
    hf_config_case_must_refuse(V3, "\"topk_group\":0", "0 groups of 8 cannot be chosen");
    hf_config_case_must_refuse(V3, "\"n_group\":128,\"topk_group\":3", "have no 8 to choose");
    hf_config_case_must_refuse(V3, "\"n_routed_experts\":4,\"n_group\":1", "8 experts of 4");
    hf_config_case_must_refuse(V3, "\"n_shared_experts\":1000", "shared experts");
    hf_config_case_must_refuse(V3, "\"moe_layer_freq\":2", "moe_layer_freq");
    hf_config_case_must_refuse(V3, "\"attention_bias\":true", "attention_bias");
    hf_config_case_must_refuse(V2, "\"topk_method\":\"noaux_tc\"", "noaux_tc");
    hf_config_case_must_refuse(V2, "\"norm_topk_prob\":true", "norm_topk_prob");
}

static struct model *model;
static const struct plan *plan;

static int open_model(void **state)
{
    struct error_text error = {""};
    (void)state;
    if (model_open("build/checkpoints/deepseek_v3-f32", &model, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    plan = model_plan(model);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    model_close(model);
    return 0;
}

static void refuse(struct plan_op op, const char *words)
{
    struct error_text error = {""};
    if (plan_op_check(plan, &op, 3, &error) == RESULT_OK)
        fail_msg("%s accepted: %s", op_stem_name(op.stem), words);
    if (!strstr(error.text, words) || !strstr(error.text, op_stem_name(op.stem)))
        fail_msg("\"%s\" lacks \"%s\"", error.text, words);
}

static void test_changed_heads(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_take_heads);
    op.params.take_heads.first = UINT32_MAX;
    refuse(op, "no such columns");
    op = plan_lookup_op(plan, OP_take_heads);
    op.params.take_heads.heads = 0;
    refuse(op, "no such columns");
    op.output = op.inputs[0];
    refuse(op, "another tensor");
    op = plan_lookup_op(plan, OP_join_heads);
    op.params.join_heads.first++;
    refuse(op, "not both parts");
    op.params.join_heads.first = 1u << 20;
    refuse(op, "no such columns");
    op.params.join_heads.heads = 0;
    refuse(op, "no such columns");
    op = plan_lookup_op(plan, OP_join_heads);
    op.output = op.inputs[1];
    refuse(op, "another tensor");
    op = plan_lookup_op(plan, OP_head_route);
    op.output = plan->logits;
    refuse(op, "no route");
    op = plan_lookup_op(plan, OP_kv_write);
    op.params.kv_write.values.offset++;
    refuse(op, "outside the input");
    op.params.kv_write.keys.offset = 0;
    op.params.kv_write.values = op.params.kv_write.keys;
    op.params.kv_write.values.heads = 2;
    refuse(op, "heads differ");
}

static void test_changed_routes(void **state)
{
    (void)state;
    struct plan_op op = plan_lookup_op(plan, OP_moe_route);
    assert_true(op.params.moe_route.weighed);
    op.params.moe_route.groups = 5;
    refuse(op, "equal groups");
    op.params.moe_route.groups = 4;
    op.params.moe_route.group_best = 3;
    refuse(op, "no score");
    op.params.moe_route.group_best = 2;
    op.params.moe_route.groups_chosen = 1;
    refuse(op, "cannot be chosen");
    op = plan_lookup_op(plan, OP_moe_route);
    op.params.moe_route.epsilon = NAN;
    refuse(op, "epsilon");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_the_published_sizes),
        cmocka_unit_test(test_yarn_scales_scores),
        cmocka_unit_test(test_groups_that_choose_nothing_are_none),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test_setup_teardown(test_changed_heads, open_model, close_model),
        cmocka_unit_test_setup_teardown(test_changed_routes, open_model, close_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
