/*
 * kv_budget: never over the limit, nobody without blocks, the promised context really fits, plenty
 * is not taken whole, and too little is refused with the numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/kv_cache_type.h"
#include "tests/support/test_random.h"
#include "worker/cache/kv_budget.h"

static struct kv_layout gemma_like(void)
{
    struct kv_layout layout = {.group_count = 2};
    layout.groups[0] =
        (struct kv_group){.kind = KV_FULL, .layers = 3, .kv_heads = 1, .head_dim = 256};
    layout.groups[1] = (struct kv_group){
        .kind = KV_SLIDING, .window = 512, .layers = 15, .kv_heads = 1, .head_dim = 256};
    return layout;
}

static struct kv_budget_request request_of(uint64_t limit_bytes)
{
    return (struct kv_budget_request){.element_bytes = kv_cache_type_bytes(KV_CACHE_F16),
                                      .context_tokens = 32768,
                                      .max_sequences = 64,
                                      .step_tokens = 512,
                                      .limit_bytes = limit_bytes};
}

static uint64_t bytes_of(const struct kv_layout *layout, const struct kv_budget *budget,
                         uint32_t element_bytes)
{
    uint64_t bytes = 0;
    for (uint32_t group = 0; group < layout->group_count; group++)
        bytes += budget->blocks[group] * kv_layout_block_bytes(layout, group, element_bytes);
    return bytes;
}

static void test_random_budgets_keep_their_promises(void **state)
{
    (void)state;
    struct test_random random = {.state = 9};
    uint32_t planned = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        struct kv_layout layout = {.group_count = 1 + test_random_below(&random, KV_GROUPS_MAX)};
        for (uint32_t group = 0; group < layout.group_count; group++) {
            uint32_t window =
                group + test_random_below(&random, 2) ? 1 + test_random_below(&random, 2000) : 0;
            layout.groups[group] = (struct kv_group){.kind = window ? KV_SLIDING : KV_FULL,
                                                     .window = window,
                                                     .layers = 1 + test_random_below(&random, 60),
                                                     .kv_heads = 1 + test_random_below(&random, 16),
                                                     .head_dim = 64};
        }
        uint32_t step_tokens = 1 + test_random_below(&random, 1024);
        struct kv_budget_request request = {
            .element_bytes =
                kv_cache_type_bytes(test_random_below(&random, 2) ? KV_CACHE_F32 : KV_CACHE_F16),
            .context_tokens = 1 + test_random_below(&random, 200000),
            .max_sequences = 1 + test_random_below(&random, 1024),
            .step_tokens = step_tokens,
            .limit_bytes = 1ull << (20 + test_random_below(&random, 20)),
        };
        struct kv_budget budget;
        if (kv_budget_plan(&layout, &request, &budget, NULL) != RESULT_OK)
            continue;
        planned++;
        assert_int_equal(budget.bytes, bytes_of(&layout, &budget, request.element_bytes));
        assert_true(budget.bytes <= request.limit_bytes);
        assert_true(budget.context_tokens <= request.context_tokens);
        for (uint32_t group = 0; group < layout.group_count; group++) {
            assert_true(budget.blocks[group] > 0);
            assert_true(kv_layout_blocks_needed(&layout, group, budget.context_tokens,
                                                step_tokens) <= budget.blocks[group]);
        }
    }
    assert_true(planned > 1000);
}

static void test_plenty_is_not_taken_whole(void **state)
{
    (void)state;
    struct kv_layout layout = gemma_like();
    struct kv_budget_request request = request_of(1ull << 40);
    struct kv_budget budget;
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
    assert_int_equal(budget.context_tokens, 32768);
    assert_int_equal(budget.blocks[0], 64 * 32768 / KV_BLOCK_TOKENS);
    /* A window for every sequence, not a context. */
    assert_true(budget.blocks[1] < 64 * 40);
    assert_true(budget.bytes < 8ull << 30);
}

static void test_recurrent_state_comes_first(void **state)
{
    (void)state;
    struct kv_layout layout = gemma_like();
    struct kv_budget_request request = request_of(512u << 20);
    struct kv_budget without, with, few;
    assert_int_equal(kv_budget_plan(&layout, &request, &without, NULL), RESULT_OK);
    assert_int_equal(without.max_sequences, 64);
    assert_int_equal(without.state_bytes, 0);
    request.state_slot_bytes = 1u << 20;
    assert_int_equal(kv_budget_plan(&layout, &request, &with, NULL), RESULT_OK);
    assert_int_equal(with.max_sequences, 64);
    assert_int_equal(with.state_bytes, 64u << 20);
    assert_true(with.state_bytes + with.bytes <= request.limit_bytes);
    assert_true(with.blocks[0] < without.blocks[0]);
    /* Half of the memory holds five. */
    request.state_slot_bytes = 50u << 20;
    assert_int_equal(kv_budget_plan(&layout, &request, &few, NULL), RESULT_OK);
    assert_int_equal(few.max_sequences, 5);
    assert_int_equal(few.state_bytes, 250u << 20);
    assert_true(few.state_bytes + few.bytes <= request.limit_bytes);
    struct error_text error = {""};
    request.keeps_checkpoints = true;
    request.state_slot_bytes = 1u << 20;
    struct kv_budget kept;
    assert_int_equal(kv_budget_plan(&layout, &request, &kept, NULL), RESULT_OK);
    assert_int_equal(kept.checkpoint_slots, (request.limit_bytes - kept.state_bytes) >> 23);
    assert_int_equal(kept.checkpoint_bytes, (uint64_t)kept.checkpoint_slots << 20);
    assert_true(kept.state_bytes + kept.checkpoint_bytes + kept.bytes <= request.limit_bytes);
    request.state_slot_bytes = 1u << 10;
    assert_int_equal(kv_budget_plan(&layout, &request, &kept, NULL), RESULT_OK);
    assert_int_equal(kept.checkpoint_slots, 4 * request.max_sequences);
    request.state_slot_bytes = 257u << 20;
    assert_int_equal(kv_budget_plan(&layout, &request, &few, &error), RESULT_TOO_LARGE);
    assert_non_null(strstr(error.text, "269484032"));
}

static void test_a_scarce_budget_serves_both_groups(void **state)
{
    (void)state;
    struct kv_layout layout = gemma_like();
    struct kv_budget_request request = request_of(512u << 20);
    struct kv_budget budget;
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
    /* Both can hold several short sequences at once. */
    assert_true(budget.blocks[0] * KV_BLOCK_TOKENS > 8 * 600);
    assert_true(budget.blocks[1] * KV_BLOCK_TOKENS > 8 * 600);
}

static void test_f32_holds_half_as_much(void **state)
{
    (void)state;
    struct kv_layout layout = gemma_like();
    struct kv_budget_request request = request_of(512u << 20);
    struct kv_budget half;
    struct kv_budget whole;
    assert_int_equal(kv_budget_plan(&layout, &request, &half, NULL), RESULT_OK);
    request.element_bytes = kv_cache_type_bytes(KV_CACHE_F32);
    assert_int_equal(kv_budget_plan(&layout, &request, &whole, NULL), RESULT_OK);
    for (uint32_t group = 0; group < layout.group_count; group++) {
        assert_true(whole.blocks[group] >= half.blocks[group] / 2 - 1);
        assert_true(whole.blocks[group] <= half.blocks[group] / 2 + 1);
    }
    request.limit_bytes *= 2; /* and as much in twice the memory */
    assert_int_equal(kv_budget_plan(&layout, &request, &whole, NULL), RESULT_OK);
    assert_memory_equal(whole.blocks, half.blocks, sizeof half.blocks);
    assert_int_equal(whole.context_tokens, half.context_tokens);
}

static void test_too_little_is_refused_with_numbers(void **state)
{
    (void)state;
    struct kv_layout layout = gemma_like();
    struct kv_budget_request request = request_of(1000000);
    struct kv_budget budget;
    struct error_text error;
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, &error), RESULT_TOO_LARGE);
    assert_non_null(strstr(error.text, "1000000 bytes"));
    assert_non_null(strstr(error.text, "512 tokens"));
}

/* What comes before the start of quantization has at most half, and the whole of one sequence. */
static void test_openings(void **state)
{
    (void)state;
    struct kv_layout layout = {.group_count = 2,
                               .quantization = {KV_QUANT_TURBOQUANT, 8, 8, 0, 5000}};
    layout.groups[0] = (struct kv_group){
        .kind = KV_FULL, .layers = 3, .kv_heads = 1, .head_dim = 256, .quantized = true};
    layout.groups[1] = (struct kv_group){
        .kind = KV_OPENING, .layers = 3, .kv_heads = 1, .head_dim = 256, .opening = 5000};
    struct kv_budget_request request = request_of(1ull << 40);
    struct kv_budget budget;
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
    assert_int_equal(budget.blocks[0], 64 * 32768 / KV_BLOCK_TOKENS);
    assert_int_equal(budget.blocks[1], 64 * (5008 / KV_BLOCK_TOKENS));
    request.limit_bytes = 64u << 20;
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
    assert_true(budget.blocks[1] >= 5008 / KV_BLOCK_TOKENS);
    assert_true(budget.blocks[1] * kv_layout_block_bytes(&layout, 1, 2) <= 32u << 20);
    assert_true(budget.context_tokens > 5000);
    assert_int_equal(budget.bytes, bytes_of(&layout, &budget, request.element_bytes));
    /* One sequence's 313 blocks of 48 KiB are more than half of 16 MiB. */
    struct error_text error = {""};
    request.limit_bytes = 16u << 20;
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, &error), RESULT_TOO_LARGE);
    assert_non_null(strstr(error.text, "--quantized-kv-start 5000"));
    assert_non_null(strstr(error.text, "15384576 bytes in full precision"));
    request.context_tokens = 2000; /* no sequence passes the start */
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
    assert_int_equal(budget.context_tokens, 2000);
}

static void test_longest_is_exact(void **state)
{
    (void)state;
    struct kv_layout layout = gemma_like();
    const uint32_t blocks[KV_GROUPS_MAX] = {10, 70};
    assert_int_equal(kv_budget_longest(&layout, blocks, 100000, 512), 160);
    assert_int_equal(kv_budget_longest(&layout, blocks, 77, 512), 77);
    const uint32_t few[KV_GROUPS_MAX] = {1000, 3};
    assert_int_equal(kv_budget_longest(&layout, few, 100000, 512), 48);
    const uint32_t none[KV_GROUPS_MAX] = {1000, 0};
    assert_int_equal(kv_budget_longest(&layout, none, 100000, 512), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_budgets_keep_their_promises),
        cmocka_unit_test(test_plenty_is_not_taken_whole),
        cmocka_unit_test(test_recurrent_state_comes_first),
        cmocka_unit_test(test_a_scarce_budget_serves_both_groups),
        cmocka_unit_test(test_f32_holds_half_as_much),
        cmocka_unit_test(test_too_little_is_refused_with_numbers),
        cmocka_unit_test(test_openings),
        cmocka_unit_test(test_longest_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
