/*
 * Rotary embeddings of GGUF metadata: the same facts give the same table as config.json, whose
 * tables are compared with an independent program's (rope_scaling_test.c); the context chooses the
 * list of divisors; and refusals.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/tiny_checkpoint.h"
#include "worker/model/hf/checkpoint_hf_rope.h"

#define HEAD_DIM 8
#define CONTEXT  64 /* of tiny checkpoints */

static struct tiny_checkpoint tiny;

static void begin(void)
{
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "llama.attention.key_length", HEAD_DIM);
    tiny_checkpoint_set_u32(&tiny, "llama.attention.value_length", HEAD_DIM);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_q.weight", 16, 4 * HEAD_DIM);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_k.weight", 16, 2 * HEAD_DIM);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_v.weight", 16, 2 * HEAD_DIM);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_output.weight", 4 * HEAD_DIM, 16);
}

static void begin_yarn(void)
{
    begin();
    tiny_checkpoint_set_string(&tiny, "llama.rope.scaling.type", "yarn");
    tiny_checkpoint_set_f32(&tiny, "llama.rope.scaling.factor", 4.0f);
    tiny_checkpoint_set_u32(&tiny, "llama.rope.scaling.original_context_length", 16);
}

static struct rope_config rope_of_gguf(void)
{
    struct model *model = tiny_checkpoint_must_open(&tiny);
    struct rope_config rope = model_config(model)->ropes[0];
    model_close(model);
    return rope;
}

static struct rope_config rope_of_object(const char *json)
{
    struct error_text error = {""};
    struct checkpoint_keys keys = {.error = &error};
    const struct model_config config = {.context_tokens = CONTEXT, .head_dim = HEAD_DIM};
    struct rope_config rope = {.dims = 0};
    if (json_value_open(json, strlen(json), LIMIT_CONFIG_BYTES, &keys.object, &error) != RESULT_OK)
        fail_msg("%s: %s", json, error.text);
    checkpoint_hf_read_rope(&keys, &config, 10000.0f, &rope);
    if (keys.result != RESULT_OK)
        fail_msg("%s: %s", json, error.text);
    return rope;
}

static void expect_same(const char *json)
{
    struct rope_config have = rope_of_gguf(), want = rope_of_object(json);
    assert_int_equal(have.dims, HEAD_DIM);
    assert_int_equal(want.dims, HEAD_DIM);
    assert_memory_equal(&have.magnitude, &want.magnitude, sizeof have.magnitude);
    assert_memory_equal(have.inverse_frequency, want.inverse_frequency,
                        HEAD_DIM / 2 * sizeof have.inverse_frequency[0]);
}

#define YARN "\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":16"

static void test_yarn(void **state)
{
    (void)state;
    begin_yarn();
    expect_same("{" YARN "}");
    tiny_checkpoint_set_f32(&tiny, "llama.rope.freq_base", 50.0f);
    tiny_checkpoint_set_f32(&tiny, "llama.rope.scaling.yarn_beta_fast", 2.0f);
    tiny_checkpoint_set_f32(&tiny, "llama.rope.scaling.yarn_beta_slow", 0.125f);
    expect_same("{" YARN ",\"rope_theta\":50,\"beta_fast\":2,\"beta_slow\":0.125}");
    tiny_checkpoint_set_f32(&tiny, "llama.rope.scaling.yarn_log_multiplier", 0.5f);
    expect_same("{" YARN ",\"rope_theta\":50,\"beta_fast\":2,\"beta_slow\":0.125,\"mscale\":1,"
                "\"mscale_all_dim\":0.5}");
    tiny_checkpoint_set_f32(&tiny, "llama.rope.scaling.yarn_attn_factor", 1.5f);
    expect_same("{" YARN ",\"rope_theta\":50,\"beta_fast\":2,\"beta_slow\":0.125,"
                "\"attention_factor\":1.5}");
}

static void set_lists(float short_divisor, float long_divisor)
{
    tiny_checkpoint_set_tensor(&tiny, "rope_factors_short.weight", HEAD_DIM / 2, 1);
    tiny_checkpoint_set_tensor(&tiny, "rope_factors_long.weight", HEAD_DIM / 2, 1);
    tiny_checkpoint_tensor(&tiny, "rope_factors_short.weight")->fill = short_divisor;
    tiny_checkpoint_tensor(&tiny, "rope_factors_long.weight")->fill = long_divisor;
}

/* Converters of longrope often write no type. */
static void test_longrope_by_context(void **state)
{
    (void)state;
    begin();
    set_lists(2.0f, 4.0f);
    tiny_checkpoint_set_u32(&tiny, "llama.rope.scaling.original_context_length", CONTEXT - 1);
    tiny_checkpoint_set_f32(&tiny, "llama.rope.scaling.attn_factor", 1.25f);
    struct rope_config rope = rope_of_gguf();
    assert_true(rope.inverse_frequency[0] == 0.25f);
    assert_true(rope.magnitude == 1.25f);
    tiny_checkpoint_set_u32(&tiny, "llama.rope.scaling.original_context_length", CONTEXT);
    tiny_checkpoint_set_string(&tiny, "llama.rope.scaling.type", "longrope");
    rope = rope_of_gguf();
    assert_true(rope.inverse_frequency[0] == 0.5f);
    assert_true(rope.magnitude == 1.25f);
}

/* Proportional embeddings are stored as divisors, and some of them turn a pair off. */
static void test_still_pairs(void **state)
{
    (void)state;
    begin();
    tiny_checkpoint_set_tensor(&tiny, "rope_freqs.weight", HEAD_DIM / 2, 1);
    tiny_checkpoint_tensor(&tiny, "rope_freqs.weight")->fill = 1e30f;
    assert_true(rope_of_gguf().inverse_frequency[0] == 0.0f);
}

static void test_refusals(void **state)
{
    (void)state;
    begin_yarn();
    tiny_checkpoint_set_f32(&tiny, "llama.rope.scaling.yarn_ext_factor", 0.5f);
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "yarn_ext_factor");
    begin_yarn();
    tiny_checkpoint_set_f32(&tiny, "llama.rope.freq_base", 1.0f);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "more than 1");
    begin_yarn();
    tiny_checkpoint_set_u32(&tiny, "llama.rope.scaling.original_context_length", 1);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "original_context_length");
    begin();
    tiny_checkpoint_set_string(&tiny, "llama.rope.scaling.type", "longrope");
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "rope_factors_long.weight is missing");
    begin();
    set_lists(0.0f, 1.0f);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "rope_factors_short.weight: element 0 is 0");
    set_lists(1.0f, 1.0f);
    tiny_checkpoint_set_tensor(&tiny, "rope_factors_long.weight", HEAD_DIM, 1);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "rope_factors_long.weight is not F32 [4]");
    begin();
    tiny_checkpoint_set_tensor(&tiny, "rope_freqs.weight", HEAD_DIM / 2, 1);
    tiny_checkpoint_tensor(&tiny, "rope_freqs.weight")->fill = 1e10f;
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "rope_freqs.weight: element 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_longrope_by_context),
        cmocka_unit_test(test_still_pairs),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
