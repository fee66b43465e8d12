/*
 * Layers grouped by window, and the arithmetic of blocks, compared with a sequence that is advanced
 * step by step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "worker/plan/kv_layout.h"
#include "worker/plan/model_config.h"

static struct model_config config;
static struct kv_layout layout;

static void init(const uint32_t *windows, uint32_t layers)
{
    struct error_text error = {""};
    config = (struct model_config){.layers = layers, .kv_heads = 3, .head_dim = 64};
    for (uint32_t i = 0; i < layers; i++)
        config.layer[i].window = windows[i];
    assert_int_equal(kv_layout_init(&layout, &config, &error), RESULT_OK);
}

static void test_groups(void **state)
{
    (void)state;
    static const uint32_t windows[] = {8, 8, 0, 8, 4, 0};
    init(windows, 6);
    assert_int_equal(layout.group_count, 3);
    static const struct {
        uint32_t window, layers;
        enum kv_kind kind;
    } groups[] = {{0, 2, KV_FULL}, {8, 3, KV_SLIDING}, {4, 1, KV_SLIDING}};
    for (uint32_t g = 0; g < 3; g++) {
        assert_int_equal(layout.groups[g].window, groups[g].window);
        assert_int_equal(layout.groups[g].layers, groups[g].layers);
        assert_int_equal(layout.groups[g].kind, groups[g].kind);
        assert_int_equal(layout.groups[g].kv_heads, 3);
        assert_int_equal(layout.groups[g].head_dim, 64);
    }
    static const uint8_t group_of[] = {1, 1, 0, 1, 2, 0};
    static const uint16_t index_of[] = {0, 1, 0, 2, 0, 1};
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(layout.layer_group[i], group_of[i]);
        assert_int_equal(layout.layer_index[i], index_of[i]);
    }
}

static void test_shapes_and_shared_layers(void **state)
{
    (void)state;
    struct error_text error = {""};
    config = (struct model_config){.layers = 6, .kv_heads = 3, .head_dim = 64};
    for (uint32_t i = 0; i < 6; i++)
        config.layer[i].window = i % 2 == 0 ? 8 : 0;
    config.layer[1].head_dim = config.layer[5].head_dim = 128; /* layer 3 has the model's */
    config.layer[1].kv_heads = config.layer[5].kv_heads = 2;
    config.layer[4].cache_back = 2;
    config.layer[5].cache_back = 4;
    assert_int_equal(kv_layout_init(&layout, &config, &error), RESULT_OK);
    assert_int_equal(layout.group_count, 3);
    assert_int_equal(layout.groups[0].head_dim, 128);
    assert_int_equal(layout.groups[0].kv_heads, 2);
    assert_int_equal(layout.groups[0].layers, 1);
    assert_int_equal(layout.groups[1].window, 8);
    assert_int_equal(layout.groups[1].layers, 2);
    assert_int_equal(layout.groups[2].kind, KV_FULL);
    assert_int_equal(layout.groups[2].head_dim, 64);
    static const uint8_t group_of[] = {1, 0, 1, 2, 1, 0};
    static const uint16_t index_of[] = {0, 0, 1, 0, 1, 0};
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(layout.layer_group[i], group_of[i]);
        assert_int_equal(layout.layer_index[i], index_of[i]);
    }
}

/* The last layer with keys of its own and sliding ones keep full precision. */
static void test_quantized_layers(void **state)
{
    (void)state;
    struct error_text error = {""};
    static const struct kv_quantization turboquant = {KV_QUANT_TURBOQUANT, 6, 8, 0, 0};
    static const uint32_t windows[] = {8, 0, 8, 0, 0, 0};
    init(windows, 6);
    config.layer[5].cache_back = 2;
    assert_int_equal(kv_layout_quantize(&layout, &config, &turboquant, &error), RESULT_OK);
    assert_int_equal(layout.group_count, 3);
    static const uint8_t group_of[] = {1, 0, 1, 0, 2, 0};
    static const uint16_t index_of[] = {0, 0, 1, 1, 0, 1};
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(layout.layer_group[i], group_of[i]);
        assert_int_equal(layout.layer_index[i], index_of[i]);
    }
    for (uint32_t g = 0; g < 3; g++)
        assert_int_equal(layout.groups[g].quantized, g == 0);
    /* 16 positions of 3-bit keys and 4-bit values with a norm each, 2 layers, 3 heads of 64 */
    assert_int_equal(kv_layout_block_bytes(&layout, 0, 2), 16 * (26 + 34) * 2 * 3);
    assert_int_equal(kv_layout_block_bytes(&layout, 2, 2), 2 * 16 * 3 * 64 * 2);

    static const uint32_t all_sliding[] = {8, 8, 8};
    init(all_sliding, 3);
    assert_int_equal(kv_layout_quantize(&layout, &config, &turboquant, &error), RESULT_UNSUPPORTED);
    assert_non_null(strstr(error.text, "no layer whose keys"));
    static const uint32_t two[] = {0, 0};
    init(two, 2);
    assert_int_equal(kv_layout_quantize(&layout, &config, &turboquant, &error), RESULT_OK);
    assert_int_equal(layout.group_count, 1);
    config.head_dim = 72;
    assert_int_equal(kv_layout_quantize(&layout, &config, &turboquant, &error), RESULT_UNSUPPORTED);
}

/* Positions before the start have a second place, in full precision, and leave it all at once. */
static void test_openings(void **state)
{
    (void)state;
    struct error_text error = {""};
    static const uint32_t windows[] = {8, 8, 0, 0, 8, 0};
    const struct kv_quantization late = {KV_QUANT_TURBOQUANT, 6, 8, 0, 50};
    init(windows, 6);
    assert_int_equal(kv_layout_opening(&layout, 0), KV_GROUP_NONE);
    assert_int_equal(kv_layout_quantize(&layout, &config, &late, &error), RESULT_OK);
    assert_int_equal(layout.group_count, 4);
    assert_true(layout.groups[0].quantized);
    assert_int_equal(kv_layout_opening(&layout, 0), 3);
    for (uint32_t g = 1; g < 4; g++)
        assert_int_equal(kv_layout_opening(&layout, g), KV_GROUP_NONE);
    assert_int_equal(layout.groups[3].kind, KV_OPENING);
    assert_int_equal(layout.groups[3].layers, layout.groups[0].layers);
    assert_false(layout.groups[3].quantized);
    assert_int_equal(kv_layout_block_bytes(&layout, 3, 2), 2 * 16 * 2 * 3 * 64 * 2);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_not_equal(layout.layer_group[i], 3);

    assert_int_equal(kv_layout_covered_tokens(&layout, 0, 1000), 1000);
    assert_int_equal(kv_layout_covered_tokens(&layout, 3, 49), 49);
    assert_int_equal(kv_layout_covered_tokens(&layout, 3, 1000), 50);
    assert_int_equal(kv_layout_blocks_needed(&layout, 3, 33, 8), 3);
    assert_int_equal(kv_layout_blocks_needed(&layout, 3, 1000, 8), 4);
    assert_int_equal(kv_layout_first_block(&layout, 3, 49), 0);
    assert_int_equal(kv_layout_first_block(&layout, 3, 50), 4);
    assert_int_equal(kv_layout_first_block(&layout, 3, 1000), 4);

    static const uint32_t many[] = {8, 4, 0, 0, 0, 0};
    init(many, 6);
    assert_int_equal(kv_layout_quantize(&layout, &config, &late, &error), RESULT_UNSUPPORTED);
    assert_non_null(strstr(error.text, "--quantized-kv-start 50"));
}

/* One FULL group that none of the model's layers has, so that positions are still counted in blocks. */
static void test_without_attention(void **state)
{
    (void)state;
    struct error_text error = {""};
    const struct kv_quantization codes = {KV_QUANT_UNIFORM, 8, 8, 64, 0};
    config = (struct model_config){.layers = 2, .kv_heads = 1, .head_dim = 1};
    config.layer[0].kind = LAYER_SSM;
    config.layer[1].kind = LAYER_FEED_FORWARD;
    assert_int_equal(kv_layout_init(&layout, &config, &error), RESULT_OK);
    assert_int_equal(layout.group_count, 1);
    assert_int_equal(layout.groups[0].kind, KV_FULL);
    assert_int_equal(layout.layer_group[0], KV_GROUP_NONE);
    assert_int_equal(layout.layer_group[1], KV_GROUP_NONE);
    assert_int_equal(kv_layout_block_bytes(&layout, 0, 2), 2048);
    assert_int_equal(kv_layout_blocks_needed(&layout, 0, 33, 8), 3);
    assert_int_equal(kv_layout_quantize(&layout, &config, &codes, &error), RESULT_UNSUPPORTED);

    /* A layer that does both is in a group of its own shape. */
    config.layer[1].kind = LAYER_SSM_ATTENTION;
    assert_int_equal(kv_layout_init(&layout, &config, &error), RESULT_OK);
    assert_int_equal(layout.group_count, 1);
    assert_int_equal(layout.groups[0].head_dim, 1);
    assert_int_equal(layout.layer_group[1], 0);
}

static void test_too_many_groups(void **state)
{
    (void)state;
    struct error_text error = {""};
    config = (struct model_config){.layers = KV_GROUPS_MAX + 1, .kv_heads = 1, .head_dim = 1};
    for (uint32_t i = 0; i < config.layers; i++)
        config.layer[i].window = i;
    assert_int_equal(kv_layout_init(&layout, &config, &error), RESULT_UNSUPPORTED);
}

static void test_block_bytes(void **state)
{
    (void)state;
    static const uint32_t windows[] = {0, 0};
    init(windows, 2);
    /* keys and values, 16 positions, 2 layers, 3 heads of 64, f16 */
    assert_int_equal(kv_layout_block_bytes(&layout, 0, 2), 2 * 16 * 2 * 3 * 64 * 2);
}

/* As published: 576 numbers a token and layer, however many heads there are. */
static void test_latent_bytes(void **state)
{
    (void)state;
    static const uint32_t windows[] = {0, 0, 0};
    struct error_text error;
    const struct kv_quantization uniform = {
        .scheme = KV_QUANT_UNIFORM, .key_half_bits = 16, .value_half_bits = 16};
    init(windows, 3);
    config.kv_heads = 1;
    config.head_dim = 576;
    for (uint32_t layer = 0; layer < 3; layer++)
        config.layer[layer].latent = true;
    assert_int_equal(kv_layout_init(&layout, &config, &error), RESULT_OK);
    assert_int_equal(layout.group_count, 1);
    assert_int_equal(kv_layout_block_bytes(&layout, 0, 2), 16 * 3 * 576 * 2);
    assert_int_equal(kv_layout_quantize(&layout, &config, &uniform, &error), RESULT_UNSUPPORTED);
    assert_non_null(strstr(error.text, "latent"));
    config.layer[1].latent = false; /* one of two caches of the same width */
    assert_int_equal(kv_layout_init(&layout, &config, &error), RESULT_OK);
    assert_int_equal(layout.group_count, 2);
    assert_int_equal(kv_layout_block_bytes(&layout, 1, 2), 2 * 16 * 576 * 2);
}

static void test_full_needs_all(void **state)
{
    (void)state;
    static const uint32_t windows[] = {0};
    init(windows, 1);
    assert_int_equal(kv_layout_blocks_needed(&layout, 0, 0, 8), 0);
    assert_int_equal(kv_layout_blocks_needed(&layout, 0, 1, 8), 1);
    assert_int_equal(kv_layout_blocks_needed(&layout, 0, 16, 8), 1);
    assert_int_equal(kv_layout_blocks_needed(&layout, 0, 17, 8), 2);
    assert_int_equal(kv_layout_blocks_needed(&layout, 0, UINT32_MAX, 8), 1u << 28);
    assert_int_equal(kv_layout_first_block(&layout, 0, 1000000), 0);
}

/* Maximum number of blocks of a sequence that grows by `step` and gives back what it can. */
static uint32_t walk(uint32_t tokens, uint32_t step)
{
    uint32_t most = 0;
    for (uint32_t position = 0; position < tokens; position += step) {
        uint32_t end = position + step < tokens ? position + step : tokens;
        uint32_t held = (end + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS -
                        kv_layout_first_kept(&layout, 0, position);
        most = held > most ? held : most;
    }
    return most;
}

static void test_sliding_needs_window_and_step(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 15, 16, 17, 33, 100};
    for (uint32_t w = 0; w < 7; w++)
        for (uint32_t s = 0; s < 7; s++)
            for (uint32_t tokens = 0; tokens < 400; tokens += 7) {
                init(&sizes[w], 1);
                uint32_t needed = kv_layout_blocks_needed(&layout, 0, tokens, sizes[s]);
                uint32_t held = walk(tokens, sizes[s]);
                assert_true(held <= needed);
                assert_true(needed <= (tokens + 15) / 16);
                assert_true(needed <= (sizes[w] + sizes[s] + 15 + KV_UNRECORDED_TOKENS) / 16 + 2);
            }
}

static void test_first_block_is_the_last_unseen_end(void **state)
{
    (void)state;
    static const uint32_t windows[] = {20};
    init(windows, 1);
    for (uint32_t position = 0; position < 200; position++) {
        uint32_t first_seen = position >= 20 ? position - 19 : 0;
        assert_int_equal(kv_layout_first_block(&layout, 0, position), first_seen / 16);
    }
    assert_int_equal(kv_layout_first_block(&layout, 0, UINT32_MAX), (UINT32_MAX - 19) / 16);
}

/* What is kept is what a query sees at the last full block's end before the rows under way. */
static void test_first_kept_is_seen_where_a_stream_resumes(void **state)
{
    (void)state;
    static const uint32_t windows[] = {20};
    init(windows, 1);
    assert_int_equal(kv_layout_first_kept(&layout, 0, 0), 0);
    assert_int_equal(kv_layout_first_kept(&layout, 0, 1), 0);
    for (uint32_t computed = 2; computed < 200; computed++) {
        uint32_t resumed = (computed - 2) / 16 * 16;
        uint32_t kept = kv_layout_first_kept(&layout, 0, computed);
        assert_int_equal(kept, kv_layout_first_block(&layout, 0, resumed));
        assert_true(kept <= kv_layout_first_block(&layout, 0, computed));
    }
}

static void test_extremes_do_not_wrap(void **state)
{
    (void)state;
    static const uint32_t windows[] = {UINT32_MAX};
    init(windows, 1);
    assert_int_equal(kv_layout_blocks_needed(&layout, 0, 100, UINT32_MAX), 7);
    assert_int_equal(kv_layout_blocks_needed(&layout, 0, UINT32_MAX, UINT32_MAX), 1u << 28);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_shapes_and_shared_layers),
        cmocka_unit_test(test_quantized_layers),
        cmocka_unit_test(test_openings),
        cmocka_unit_test(test_too_many_groups),
        cmocka_unit_test(test_without_attention),
        cmocka_unit_test(test_block_bytes),
        cmocka_unit_test(test_latent_bytes),
        cmocka_unit_test(test_full_needs_all),
        cmocka_unit_test(test_sliding_needs_window_and_step),
        cmocka_unit_test(test_first_block_is_the_last_unseen_end),
        cmocka_unit_test(test_first_kept_is_seen_where_a_stream_resumes),
        cmocka_unit_test(test_extremes_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
