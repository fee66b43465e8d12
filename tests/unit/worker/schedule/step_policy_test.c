/*
 * step_policy and preemption_policy on snapshots: decodes first, chunks within both budgets and by
 * arrival, the youngest preempted and no more than needed. Random snapshots assert that every plan
 * fits and that the oldest sequence always makes progress.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/schedule/preemption_policy.h"
#include "worker/schedule/step_candidate.h"
#include "worker/schedule/step_policy.h"

static struct step_candidate decode(uint32_t computed_tokens)
{
    uint32_t blocks = (computed_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    return (struct step_candidate){.decoding = true,
                                   .known_tokens = computed_tokens + 1,
                                   .computed_tokens = computed_tokens,
                                   .max_rows = UINT32_MAX,
                                   .held_blocks = {blocks}};
}

static struct step_candidate prefill(uint32_t computed_tokens, uint32_t known_tokens)
{
    struct step_candidate candidate = decode(computed_tokens);
    candidate.decoding = false;
    candidate.known_tokens = known_tokens;
    return candidate;
}

static struct step_snapshot snapshot_of(const struct step_candidate *candidates, uint32_t count,
                                        uint32_t free_blocks)
{
    return (struct step_snapshot){.group_count = 1,
                                  .free_blocks = {free_blocks},
                                  .step_tokens = 64,
                                  .mixed_prefill_tokens = 8,
                                  .image_prefill_tokens = 8,
                                  .prefill_only_tokens = 64,
                                  .candidate_count = count,
                                  .candidates = candidates};
}

static void check(const struct step_snapshot *snapshot, const uint32_t *expected)
{
    uint32_t rows[8];
    uint32_t total = 0;
    assert_int_equal(preemption_policy_survivors(snapshot), snapshot->candidate_count);
    uint32_t sum = step_policy_compose(snapshot, rows);
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        assert_int_equal(rows[i], expected[i]);
        total += rows[i];
    }
    assert_int_equal(sum, total);
}

static void test_prompts_fill_a_step_without_decodes(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(0, 40), prefill(0, 30), prefill(0, 5)};
    struct step_snapshot snapshot = snapshot_of(candidates, 3, 100);
    check(&snapshot, (const uint32_t[]){40, 24, 0});
    snapshot.prefill_only_tokens = 45; /* a slow machine */
    check(&snapshot, (const uint32_t[]){40, 5, 0});
}

static void test_decodes_go_first_and_bound_the_prompt_rows(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {decode(20), decode(32), prefill(10, 400), prefill(0, 5)};
    struct step_snapshot snapshot = snapshot_of(candidates, 4, 100);
    check(&snapshot, (const uint32_t[]){1, 1, 8, 0});
    snapshot.mixed_prefill_tokens = 1000;
    check(&snapshot, (const uint32_t[]){1, 1, 62, 0});
    snapshot.step_tokens = 2;
    check(&snapshot, (const uint32_t[]){1, 1, 0, 0});
}

/* Two steps of two halves; a stream that is alone does not wait; one that comes joins the smaller half. */
static void test_decodes_alternate_in_halves(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {decode(20), decode(32), decode(8), prefill(0, 40)};
    struct step_snapshot snapshot = snapshot_of(candidates, 4, 100);
    snapshot.halves = true;
    check(&snapshot, (const uint32_t[]){1, 1, 0, 8});
    candidates[0].is_unread = candidates[1].is_unread = true;
    check(&snapshot, (const uint32_t[]){0, 0, 1, 8});
    candidates[2].is_unread = true;
    check(&snapshot, (const uint32_t[]){0, 0, 0, 8});
    snapshot.candidate_count = 3; /* the step under way has all */
    check(&snapshot, (const uint32_t[]){0, 0, 0});
    snapshot.candidate_count = 4; /* and encoding leaves no time for a prompt with images */
    snapshot.image_prefill_tokens = 0;
    candidates[3].has_images = true;
    check(&snapshot, (const uint32_t[]){0, 0, 0, 0});
    snapshot.candidate_count = 3;
    candidates[1].ends = candidates[2].ends = true;
    check(&snapshot, (const uint32_t[]){1, 0, 0});
    snapshot.halves = false;
    candidates[1].ends = candidates[2].ends = false;
    check(&snapshot, (const uint32_t[]){1, 1, 1});
}

/* Half of the streams that are ready, rounded up. */
static void test_a_half_is_rounded_up(void **state)
{
    (void)state;
    struct step_candidate candidates[8];
    for (uint32_t count = 1; count <= 8; count++) {
        uint32_t expected[8];
        for (uint32_t i = 0; i < count; i++) {
            candidates[i] = decode(20);
            expected[i] = i < (count + 1) / 2;
        }
        struct step_snapshot snapshot = snapshot_of(candidates, count, 100);
        snapshot.halves = true;
        check(&snapshot, expected);
    }
}

/* Over many steps of streams that come and go, every stream has a row in two of three steps. */
static void test_no_half_starves(void **state)
{
    (void)state;
    struct test_random random = {.state = 7};
    struct step_candidate candidates[8];
    uint32_t rows[8], last[8] = {0}, count = 5;
    for (uint32_t i = 0; i < 8; i++)
        candidates[i] = decode(16 * i);
    bool under_way[2][8] = {{false}};
    for (uint32_t step = 1; step < 400; step++) {
        for (uint32_t i = 0; i < 8; i++)
            candidates[i].is_unread = under_way[(step - 1) % 2][i];
        struct step_snapshot snapshot = snapshot_of(candidates, count, 1000);
        snapshot.halves = true;
        uint32_t sum = step_policy_compose(&snapshot, rows);
        assert_true(sum > 0 && sum <= (count + 1) / 2);
        for (uint32_t i = 0; i < 8; i++) {
            under_way[step % 2][i] = i < count && rows[i] > 0;
            last[i] = i >= count || rows[i] > 0 ? step : last[i];
            assert_true(step - last[i] < 3);
        }
        if (test_random_below(&random, 10) == 0 && count < 8)
            count++;
    }
}

static void test_a_resumed_stream_limits_prompt_rows(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(0, 40), prefill(0, 30)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 100);
    check(&snapshot, (const uint32_t[]){40, 24});
    candidates[1].resumes = true; /* its reader waits */
    check(&snapshot, (const uint32_t[]){0, 8});
}

static void test_the_shortest_stream_resumes_first(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(0, 40), prefill(0, 6), prefill(0, 6),
                                          prefill(0, 4)};
    struct step_snapshot snapshot = snapshot_of(candidates, 4, 100);
    for (uint32_t i = 0; i < 3; i++)
        candidates[i].resumes = true;
    check(&snapshot, (const uint32_t[]){0, 6, 0, 0});
    snapshot.free_blocks[0] = 10; /* not where it could take what older ones need */
    check(&snapshot, (const uint32_t[]){8, 0, 0, 0});
    snapshot.free_blocks[0] = 11;
    check(&snapshot, (const uint32_t[]){0, 6, 0, 0});
    candidates[0] = prefill(16, 40); /* once begun, it is not overtaken */
    candidates[0].resumes = true;
    check(&snapshot, (const uint32_t[]){8, 0, 0, 0});
    candidates[1] = decode(7); /* one is back: arrival decides again */
    check(&snapshot, (const uint32_t[]){8, 1, 0, 0});
    candidates[1] = prefill(3, 6); /* as it does where others hold something */
    candidates[1].resumes = true;
    check(&snapshot, (const uint32_t[]){8, 0, 0, 0});
    candidates[0].resumes = false;
    check(&snapshot, (const uint32_t[]){8, 0, 0, 0});
}

static void test_prompts_with_images_go_slower_beside_streams(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(0, 40), prefill(0, 30), prefill(0, 9), decode(9)};
    candidates[0].has_images = candidates[2].has_images = true;
    struct step_snapshot snapshot = snapshot_of(candidates, 4, 100);
    snapshot.image_prefill_tokens = 3;
    check(&snapshot, (const uint32_t[]){3, 0, 0, 1}); /* by arrival, as ever */
    candidates[0] = prefill(0, 2);
    candidates[0].has_images = true;
    check(&snapshot, (const uint32_t[]){2, 6, 0, 1});
    candidates[1] = prefill(0, 4); /* text has the larger share, images divide theirs */
    check(&snapshot, (const uint32_t[]){2, 4, 1, 1});
    snapshot.candidate_count = 3; /* no stream waits */
    check(&snapshot, (const uint32_t[]){2, 4, 9});
}

/* Of tiles that must not be cut only those of images count. */
static void test_sounds_may_be_cut(void **state)
{
    (void)state;
    const struct image_tile tiles[] = {{.token_count = 30}, {.token_count = 30, .sound = true}};
    for (uint32_t i = 0; i < 2; i++) {
        struct step_candidate candidate = prefill(0, 40);
        candidate.whole_tiles = &tiles[i];
        candidate.whole_tile_count = 1;
        assert_int_equal(step_candidate_min_rows(&candidate), i == 0 ? 30 : 1);
        assert_int_equal(step_candidate_uncut_rows(&candidate, 20), i == 0 ? 0 : 20);
    }
}

static void test_encoding_may_leave_no_rows_to_prompts_with_images(void **state)
{
    (void)state;
    const struct image_tile tile = {.token_count = 30};
    struct step_candidate candidates[] = {prefill(0, 40), prefill(0, 6), decode(9)};
    candidates[0].has_images = true;
    struct step_snapshot snapshot = snapshot_of(candidates, 3, 100);
    snapshot.image_prefill_tokens = 0;
    check(&snapshot, (const uint32_t[]){0, 0, 1});
    candidates[0].whole_tiles = &tile; /* nor beyond the budget */
    candidates[0].whole_tile_count = 1;
    check(&snapshot, (const uint32_t[]){0, 0, 1});
    candidates[0].whole_tile_count = 0;
    candidates[1].resumes = true; /* but something moves in any case */
    snapshot.candidate_count = 2;
    snapshot.free_blocks[0] = 4;
    check(&snapshot, (const uint32_t[]){8, 0});
}

static void test_a_stream_without_blocks_delays_no_other(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(20, 30), prefill(0, 6)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 0);
    candidates[1].resumes = true;
    check(&snapshot, (const uint32_t[]){8, 0});
}

static void test_the_first_resumed_stream_has_the_step_alone(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(35, 40), prefill(0, 30), decode(9)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 100);
    candidates[0].resumes = true;
    check(&snapshot, (const uint32_t[]){5, 0}); /* nothing moves before it does */
    snapshot = snapshot_of(candidates, 3, 100);
    check(&snapshot, (const uint32_t[]){5, 3, 1});
}

static void test_a_short_prompt_shares_the_step(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {decode(20), prefill(0, 3), prefill(0, 100)};
    struct step_snapshot snapshot = snapshot_of(candidates, 3, 100);
    check(&snapshot, (const uint32_t[]){1, 3, 5});
}

static void test_chunks_shrink_to_the_free_blocks(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(8, 100), prefill(0, 10)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 2);
    /* 8 rows in its last block and 2 blocks; the next prompt must not take the blocks it lacks. */
    check(&snapshot, (const uint32_t[]){40, 0});
    snapshot.group_count = 2;
    snapshot.free_blocks[1] = 1; /* the scarcest group decides */
    check(&snapshot, (const uint32_t[]){24, 0});
    snapshot.free_blocks[1] = 0;
    check(&snapshot, (const uint32_t[]){8, 0});
}

/* Positions after the opening take none of its group's blocks, however few there are. */
static void test_openings_limit_only_sequences_within_them(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(40, 100), prefill(0, 10)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 100);
    snapshot.group_count = 2;
    snapshot.opening_tokens[1] = 40;
    check(&snapshot, (const uint32_t[]){60, 0}); /* 4 rows are left, but no block of that group */
    snapshot.free_blocks[1] = 1;
    check(&snapshot, (const uint32_t[]){60, 4});
    candidates[0] = prefill(30, 100); /* its last 10 positions of the group fill two blocks */
    check(&snapshot, (const uint32_t[]){64, 0});
    snapshot.opening_tokens[1] = 60;
    check(&snapshot, (const uint32_t[]){18, 0}); /* 2 rows in the last block, and one block */
    struct step_candidate streams[] = {decode(64), decode(32)};
    snapshot = snapshot_of(streams, 2, 2);
    snapshot.group_count = 2;
    snapshot.opening_tokens[1] = 40;
    assert_int_equal(preemption_policy_survivors(&snapshot), 1);
    snapshot.free_blocks[1] = 1;
    check(&snapshot, (const uint32_t[]){1, 1});
}

static void test_a_prompt_without_blocks_waits_while_streams_run(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {decode(20), prefill(16, 100)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 0);
    check(&snapshot, (const uint32_t[]){1, 0});
}

/* A checkpoint is due after so many rows; later sequences do not wait for the next step. */
static void test_a_prompt_that_stops_lets_others_in(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(0, 40), prefill(0, 30), prefill(0, 5)};
    struct step_snapshot snapshot = snapshot_of(candidates, 3, 100);
    candidates[0].max_rows = 32;
    check(&snapshot, (const uint32_t[]){32, 30, 2});
}

static void test_the_youngest_are_preempted(void **state)
{
    (void)state;
    /* Three of the four need a block each. */
    struct step_candidate candidates[] = {decode(32), decode(33), decode(16), decode(48)};
    struct step_snapshot snapshot = snapshot_of(candidates, 4, 3);
    assert_int_equal(preemption_policy_survivors(&snapshot), 4);
    snapshot.free_blocks[0] = 2;
    assert_int_equal(preemption_policy_survivors(&snapshot), 3);
    snapshot.free_blocks[0] = 0; /* the last one's 3 blocks are enough for the others */
    assert_int_equal(preemption_policy_survivors(&snapshot), 3);
    candidates[3] = prefill(0, 10); /* holds nothing: the next youngest goes too */
    assert_int_equal(preemption_policy_survivors(&snapshot), 2);
}

static void test_a_prompt_without_streams_preempts_younger_ones(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(32, 100), prefill(5, 50), prefill(0, 10)};
    struct step_snapshot snapshot = snapshot_of(candidates, 3, 0);
    assert_int_equal(preemption_policy_survivors(&snapshot), 1);
    candidates[0] = prefill(33, 100); /* it can move inside its last block */
    assert_int_equal(preemption_policy_survivors(&snapshot), 3);
}

static void test_a_stream_whose_last_token_is_being_drawn_gets_nothing(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {decode(32), decode(20), prefill(16, 100)};
    struct step_snapshot snapshot = snapshot_of(candidates, 3, 1);
    candidates[0].ends = true; /* so it needs no block either */
    check(&snapshot, (const uint32_t[]){0, 1, 8});
    candidates[1].ends = true; /* no stream waits for the step: the prompt has it to itself */
    check(&snapshot, (const uint32_t[]){0, 0, 16});
    snapshot.free_blocks[0] = 0; /* the prompt could not move */
    assert_int_equal(preemption_policy_survivors(&snapshot), 2);
    snapshot.candidate_count = 2;
    check(&snapshot, (const uint32_t[]){0, 0});
}

/* ROWS_A_BLOCK_LASTS of step_policy.c: for every 128 rows left, streams draw one more block. */
static void test_resuming_alone_needs_room_for_all_that_is_left(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(0, 121), prefill(0, 6)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 12);
    candidates[0].resumes = candidates[1].resumes = true;
    check(&snapshot, (const uint32_t[]){0, 6}); /* 127 rows, 7 + 2 and 0 + 2 blocks */
    snapshot.free_blocks[0] = 11;
    check(&snapshot, (const uint32_t[]){8, 0});
    candidates[0].known_tokens = 122;
    snapshot.free_blocks[0] = 12;
    check(&snapshot, (const uint32_t[]){8, 0});
    snapshot.free_blocks[0] = 13;
    check(&snapshot, (const uint32_t[]){0, 6});
    snapshot.group_count = 2; /* in every group */
    snapshot.free_blocks[1] = 12;
    check(&snapshot, (const uint32_t[]){8, 0});
}

static void test_one_computed_position_is_a_beginning(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(1, 40), prefill(0, 6)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 100);
    candidates[0].resumes = candidates[1].resumes = true;
    check(&snapshot, (const uint32_t[]){8, 0});
    candidates[0] = prefill(3, 40);
    candidates[1] = prefill(1, 6);
    candidates[1].resumes = true;
    check(&snapshot, (const uint32_t[]){8, 0});
    candidates[0] = prefill(0, 90);
    candidates[1] = prefill(90, 96); /* what is computed takes no more room */
    candidates[1].resumes = true;
    snapshot.free_blocks[0] = 10; /* 5 + 2 and 0 + 2 */
    check(&snapshot, (const uint32_t[]){0, 6});
    snapshot.free_blocks[0] = 9;
    check(&snapshot, (const uint32_t[]){8, 0});
    snapshot.free_blocks[0] = 100;
    candidates[0] = prefill(0, 40);
    candidates[1] = prefill(39, 40); /* one row is left */
    candidates[1].resumes = true;
    check(&snapshot, (const uint32_t[]){0, 1});
}

/* Without room to resume alone, one prompt at a time by arrival; beside decodes, as many as fit. */
static void test_resuming_by_arrival_takes_one_prompt_a_step(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(0, 3), prefill(0, 6), decode(9)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 4);
    candidates[1].resumes = true;
    check(&snapshot, (const uint32_t[]){3, 0});
    snapshot.candidate_count = 3;
    check(&snapshot, (const uint32_t[]){3, 5, 1});
    candidates[0] = prefill(0, 40);
    candidates[0].has_images = true;
    snapshot.candidate_count = 2;
    snapshot.image_prefill_tokens = 1;
    check(&snapshot, (const uint32_t[]){1, 0});
}

static void test_a_tile_exceeds_the_budget_as_first_chunk_only(void **state)
{
    (void)state;
    const struct image_tile tile = {.token_count = 32};
    struct step_candidate candidates[] = {prefill(0, 40), decode(9), prefill(0, 1)};
    candidates[0].whole_tiles = &tile;
    candidates[0].whole_tile_count = 1;
    struct step_snapshot snapshot = snapshot_of(candidates, 3, 100);
    check(&snapshot, (const uint32_t[]){32, 1, 0});
    snapshot.mixed_prefill_tokens = 1;
    check(&snapshot, (const uint32_t[]){32, 1, 0});
    snapshot.mixed_prefill_tokens = 40; /* all rows are within it */
    check(&snapshot, (const uint32_t[]){40, 1, 0});
    snapshot.mixed_prefill_tokens = 8;
    snapshot.free_blocks[0] = 2; /* exactly the tile's */
    check(&snapshot, (const uint32_t[]){32, 1, 0});
    snapshot.step_tokens = 33; /* and the step's rows */
    check(&snapshot, (const uint32_t[]){32, 1, 0});
    snapshot.step_tokens = 32;
    check(&snapshot, (const uint32_t[]){0, 1, 0});
    struct step_candidate later[] = {prefill(0, 1), candidates[0], decode(9)};
    snapshot = snapshot_of(later, 3, 100);
    check(&snapshot, (const uint32_t[]){1, 0, 1});
}

static void test_a_tile_waits_for_blocks_beside_streams(void **state)
{
    (void)state;
    const struct image_tile tile = {.token_count = 32};
    struct step_candidate candidates[] = {decode(9), prefill(0, 40)};
    candidates[1].whole_tiles = &tile;
    candidates[1].whole_tile_count = 1;
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 1);
    check(&snapshot, (const uint32_t[]){1, 0});
    snapshot.free_blocks[0] = 2;
    check(&snapshot, (const uint32_t[]){1, 32});
}

static void test_decodes_take_their_blocks_first(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {decode(16), prefill(0, 40)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 2);
    snapshot.mixed_prefill_tokens = 64;
    check(&snapshot, (const uint32_t[]){1, 16});
    candidates[0] = decode(15); /* its row is the last of a block */
    check(&snapshot, (const uint32_t[]){1, 32});
}

static void test_a_step_may_be_empty_while_all_wait(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(3, 40), prefill(0, 30)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 100);
    candidates[0].max_rows = candidates[1].max_rows = 0;
    check(&snapshot, (const uint32_t[]){0, 0});
    candidates[1].max_rows = 1;
    check(&snapshot, (const uint32_t[]){0, 1});
}

static void test_every_group_must_have_the_blocks(void **state)
{
    (void)state;
    for (uint32_t scarce = 0; scarce < KV_GROUPS_MAX; scarce++) {
        struct step_candidate candidates[] = {decode(16), prefill(0, 40), decode(32)};
        struct step_snapshot snapshot = snapshot_of(candidates, 2, 3);
        snapshot.group_count = KV_GROUPS_MAX;
        snapshot.mixed_prefill_tokens = 64;
        for (uint32_t group = 0; group < KV_GROUPS_MAX; group++) {
            snapshot.free_blocks[group] = group == scarce ? 2 : 9;
            candidates[0].held_blocks[group] = 1;
            candidates[2].held_blocks[group] = 2;
        }
        check(&snapshot, (const uint32_t[]){1, 16});
        snapshot.candidate_count = 3;
        snapshot.free_blocks[scarce] = 1;
        assert_int_equal(preemption_policy_survivors(&snapshot), 2);
        snapshot.free_blocks[scarce] = 2;
        check(&snapshot, (const uint32_t[]){1, 0, 1});
    }
}

/* The oldest sequence waits for features of an image at the end of its last block. */
static void test_a_waiting_prompt_preempts_only_if_no_sequence_decodes(void **state)
{
    (void)state;
    struct step_candidate candidates[] = {prefill(16, 40), prefill(16, 30)};
    struct step_snapshot snapshot = snapshot_of(candidates, 2, 0);
    candidates[0].max_rows = 0;
    assert_int_equal(preemption_policy_survivors(&snapshot), 1);
    candidates[1] = decode(17);
    assert_int_equal(preemption_policy_survivors(&snapshot), 2);
    candidates[0].max_rows = 1; /* it waits no longer */
    assert_int_equal(preemption_policy_survivors(&snapshot), 1);
}

static void test_random_plans_fit(void **state)
{
    (void)state;
    struct test_random random = {.state = 21};
    for (uint32_t round = 0; round < 20000; round++) {
        struct step_candidate candidates[8];
        uint32_t rows[8];
        uint32_t count = 1 + test_random_below(&random, 8);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t computed = test_random_below(&random, 100);
            candidates[i] = test_random_below(&random, 2)
                                ? decode(1 + computed)
                                : prefill(computed, computed + 1 + test_random_below(&random, 99));
            candidates[i].has_images = !candidates[i].decoding && test_random_below(&random, 2) > 0;
        }
        struct step_snapshot snapshot =
            snapshot_of(candidates, count, test_random_below(&random, 6));
        snapshot.step_tokens = 8 + test_random_below(&random, 100);
        if (count == 1 && snapshot.free_blocks[0] == 0)
            snapshot.free_blocks[0] = 1; /* a sequence fits alone */
        for (uint32_t i = 1; i < count && candidates[0].held_blocks[0] == 0; i++)
            candidates[i].held_blocks[0]++;
        if (snapshot.free_blocks[0] == 0 && candidates[0].computed_tokens % 16 == 0)
            snapshot.free_blocks[0] = 1;
        uint32_t survivors = preemption_policy_survivors(&snapshot);
        assert_true(survivors >= 1 && survivors <= count);
        for (uint32_t i = survivors; i < count; i++)
            snapshot.free_blocks[0] += candidates[i].held_blocks[0];
        snapshot.candidate_count = survivors;
        uint32_t total = step_policy_compose(&snapshot, rows);
        assert_true(total > 0 && total <= snapshot.step_tokens);
        uint32_t taken = 0;
        bool decodes = false;
        for (uint32_t i = 0; i < survivors; i++) {
            uint32_t after = candidates[i].computed_tokens + rows[i];
            assert_true(after <= candidates[i].known_tokens);
            assert_true(!candidates[i].decoding || rows[i] == 1);
            decodes = decodes || candidates[i].decoding;
            taken += (after + 15) / 16 - (candidates[i].computed_tokens + 15) / 16;
        }
        assert_true(taken <= snapshot.free_blocks[0]);
        assert_true(decodes || rows[0] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts_fill_a_step_without_decodes),
        cmocka_unit_test(test_decodes_go_first_and_bound_the_prompt_rows),
        cmocka_unit_test(test_decodes_alternate_in_halves),
        cmocka_unit_test(test_a_half_is_rounded_up),
        cmocka_unit_test(test_no_half_starves),
        cmocka_unit_test(test_a_resumed_stream_limits_prompt_rows),
        cmocka_unit_test(test_the_shortest_stream_resumes_first),
        cmocka_unit_test(test_prompts_with_images_go_slower_beside_streams),
        cmocka_unit_test(test_encoding_may_leave_no_rows_to_prompts_with_images),
        cmocka_unit_test(test_sounds_may_be_cut),
        cmocka_unit_test(test_a_stream_without_blocks_delays_no_other),
        cmocka_unit_test(test_the_first_resumed_stream_has_the_step_alone),
        cmocka_unit_test(test_a_short_prompt_shares_the_step),
        cmocka_unit_test(test_chunks_shrink_to_the_free_blocks),
        cmocka_unit_test(test_openings_limit_only_sequences_within_them),
        cmocka_unit_test(test_a_prompt_without_blocks_waits_while_streams_run),
        cmocka_unit_test(test_a_prompt_that_stops_lets_others_in),
        cmocka_unit_test(test_the_youngest_are_preempted),
        cmocka_unit_test(test_a_prompt_without_streams_preempts_younger_ones),
        cmocka_unit_test(test_a_stream_whose_last_token_is_being_drawn_gets_nothing),
        cmocka_unit_test(test_resuming_alone_needs_room_for_all_that_is_left),
        cmocka_unit_test(test_one_computed_position_is_a_beginning),
        cmocka_unit_test(test_resuming_by_arrival_takes_one_prompt_a_step),
        cmocka_unit_test(test_a_tile_exceeds_the_budget_as_first_chunk_only),
        cmocka_unit_test(test_a_tile_waits_for_blocks_beside_streams),
        cmocka_unit_test(test_decodes_take_their_blocks_first),
        cmocka_unit_test(test_a_step_may_be_empty_while_all_wait),
        cmocka_unit_test(test_every_group_must_have_the_blocks),
        cmocka_unit_test(test_a_waiting_prompt_preempts_only_if_no_sequence_decodes),
        cmocka_unit_test(test_random_plans_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
