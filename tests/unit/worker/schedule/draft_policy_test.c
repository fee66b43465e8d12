/*
 * draft_policy and draft_pace: no drafts before anything is measured, as many as raise the expected
 * tokens per time, none that delay other streams much. Simulations of a device with times of steps
 * in stairs compare the speed with plain decoding, for drafts that are right, wrong, or right until
 * a moment: never slower for more than eight steps in a row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/draft/draft_model.h"
#include "worker/schedule/draft_policy.h"

#define TARGET_US 100000.0
#define STREAMS   8u

/* Milliseconds of steps of SmolLM2-135M Q4_1, one AVX-512 thread, `build/step_bench --drafted`,
 * 2026-11-24. */
static double smollm_us(uint32_t rows)
{
    static const double ms[] = {0, 5.33, 6.70, 9.60, 11.10, 12.63, 14.20, 15.99, 17.97};
    return 1000.0 * (rows <= 8 ? ms[rows] : 17.97 + 1.66 * (rows - 8));
}

/* Every row costs as much as the first. */
static double even_us(uint32_t rows)
{
    return 5000.0 * rows;
}

/* Rows up to 16 cost nothing, as on a GPU that waits for its weights. */
static double flat_us(uint32_t rows)
{
    return rows <= 16 ? 2000.0 : 2000.0 + 400.0 * (rows - 16);
}

static struct draft_pace measured(double (*step_us)(uint32_t rows))
{
    struct draft_pace pace = {0};
    for (uint32_t rows = 1; rows <= DRAFT_PACE_ROWS; rows++)
        pace.step_us[rows] = step_us(rows);
    return pace;
}

static struct draft_proposal proposal_of(uint32_t count, uint8_t class)
{
    struct draft_proposal proposal = {.count = count};
    for (uint32_t i = 0; i < count; i++)
        proposal.classes[i] = class;
    return proposal;
}

static uint32_t choose(const struct draft_pace *pace, uint32_t streams, uint32_t candidates,
                       uint32_t drafts, uint8_t class, uint32_t *counts)
{
    const struct draft_proposal proposal = proposal_of(drafts, class);
    struct draft_candidate list[STREAMS];
    for (uint32_t i = 0; i < candidates; i++)
        list[i] = (struct draft_candidate){.proposal = &proposal, .trust = 1.0};
    return draft_policy_choose(pace,
                               &(struct draft_request){.streams = streams,
                                                       .candidate_count = candidates,
                                                       .candidates = list,
                                                       .most_drafts = 64,
                                                       .target_us = TARGET_US},
                               counts);
}

static void test_nothing_is_drafted_before_a_plain_step(void **state)
{
    (void)state;
    struct draft_pace pace = {0};
    uint32_t counts[1];
    assert_int_equal(choose(&pace, 1, 1, 8, DRAFT_CLASS_CERTAIN, counts), 0);
    pace = measured(smollm_us);
    assert_int_equal(choose(&pace, 1, 0, 8, DRAFT_CLASS_CERTAIN, counts), 0);
    assert_int_equal(choose(&pace, 1, 1, 0, DRAFT_CLASS_CERTAIN, counts), 0);
}

static void test_certain_tokens_are_all_drafted_where_rows_are_cheaper(void **state)
{
    (void)state;
    struct draft_pace pace = measured(smollm_us);
    uint32_t counts[1];
    assert_int_equal(choose(&pace, 1, 1, LIMIT_DRAFT_TOKENS, DRAFT_CLASS_CERTAIN, counts),
                     LIMIT_DRAFT_TOKENS);
    pace = measured(even_us);
    assert_int_equal(choose(&pace, 1, 1, LIMIT_DRAFT_TOKENS, DRAFT_CLASS_CERTAIN, counts), 0);
}

static void test_more_drafts_for_more_reliable_classes(void **state)
{
    (void)state;
    const struct draft_pace pace = measured(flat_us);
    uint32_t before = 0, counts[1];
    for (uint8_t class = 0; class < DRAFT_CLASSES; class ++) {
        uint32_t count = choose(&pace, 1, 1, LIMIT_DRAFT_TOKENS, class, counts);
        assert_int_equal(count, counts[0]);
        assert_true(count >= before && count >= 15); /* free rows are always used */
        before = count;
    }
    assert_int_equal(before, 15);
}

/* Two streams with other acceptances share the rows by survival. */
static void test_the_surest_drafts_first(void **state)
{
    (void)state;
    const struct draft_pace pace = measured(flat_us);
    const struct draft_proposal sure = proposal_of(12, 4), doubtful = proposal_of(12, 0);
    const struct draft_candidate list[] = {{&doubtful, 1.0}, {&sure, 1.0}, {&sure, 0.2}};
    uint32_t counts[3];
    uint32_t sum = draft_policy_choose(&pace,
                                       &(struct draft_request){.streams = 3,
                                                               .candidate_count = 3,
                                                               .candidates = list,
                                                               .most_drafts = 13,
                                                               .target_us = TARGET_US},
                                       counts);
    assert_int_equal(sum, counts[0] + counts[1] + counts[2]);
    assert_true(sum <= 13);
    assert_true(counts[1] > counts[2] && counts[1] > counts[0]);
}

static void test_streams_without_drafts_hardly_wait(void **state)
{
    (void)state;
    const struct draft_pace pace = measured(smollm_us);
    uint32_t counts[STREAMS];
    for (uint32_t streams = 2; streams <= STREAMS; streams++) {
        uint32_t sum = choose(&pace, streams, 1, 31, DRAFT_CLASS_CERTAIN, counts);
        assert_true(smollm_us(streams + sum) <= 1.25 * smollm_us(streams));
        /* If all draft, all gain. */
        sum = choose(&pace, streams, streams, 8, DRAFT_CLASS_CERTAIN, counts);
        assert_true(sum > streams);
        assert_true(smollm_us(streams + sum) <= TARGET_US);
    }
}

static void test_limits(void **state)
{
    (void)state;
    const struct draft_pace pace = measured(flat_us);
    const struct draft_proposal proposal = proposal_of(LIMIT_DRAFT_TOKENS, DRAFT_CLASS_CERTAIN);
    const struct draft_candidate candidate = {&proposal, 1.0};
    struct draft_request request = {
        .streams = 1, .candidate_count = 1, .candidates = &candidate, .target_us = TARGET_US};
    uint32_t counts[1];
    for (request.most_drafts = 0; request.most_drafts < 16; request.most_drafts++)
        assert_int_equal(draft_policy_choose(&pace, &request, counts), request.most_drafts);
    request.streams = 1000; /* more than are measured */
    assert_int_equal(draft_policy_choose(&pace, &request, counts), 0);
}

/* --- draft models ------------------------------------------------------------------------------ */

/* A round of a draft model takes so many milliseconds, whatever its rows. */
static uint32_t depth(double (*step_us)(uint32_t rows), double round_ms, double accepted)
{
    struct draft_pace pace = measured(step_us);
    const double trust = 1.0;
    for (uint32_t rows = 1; rows <= DRAFT_PACE_ROWS; rows++)
        pace.round_us[rows] = 1000.0 * round_ms;
    pace.judged[DRAFT_CLASS_MODEL] = 1000.0;
    pace.accepted[DRAFT_CLASS_MODEL] = 1000.0 * accepted;
    return draft_policy_depth(&pace,
                              &(struct draft_depth_request){.streams = 1,
                                                            .candidate_count = 1,
                                                            .trusts = &trust,
                                                            .most_tokens = DRAFT_MODEL_TOKENS,
                                                            .first_rows = 1,
                                                            .target_us = TARGET_US});
}

static void test_rounds_of_a_draft_model(void **state)
{
    (void)state;
    assert_int_equal(depth(flat_us, 0.01, 0.97), DRAFT_MODEL_TOKENS);
    assert_int_equal(depth(flat_us, 2.0, 0.5), 0); /* as slow as the target */
    assert_int_equal(depth(even_us, 0.01, 0.97), 0);
    assert_int_equal(depth(flat_us, 0.2, 0.0), 0);
    uint32_t before = DRAFT_MODEL_TOKENS;
    for (double accepted = 0.95; accepted > 0.0; accepted -= 0.1) {
        uint32_t now = depth(flat_us, 0.2, accepted);
        assert_true(now <= before);
        before = now;
    }
    assert_true(depth(flat_us, 0.2, 0.75) > depth(flat_us, 0.6, 0.75));
    struct draft_pace nothing = {0};
    const double trust = 1.0;
    assert_int_equal(
        draft_policy_depth(&nothing, &(struct draft_depth_request){.streams = 1,
                                                                   .candidate_count = 1,
                                                                   .trusts = &trust,
                                                                   .most_tokens = 8,
                                                                   .first_rows = 1,
                                                                   .target_us = TARGET_US}),
        0);
}

/* The depth has the most expected tokens per time of all depths, computed here in another order. */
static void test_depth_is_the_best_one(void **state)
{
    (void)state;
    struct test_random random = {.state = 20261127};
    for (uint32_t trial = 0; trial < 300; trial++) {
        struct draft_pace pace = measured(trial % 2 ? smollm_us : flat_us);
        uint32_t streams = 1 + test_random_below(&random, 6);
        double trusts[6], round_us = 1.0 + test_random_below(&random, 3000);
        for (uint32_t i = 0; i < streams; i++)
            trusts[i] = 0.2 + test_random_below(&random, 100) / 100.0;
        for (uint32_t rows = 1; rows <= DRAFT_PACE_ROWS; rows++)
            pace.round_us[rows] = round_us;
        pace.judged[DRAFT_CLASS_MODEL] = 1e6;
        pace.accepted[DRAFT_CLASS_MODEL] = 1e4 * test_random_below(&random, 100);
        double share = draft_pace_model_acceptance(&pace);
        double rates[DRAFT_MODEL_TOKENS + 1];
        for (uint32_t rounds = 0; rounds <= DRAFT_MODEL_TOKENS; rounds++) {
            double tokens = 0.0;
            for (uint32_t i = 0; i < streams; i++) {
                double each = share * trusts[i] < 0.99 ? share * trusts[i] : 0.99;
                double sum = 1.0;
                for (uint32_t j = 0; j < rounds; j++) /* Horner: 1 + a (1 + a (1 + ...)) */
                    sum = 1.0 + each * sum;
                tokens += sum;
            }
            rates[rounds] =
                tokens / (draft_pace_step_us(&pace, streams * (1 + rounds)) + rounds * round_us);
        }
        uint32_t chosen = draft_policy_depth(
            &pace, &(struct draft_depth_request){.streams = streams,
                                                 .candidate_count = streams,
                                                 .trusts = trusts,
                                                 .most_tokens = DRAFT_MODEL_TOKENS,
                                                 .first_rows = streams,
                                                 .target_us = TARGET_US});
        for (uint32_t rounds = 0; rounds <= DRAFT_MODEL_TOKENS; rounds++)
            assert_true(rates[chosen] * (chosen == 0 ? 1.031 : 1.0 + 1e-9) >= rates[rounds]);
    }
}

/* A drafter of blocks pays for one round of 1 + r rows a stream, whatever r is: the best r, computed here in
 * another way. */
static void test_length_of_blocks(void **state)
{
    (void)state;
    struct test_random random = {.state = 20261129};
    uint32_t longest = 0;
    for (uint32_t trial = 0; trial < 300; trial++) {
        struct draft_pace pace = measured(trial % 2 ? smollm_us : flat_us);
        uint32_t streams = 1 + test_random_below(&random, 4), best = 0;
        double trusts[4], row_us = test_random_below(&random, 200);
        for (uint32_t i = 0; i < streams; i++)
            trusts[i] = 1.0;
        for (uint32_t rows = 1; rows <= DRAFT_PACE_ROWS; rows++)
            pace.round_us[rows] = 100.0 + row_us * rows;
        pace.judged[DRAFT_CLASS_MODEL] = 1e6;
        pace.accepted[DRAFT_CLASS_MODEL] = 1e4 * test_random_below(&random, 100);
        double share = draft_pace_model_acceptance(&pace), tokens = streams, survival = streams;
        double most = 1.03 * streams / draft_pace_step_us(&pace, streams);
        for (uint32_t length = 1; length <= DRAFT_BLOCK_TOKENS; length++) {
            uint32_t rows = streams * (1 + length);
            survival *= share < 0.99 ? share : 0.99;
            tokens += survival;
            double rate = tokens / (draft_pace_step_us(&pace, rows) + pace.round_us[rows]);
            if (rate > most) {
                most = rate;
                best = length;
            }
        }
        uint32_t chosen = draft_policy_depth(
            &pace, &(struct draft_depth_request){.streams = streams,
                                                 .candidate_count = streams,
                                                 .trusts = trusts,
                                                 .most_tokens = DRAFT_BLOCK_TOKENS,
                                                 .is_block = true,
                                                 .target_us = 1e9});
        assert_int_equal(chosen, best);
        longest = chosen > longest ? chosen : longest;
    }
    assert_true(longest > DRAFT_MODEL_TOKENS);
}

/* --- simulations ------------------------------------------------------------------------------- */

struct device {
    double (*step_us)(uint32_t rows);
    double noise; /* a step takes up to this share longer, */
    struct test_random random;
};

static double run_us(struct device *device, uint32_t rows)
{
    double share = (double)test_random_below(&device->random, 1000) / 1000.0;
    return device->step_us(rows) * (1.0 + device->noise * share);
}

struct outcome {
    double speed;     /* tokens per time, plain decoding = 1 */
    uint32_t longest; /* most steps with drafts in a row that are slower together than plain ones */
};

/* One stream for `steps` steps; each proposed token is right with `right` percent, from step `turn`
 * on with `later`. Proposals are of class `class`, whatever they are worth. */
static struct outcome simulate(struct device *device, uint32_t steps, uint8_t class, uint32_t right,
                               uint32_t turn, uint32_t later)
{
    struct draft_pace pace = {0};
    struct outcome outcome = {0};
    double tokens = 0.0, taken_us = 0.0, slower_us = 0.0;
    uint32_t row = 0;
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t counts[1] = {0};
        (void)choose(&pace, 1, 1, LIMIT_DRAFT_TOKENS, class, counts);
        double time_us = run_us(device, 1 + counts[0]);
        uint32_t drawn = 1, likely = step < turn ? right : later;
        if (counts[0] == 0) /* proposals are judged all the same */
            draft_pace_note_draft(&pace, class, test_random_below(&device->random, 100) < likely);
        for (bool good = true; drawn <= counts[0] && good; drawn += good) {
            good = test_random_below(&device->random, 100) < likely;
            draft_pace_note_draft(&pace, class, good);
        }
        draft_pace_note_step(&pace, &(struct draft_step){.streams = 1,
                                                         .rows = 1 + counts[0],
                                                         .generated_tokens = drawn,
                                                         .time_us = time_us});
        tokens += drawn;
        taken_us += time_us;
        /* Time lost against plain steps since it last caught up. */
        slower_us += time_us - drawn * device->step_us(1) * (1.0 + device->noise / 2.0);
        row = counts[0] == 0 ? 0 : row + 1;
        if (slower_us <= 0.0 || row == 0) {
            slower_us = 0.0;
            row = 0;
        }
        outcome.longest = row > outcome.longest ? row : outcome.longest;
    }
    double plain_us = device->step_us(1) * (1.0 + device->noise / 2.0);
    outcome.speed = tokens / taken_us * plain_us;
    return outcome;
}

/* One stream whose draft model is right with `right` percent; a round takes `round_us`. */
static struct outcome simulate_model(struct device *device, double round_us, uint32_t right)
{
    struct draft_pace pace = {0};
    struct outcome outcome = {0};
    double tokens = 0.0, taken_us = 0.0, slower_us = 0.0;
    uint32_t row = 0;
    const double trust = 1.0;
    for (uint32_t step = 0; step < 2000; step++) {
        uint32_t rounds = 0, drawn = 1;
        const struct draft_depth_request request = {.streams = 1,
                                                    .candidate_count = 1,
                                                    .trusts = &trust,
                                                    .most_tokens = DRAFT_MODEL_TOKENS,
                                                    .first_rows = 1,
                                                    .target_us = TARGET_US};
        if (step > 0 && !draft_pace_model_is_paused(&pace)) {
            rounds = draft_policy_depth(&pace, &request);
            if (rounds == 0)
                draft_pace_rest(&pace);
        }
        for (uint32_t i = 0; i < rounds; i++)
            draft_pace_note_round(&pace, 1, round_us);
        double time_us = run_us(device, 1 + rounds);
        for (bool good = true; drawn <= rounds && good; drawn += good) {
            good = test_random_below(&device->random, 100) < right;
            draft_pace_note_draft(&pace, DRAFT_CLASS_MODEL + 2, good);
        }
        draft_pace_note_step(&pace, &(struct draft_step){.streams = 1,
                                                         .rows = 1 + rounds,
                                                         .generated_tokens = drawn,
                                                         .time_us = time_us,
                                                         .rounds_us = rounds * round_us});
        tokens += drawn;
        taken_us += time_us + rounds * round_us;
        slower_us += time_us + rounds * round_us - drawn * device->step_us(1);
        row = rounds == 0 ? 0 : row + 1;
        if (slower_us <= 0.0 || row == 0) {
            slower_us = 0.0;
            row = 0;
        }
        outcome.longest = row > outcome.longest ? row : outcome.longest;
    }
    outcome.speed = tokens / taken_us * device->step_us(1);
    return outcome;
}

static void test_draft_models_are_used_where_they_pay(void **state)
{
    (void)state;
    struct device device = {.step_us = flat_us, .random = {.state = 50}};
    assert_true(simulate_model(&device, 200.0, 80).speed > 1.8);
    device.step_us = smollm_us;
    assert_true(simulate_model(&device, 500.0, 85).speed > 1.15);
    for (uint32_t right = 0; right <= 40; right += 20) {
        struct outcome outcome = simulate_model(&device, 2000.0, right);
        assert_true(outcome.speed > 0.97);
        assert_true(outcome.longest <= DRAFT_PACE_LOSING);
    }
}

static void test_right_drafts_are_faster(void **state)
{
    (void)state;
    struct device device = {.step_us = smollm_us, .noise = 0.1, .random = {.state = 5}};
    assert_true(simulate(&device, 400, 5, 99, 400, 0).speed > 2.2);
    assert_true(simulate(&device, 400, 3, 80, 400, 0).speed > 1.3);
    device.step_us = flat_us;
    assert_true(simulate(&device, 400, 3, 80, 400, 0).speed > 3.0);
    assert_true(simulate(&device, 400, 0, 50, 400, 0).speed > 1.6);
}

/* However reliable the class was said to be. */
static void test_wrong_drafts_cost_little(void **state)
{
    (void)state;
    for (uint8_t class = 0; class < DRAFT_CLASS_CERTAIN; class ++) {
        for (uint32_t right = 0; right <= 20; right += 10) {
            struct device device = {
                .step_us = smollm_us, .noise = 0.3, .random = {.state = 10 + class}};
            assert_true(simulate(&device, 2000, class, right, 2000, 0).speed > 0.985);
            device.noise = 0.0;
            struct outcome outcome = simulate(&device, 2000, class, right, 2000, 0);
            assert_true(outcome.speed > 0.99);
            assert_true(outcome.longest <= DRAFT_PACE_LOSING);
        }
    }
}

/* Rows that save no time are given up, even for drafts that are always right. */
static void test_expensive_rows_cost_little(void **state)
{
    (void)state;
    struct device device = {.step_us = even_us, .noise = 0.1, .random = {.state = 30}};
    struct outcome outcome = simulate(&device, 2000, 5, 100, 2000, 0);
    assert_true(outcome.speed > 0.97);
}

static void test_a_change_is_followed(void **state)
{
    (void)state;
    struct device device = {.step_us = smollm_us, .random = {.state = 40}};
    struct outcome outcome = simulate(&device, 600, 5, 98, 300, 0);
    assert_true(outcome.speed > 1.3);
    assert_true(outcome.longest <= DRAFT_PACE_LOSING);
}

/* Eight steps that lose time in a row end in a pause, and each next pause is longer. */
static void test_pauses(void **state)
{
    (void)state;
    struct draft_pace pace = measured(even_us);
    const struct draft_step bad = {
        .streams = 1, .rows = 4, .generated_tokens = 1, .time_us = 20000.0};
    const struct draft_step plain = {
        .streams = 1, .rows = 1, .generated_tokens = 1, .time_us = 5000.0};
    uint32_t before = 0;
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < DRAFT_PACE_LOSING; i++) {
            assert_false(draft_pace_is_paused(&pace));
            draft_pace_note_step(&pace, &bad);
        }
        uint32_t steps = 0;
        for (; draft_pace_is_paused(&pace); steps++)
            draft_pace_note_step(&pace, &plain);
        assert_true(steps > before && steps >= 16);
        before = steps;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_drafted_before_a_plain_step),
        cmocka_unit_test(test_certain_tokens_are_all_drafted_where_rows_are_cheaper),
        cmocka_unit_test(test_more_drafts_for_more_reliable_classes),
        cmocka_unit_test(test_the_surest_drafts_first),
        cmocka_unit_test(test_streams_without_drafts_hardly_wait),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_rounds_of_a_draft_model),
        cmocka_unit_test(test_depth_is_the_best_one),
        cmocka_unit_test(test_length_of_blocks),
        cmocka_unit_test(test_draft_models_are_used_where_they_pay),
        cmocka_unit_test(test_right_drafts_are_faster),
        cmocka_unit_test(test_wrong_drafts_cost_little),
        cmocka_unit_test(test_expensive_rows_cost_little),
        cmocka_unit_test(test_a_change_is_followed),
        cmocka_unit_test(test_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
