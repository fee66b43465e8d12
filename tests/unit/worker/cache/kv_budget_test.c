/*
 * kv_budget: never over the limit, every group has blocks, the promised context fits, memory beyond
 * the need is not taken, and too little memory is an error with the numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

static void test_excess_memory_is_not_taken(void **state)
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

/* A group has at most UINT32_MAX - 1 blocks: UINT32_MAX is KV_BLOCK_NONE. */
static void test_blocks_are_at_most_their_numbers(void **state)
{
    (void)state;
    struct kv_layout layout = {.group_count = 1};
    layout.groups[0] =
        (struct kv_group){.kind = KV_FULL, .layers = 1, .kv_heads = 1, .head_dim = 64};
    struct kv_budget_request request = request_of(1ull << 62);
    request.context_tokens = 1u << 30;
    struct kv_budget budget;
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
    assert_int_equal(budget.blocks[0], UINT32_MAX - 1);
    request.context_tokens = (1u << 30) - KV_BLOCK_TOKENS;
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
    assert_int_equal(budget.blocks[0], UINT32_MAX - 63);
}

/* A sliding group has a window for each sequence, one step's rows and a block that a sequence
 * straddles; the bytes wanted are those of all groups. */
static void test_the_need_is_exact(void **state)
{
    (void)state;
    struct kv_layout layout = gemma_like();
    for (uint32_t sequences = 1; sequences <= 64; sequences += 21) {
        struct kv_budget_request request = request_of(1ull << 40);
        request.max_sequences = sequences;
        request.state_slot_bytes = 1000;
        request.keeps_checkpoints = true;
        struct kv_budget budget;
        assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
        uint32_t window = kv_layout_blocks_needed(&layout, 1, 32768, 1);
        uint32_t step = kv_layout_blocks_needed(&layout, 1, 32768, 512);
        assert_true(step > window);
        assert_int_equal(budget.blocks[0], sequences * (32768 / KV_BLOCK_TOKENS));
        assert_int_equal(budget.blocks[1], (sequences - 1) * window + step + sequences);
        assert_int_equal(budget.state_bytes, sequences * 1000);
        assert_int_equal(budget.checkpoint_bytes, 4 * sequences * 1000);
        assert_int_equal(budget.bytes, bytes_of(&layout, &budget, 2));
        assert_int_equal(budget.wanted_bytes,
                         budget.bytes + budget.state_bytes + budget.checkpoint_bytes);
        /* Exactly so much memory is enough: half of it is more than the windows take. */
        request.state_slot_bytes = 0;
        request.limit_bytes = budget.bytes;
        struct kv_budget same;
        assert_int_equal(kv_budget_plan(&layout, &request, &same, NULL), RESULT_OK);
        if (budget.blocks[1] * kv_layout_block_bytes(&layout, 1, 2) <= budget.bytes / 2)
            assert_memory_equal(same.blocks, budget.blocks, sizeof same.blocks);
    }
}

/* Beside a full group windows get half of the memory; alone they get all. */
static void test_windows_have_at_most_half_beside_a_full_group(void **state)
{
    (void)state;
    struct kv_layout layout = gemma_like();
    const uint64_t block = kv_layout_block_bytes(&layout, 1, 2);
    struct kv_budget_request request = request_of(200 * block);
    struct kv_budget budget;
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
    assert_in_range(budget.blocks[1], 99, 100);
    layout.groups[0] = layout.groups[1];
    layout.group_count = 1;
    request.limit_bytes = 200 * kv_layout_block_bytes(&layout, 0, 2);
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
    assert_in_range(budget.blocks[0], 199, 200);
}

/* A step's rows of one sequence are the least; with one block fewer the error says how many bytes. */
static void test_the_least_memory_is_exact(void **state)
{
    (void)state;
    struct kv_layout layout = {.group_count = 1};
    layout.groups[0] =
        (struct kv_group){.kind = KV_FULL, .layers = 3, .kv_heads = 1, .head_dim = 256};
    const uint64_t block = kv_layout_block_bytes(&layout, 0, 2);
    struct kv_budget_request request = request_of(512 / KV_BLOCK_TOKENS * block);
    struct kv_budget budget;
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
    assert_int_equal(budget.context_tokens, 512);
    assert_int_equal(budget.blocks[0], 512 / KV_BLOCK_TOKENS);
    request.limit_bytes -= 1;
    struct error_text error = {""};
    assert_int_equal(kv_budget_plan(&layout, &request, &budget, &error), RESULT_TOO_LARGE);
    char words[64];
    snprintf(words, sizeof words, "512 tokens needs %llu bytes or more",
             (unsigned long long)(32 * block));
    assert_non_null(strstr(error.text, words));
    assert_non_null(strstr(error.text, "holds 496 tokens"));
}

static void test_memory_decides_the_number_of_sequences(void **state)
{
    (void)state;
    struct kv_layout layout = gemma_like();
    struct kv_budget_request request = request_of(1);
    request.max_sequences = 512;
    assert_int_equal(kv_budget_sequences(&layout, &request), 64);
    uint64_t bytes = 0;
    for (uint32_t group = 0; group < layout.group_count; group++)
        bytes +=
            (uint64_t)kv_layout_blocks_needed(
                &layout, group, request.context_tokens < 2048 ? request.context_tokens : 2048, 1) *
            kv_layout_block_bytes(&layout, group, request.element_bytes);
    request.limit_bytes = 200 * bytes;
    assert_int_equal(kv_budget_sequences(&layout, &request), 192);
    request.max_sequences = 100;
    assert_int_equal(kv_budget_sequences(&layout, &request), 100);
    request.max_sequences = 512;
    request.limit_bytes = 10000 * bytes;
    assert_int_equal(kv_budget_sequences(&layout, &request), 512);
    request.limit_bytes = UINT64_MAX;
    assert_int_equal(kv_budget_sequences(&layout, &request), 512);
    request.limit_bytes = 200 * bytes;
    request.state_slot_bytes = bytes / 4; /* half of a sequence's bytes more */
    assert_int_equal(kv_budget_sequences(&layout, &request), 128);
}

/* Blocks of a draft model lie beside those of the first full group, wherever it is. */
static void test_draft_models_need_memory_once(void **state)
{
    (void)state;
    struct kv_layout layout = {.group_count = 3};
    layout.groups[0] = (struct kv_group){
        .kind = KV_SLIDING, .window = 512, .layers = 15, .kv_heads = 1, .head_dim = 64};
    layout.groups[1] = layout.groups[2] =
        (struct kv_group){.kind = KV_FULL, .layers = 3, .kv_heads = 1, .head_dim = 64};
    struct kv_budget_request request = request_of(0);
    request.max_sequences = 512;
    request.draft_block_bytes = 1u << 20;
    uint64_t bytes = kv_layout_blocks_needed(&layout, 1, 2048, 1) * request.draft_block_bytes;
    for (uint32_t group = 0; group < layout.group_count; group++)
        bytes += (uint64_t)kv_layout_blocks_needed(&layout, group, 2048, 1) *
                 kv_layout_block_bytes(&layout, group, request.element_bytes);
    request.limit_bytes = 128 * bytes;
    assert_int_equal(kv_budget_sequences(&layout, &request), 128);
    request.limit_bytes--;
    assert_int_equal(kv_budget_sequences(&layout, &request), 64);
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

/* The full-precision start has at most half, and room for one sequence's whole start. */
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

/* Half of the memory that holds one sequence's start exactly is enough, whichever number the group
 * has; two bytes less are not. */
static void test_the_least_opening_is_exact(void **state)
{
    (void)state;
    for (uint32_t opening = 0; opening < 2; opening++) {
        struct kv_layout layout = {.group_count = 2,
                                   .quantization = {KV_QUANT_TURBOQUANT, 8, 8, 0, 5000}};
        layout.groups[1 - opening] = (struct kv_group){
            .kind = KV_FULL, .layers = 3, .kv_heads = 1, .head_dim = 256, .quantized = true};
        layout.groups[opening] = (struct kv_group){.kind = KV_OPENING,
                                                   .layers = 3,
                                                   .kv_heads = 1,
                                                   .head_dim = 256,
                                                   .opening = 5000,
                                                   .opening_of = 1 - opening};
        struct kv_budget_request request =
            request_of(2 * 313 * kv_layout_block_bytes(&layout, opening, 2));
        request.max_sequences = 1;
        struct kv_budget budget;
        assert_int_equal(kv_budget_plan(&layout, &request, &budget, NULL), RESULT_OK);
        assert_int_equal(budget.blocks[opening], 313);
        request.limit_bytes -= 2;
        struct error_text error = {""};
        assert_int_equal(kv_budget_plan(&layout, &request, &budget, &error), RESULT_TOO_LARGE);
        assert_non_null(strstr(error.text, "--quantized-kv-start 5000"));
    }
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
        cmocka_unit_test(test_excess_memory_is_not_taken),
        cmocka_unit_test(test_blocks_are_at_most_their_numbers),
        cmocka_unit_test(test_the_need_is_exact),
        cmocka_unit_test(test_windows_have_at_most_half_beside_a_full_group),
        cmocka_unit_test(test_the_least_memory_is_exact),
        cmocka_unit_test(test_memory_decides_the_number_of_sequences),
        cmocka_unit_test(test_draft_models_need_memory_once),
        cmocka_unit_test(test_recurrent_state_comes_first),
        cmocka_unit_test(test_a_scarce_budget_serves_both_groups),
        cmocka_unit_test(test_f32_holds_half_as_much),
        cmocka_unit_test(test_too_little_is_refused_with_numbers),
        cmocka_unit_test(test_openings),
        cmocka_unit_test(test_the_least_opening_is_exact),
        cmocka_unit_test(test_longest_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
