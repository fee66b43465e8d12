/*
 * Reads of a llama checkpoint's keys: head sizes, rotary frequencies with and without scaling,
 * windows.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/tiny_checkpoint.h"

static struct tiny_checkpoint tiny;

static void assert_near(float value, double expected)
{
    if (!(fabs((double)value - expected) <= 1e-6 * fabs(expected)))
        fail_msg("%.9g, not %.9g", (double)value, expected);
}

static void test_defaults(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 2);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    const struct model_config *c = model_config(model);
    assert_string_equal(c->architecture, "llama");
    assert_int_equal(c->head_dim, 4);
    assert_int_equal(c->vocab_tokens, 8);
    assert_true(c->tied_embeddings);
    assert_near(c->attention_scale, 0.5);
    assert_near(c->embedding_scale, 1.0);
    assert_int_equal(c->rope_count, 1);
    assert_int_equal(c->ropes[0].pairing, ROPE_PAIRS_ADJACENT);
    assert_int_equal(c->ropes[0].dims, 4);
    assert_near(c->ropes[0].inverse_frequency[0], 1.0);
    assert_near(c->ropes[0].inverse_frequency[1], 0.01);
    assert_near(c->ropes[0].magnitude, 1.0);
    assert_int_equal(c->layer[1].window, 0);
    model_close(model);
}

static void test_absent_kv_heads_are_the_heads(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_drop_key(&tiny, "llama.attention.head_count_kv");
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_k.weight", 16, 16);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_v.weight", 16, 16);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    assert_int_equal(model_config(model)->kv_heads, 4);
    model_close(model);
}

static void test_stated_head_size_and_output(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_u32(&tiny, "llama.attention.key_length", 8);
    tiny_checkpoint_set_u32(&tiny, "llama.attention.value_length", 8);
    tiny_checkpoint_set_u32(&tiny, "llama.rope.dimension_count", 6);
    tiny_checkpoint_set_f32(&tiny, "llama.rope.freq_base", 1e6f);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_q.weight", 16, 32);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_k.weight", 16, 16);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_v.weight", 16, 16);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_output.weight", 32, 16);
    tiny_checkpoint_set_tensor(&tiny, "output.weight", 16, 8);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    const struct model_config *c = model_config(model);
    assert_int_equal(c->head_dim, 8);
    assert_near(c->attention_scale, 1.0 / sqrt(8.0));
    assert_int_equal(c->ropes[0].dims, 6);
    assert_near(c->ropes[0].inverse_frequency[1], 0.01);
    assert_near(c->ropes[0].inverse_frequency[2], 0.0001);
    assert_false(c->tied_embeddings);
    model_close(model);
}

static void test_linear_scaling(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_string(&tiny, "llama.rope.scaling.type", "linear");
    tiny_checkpoint_set_f32(&tiny, "llama.rope.scaling.factor", 4.0f);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    assert_near(model_config(model)->ropes[0].inverse_frequency[1], 0.01 / 4);
    model_close(model);
    tiny_checkpoint_set_string(&tiny, "llama.rope.scaling.type", "none");
    model = tiny_checkpoint_must_open(&tiny);
    assert_near(model_config(model)->ropes[0].inverse_frequency[1], 0.01);
    model_close(model);
}

/* Llama 3.1: a divisor for each frequency. */
static void test_frequency_divisors(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_tensor(&tiny, "rope_freqs.weight", 2, 1);
    tiny_checkpoint_tensor(&tiny, "rope_freqs.weight")->fill = 8.0f;
    struct model *model = tiny_checkpoint_must_open(&tiny);
    assert_near(model_config(model)->ropes[0].inverse_frequency[0], 1.0 / 8);
    assert_near(model_config(model)->ropes[0].inverse_frequency[1], 0.01 / 8);
    model_close(model);

    static const float refused[] = {0.0f, -1.0f, NAN, INFINITY};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        tiny_checkpoint_tensor(&tiny, "rope_freqs.weight")->fill = refused[i];
        tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "rope_freqs.weight");
    }
    tiny_checkpoint_set_tensor(&tiny, "rope_freqs.weight", 3, 1);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "rope_freqs.weight");
}

static void test_window_over_all_layers(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 2);
    tiny_checkpoint_set_u32(&tiny, "llama.attention.sliding_window", 32);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    assert_int_equal(model_config(model)->layer[0].window, 32);
    assert_int_equal(model_config(model)->layer[1].window, 32);
    assert_int_equal(model_plan(model)->kv.groups[0].kind, KV_SLIDING);
    model_close(model);
    tiny_checkpoint_set_u32(&tiny, "llama.attention.sliding_window", 64); /* the whole context */
    model = tiny_checkpoint_must_open(&tiny);
    assert_int_equal(model_config(model)->layer[0].window, 0);
    model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_absent_kv_heads_are_the_heads),
        cmocka_unit_test(test_stated_head_size_and_output),
        cmocka_unit_test(test_linear_scaling),
        cmocka_unit_test(test_frequency_divisors),
        cmocka_unit_test(test_window_over_all_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
