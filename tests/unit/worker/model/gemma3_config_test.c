/*
 * Gemma 3's alternation: five sliding layers with the local rotary embedding, then a global one;
 * and the scales that its checkpoints do not state.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/tiny_checkpoint.h"

static struct tiny_checkpoint tiny;

static void assert_near(float value, double expected)
{
    if (!(fabs((double)value - expected) <= 1e-6 * fabs(expected)))
        fail_msg("%.9g, not %.9g", (double)value, expected);
}

static const struct rope_config *rope_of(const struct model_config *c, uint32_t layer)
{
    assert_true(c->layer[layer].rope < c->rope_count);
    return &c->ropes[c->layer[layer].rope];
}

static void test_every_sixth_layer_is_global(void **state)
{
    (void)state;
    tiny_checkpoint_init_gemma3(&tiny, 7);
    tiny_checkpoint_set_f32(&tiny, "gemma3.rope.scaling.factor", 8.0f);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    const struct model_config *c = model_config(model);
    for (uint32_t layer = 0; layer < 7; layer++) {
        bool global = layer == 5;
        assert_int_equal(c->layer[layer].window, global ? 0 : 8);
        assert_int_equal(rope_of(c, layer)->pairing, ROPE_PAIRS_HALVES);
        assert_int_equal(rope_of(c, layer)->dims, 4);
        /* base 10^6 over 8, or 10^4 unscaled */
        assert_near(rope_of(c, layer)->inverse_frequency[0], global ? 1.0 / 8 : 1.0);
        assert_near(rope_of(c, layer)->inverse_frequency[1], global ? 0.001 / 8 : 0.01);
    }
    assert_int_equal(model_plan(model)->kv.group_count, 2);
    model_close(model);
}

static void test_stated_pattern_and_bases(void **state)
{
    (void)state;
    tiny_checkpoint_init_gemma3(&tiny, 4);
    tiny_checkpoint_set_u32(&tiny, "gemma3.attention.sliding_window_pattern", 2);
    tiny_checkpoint_set_f32(&tiny, "gemma3.rope.freq_base", 1e8f);
    tiny_checkpoint_set_f32(&tiny, "gemma3.rope.freq_base_swa", 100.0f);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    const struct model_config *c = model_config(model);
    for (uint32_t layer = 0; layer < 4; layer++) {
        assert_int_equal(c->layer[layer].window, layer % 2 ? 0 : 8);
        assert_near(rope_of(c, layer)->inverse_frequency[1], layer % 2 ? 1e-4 : 0.1);
    }
    model_close(model);
}

static void test_scales(void **state)
{
    (void)state;
    tiny_checkpoint_init_gemma3(&tiny, 1);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    assert_near(model_config(model)->embedding_scale, 4.0); /* sqrt(16) */
    assert_near(model_config(model)->attention_scale, 0.5); /* 1 / sqrt(4) */
    model_close(model);
    tiny_checkpoint_set_f32(&tiny, "gemma3.attention.scale", 0.25f);
    model = tiny_checkpoint_must_open(&tiny);
    assert_near(model_config(model)->attention_scale, 0.25);
    model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sixth_layer_is_global),
        cmocka_unit_test(test_stated_pattern_and_bases),
        cmocka_unit_test(test_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
