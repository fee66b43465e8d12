/*
 * Defaults of gemma2 files by older converters: soft caps, the window, the alternation.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/tiny_checkpoint.h"

static struct tiny_checkpoint tiny;

/* Gemma 3's file without its norms over heads and without keys about windows. */
static void init_gemma2(uint32_t layers)
{
    char name[64];
    tiny_checkpoint_init_gemma3(&tiny, layers);
    tiny_checkpoint_drop_key(&tiny, "gemma3.attention.sliding_window");
    for (uint32_t i = 0; i < tiny.key_count; i++)
        if (strncmp(tiny.keys[i].name, "gemma3.", 7) == 0)
            tiny.keys[i].name[5] = '2';
    tiny_checkpoint_set_string(&tiny, "general.architecture", "gemma2");
    for (uint32_t layer = 0; layer < layers; layer++) {
        snprintf(name, sizeof name, "blk.%u.attn_q_norm.weight", layer);
        tiny_checkpoint_drop_tensor(&tiny, name);
        snprintf(name, sizeof name, "blk.%u.attn_k_norm.weight", layer);
        tiny_checkpoint_drop_tensor(&tiny, name);
    }
}

static void test_what_is_left_out(void **state)
{
    (void)state;
    init_gemma2(4);
    tiny_checkpoint_set_u32(&tiny, "gemma2.context_length", 8192);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    const struct model_config *c = model_config(model);
    assert_true(c->attention_soft_cap == 50.0f);
    assert_true(c->logit_soft_cap == 30.0f);
    assert_true(fabsf(c->attention_scale - 0.5f) < 1e-6f); /* 1 / sqrt(4) */
    for (uint32_t layer = 0; layer < 4; layer++)
        assert_int_equal(c->layer[layer].window, layer % 2 == 0 ? 4096 : 0);
    const struct plan *plan = model_plan(model);
    assert_int_equal(plan->ops[plan->op_count - 1].stem, OP_soft_cap);
    model_close(model);
}

static void test_what_is_stated(void **state)
{
    (void)state;
    init_gemma2(3);
    tiny_checkpoint_set_f32(&tiny, "gemma2.attn_logit_softcapping", 20.0f);
    tiny_checkpoint_set_f32(&tiny, "gemma2.final_logit_softcapping", 0.0f);
    tiny_checkpoint_set_u32(&tiny, "gemma2.attention.sliding_window", 16);
    tiny_checkpoint_set_u32(&tiny, "gemma2.attention.sliding_window_pattern", 3);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    const struct model_config *c = model_config(model);
    assert_true(c->attention_soft_cap == 20.0f);
    for (uint32_t layer = 0; layer < 3; layer++)
        assert_int_equal(c->layer[layer].window, layer < 2 ? 16 : 0);
    const struct plan *plan = model_plan(model);
    assert_int_equal(plan->ops[plan->op_count - 1].stem, OP_linear); /* nothing is capped */
    model_close(model);
}

static void test_refusals(void **state)
{
    (void)state;
    init_gemma2(1);
    tiny_checkpoint_set_f32(&tiny, "gemma2.final_logit_softcapping", -30.0f);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "final_logit_softcapping");
    init_gemma2(1);
    tiny_checkpoint_set_u32(&tiny, "gemma2.expert_count", 8);
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "expert_count");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_left_out),
                                       cmocka_unit_test(test_what_is_stated),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
