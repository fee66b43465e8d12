/*
 * Rules of speech: the first token, pairs of timestamps that do not decrease, and timestamps that are likelier
 * than all text. A golden file of transformers' processor is compared through the API (tests/api/transcriptions_test.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/test_random.h"
#include "worker/sample/row_sampler.h"
#include "worker/sample/speech_filter.h"

/* Text 0 to 9, the end 10, 11, <|notimestamps|> 12, timestamps 13 to 19. */
#define VOCAB 20u
#define END   10u
#define FIRST 13u

static const struct speech_rules rules = {
    .timestamps = FIRST, .end = END, .first_from = FIRST, .first_to = FIRST + 3, .blank = 1 + 4};

static uint32_t allowed(const struct speech_rules *by, const uint32_t *generated, uint32_t count,
                        const float *logits)
{
    float row[VOCAB] = {0};
    uint32_t bits = 0;
    if (logits)
        memcpy(row, logits, sizeof row);
    else
        for (uint32_t token = 0; token < FIRST; token++)
            row[token] = 9.0f; /* timestamps are unlikely */
    speech_filter_apply(by, generated, count, row, VOCAB);
    for (uint32_t token = 0; token < VOCAB; token++)
        bits |= (row[token] > -INFINITY ? 1u : 0u) << token;
    return bits;
}

static uint32_t range(uint32_t from, uint32_t to)
{
    return (1u << to) - (1u << from);
}

static void test_the_first_token(void **state)
{
    (void)state;
    struct speech_rules other = {.first_from = 3, .first_to = 6, .blank = 1 + 4};
    assert_int_equal(allowed(&rules, NULL, 0, NULL), range(FIRST, FIRST + 3));
    assert_int_equal(allowed(&other, NULL, 0, NULL), 1u << 3 | 1u << 5);
    other.first_from = other.first_to = 0;
    assert_int_equal(allowed(&other, NULL, 0, NULL), range(0, VOCAB) - (1u << 4));
    assert_int_equal(allowed(&other, (uint32_t[]){7}, 1, NULL), range(0, VOCAB));
    other = (struct speech_rules){.timestamps = VOCAB + 5, .first_to = 2 * VOCAB};
    assert_int_equal(allowed(&other, NULL, 0, NULL), range(0, VOCAB)); /* beyond the vocabulary */
}

static void test_timestamps(void **state)
{
    (void)state;
    const uint32_t special = range(END, FIRST - 1), text = range(0, END);
    /* text, or another timestamp, but not this one */
    assert_int_equal(allowed(&rules, (uint32_t[]){FIRST}, 1, NULL), text | special);
    assert_int_equal(allowed(&rules, (uint32_t[]){FIRST + 2, 3}, 2, NULL),
                     text | special | range(FIRST + 3, VOCAB));
    /* closes with the same time or a later one */
    assert_int_equal(allowed(&rules, (uint32_t[]){FIRST + 2, 3, FIRST + 4}, 3, NULL),
                     special | range(FIRST + 4, VOCAB));
    assert_int_equal(allowed(&rules, (uint32_t[]){FIRST, 3, FIRST + 4, FIRST + 5}, 4, NULL),
                     text | special);
    assert_int_equal(allowed(&rules, (uint32_t[]){FIRST, 3, FIRST + 4, FIRST + 5, 1}, 5, NULL),
                     text | special | range(FIRST + 6, VOCAB));
}

static void test_likely_timestamps(void **state)
{
    (void)state;
    float logits[VOCAB] = {0};
    static const uint32_t before[] = {FIRST, 3};
    logits[2] = 1.0f; /* e^1 is less than six timestamps, and more than two */
    assert_int_equal(allowed(&rules, before, 2, logits), range(FIRST + 1, VOCAB));
    static const uint32_t late[] = {FIRST + 4, 3};
    assert_int_equal(allowed(&rules, late, 2, logits),
                     range(0, FIRST - 1) | range(FIRST + 5, VOCAB));
    for (uint32_t token = FIRST; token < VOCAB; token++)
        logits[token] = -INFINITY; /* barred by a bias */
    assert_int_equal(allowed(&rules, before, 2, logits), range(0, FIRST - 1));
}

/* Log-probabilities are those of the row after the rules; the draw obeys them. */
static void test_draws(void **state)
{
    (void)state;
    struct row_sampler *sampler = row_sampler_create(VOCAB);
    struct sampling_params params = sampling_params_default();
    static const uint32_t history[] = {1, 2, FIRST + 1, 5, FIRST + 5};
    float logits[VOCAB];
    for (uint32_t token = 0; token < VOCAB; token++)
        logits[token] = (float)(token % 7) / 4.0f;
    struct row_sampling sampling = {.params = &params,
                                    .history = history,
                                    .speech = &rules,
                                    .position = 5,
                                    .first_generated = 2,
                                    .wants_logprob = true};
    assert_true(row_sampling_needs_history(&sampling));
    struct sampled_token drawn = row_sampler_draw(sampler, logits, &sampling);
    float row[VOCAB];
    double sum = 0;
    memcpy(row, logits, sizeof row);
    speech_filter_apply(&rules, history + 2, 3, row, VOCAB);
    for (uint32_t token = 0; token < VOCAB; token++)
        sum += exp((double)row[token]);
    assert_true(row[drawn.token] > -INFINITY);
    assert_true(fabs((double)drawn.logprob - ((double)row[drawn.token] - log(sum))) < 1e-5);
    params.temperature = 1.0f;
    for (uint32_t seed = 0; seed < 200; seed++) {
        params.seed = seed;
        assert_true(row[row_sampler_draw(sampler, logits, &sampling).token] > -INFINITY);
    }
    row_sampler_destroy(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_token), cmocka_unit_test(test_timestamps),
        cmocka_unit_test(test_likely_timestamps), cmocka_unit_test(test_draws)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
