/*
 * row_sampler compared with the formulas of row_sampler.h written plainly (tests/support). The
 * reference also reports how close its decision was. If a draw is within rounding of a limit,
 * either token is right, and the tests check that this is rare.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/sampling_reference.h"
#include "worker/sample/token_counts.h"

#define VOCAB_MAX 3000u

static uint64_t random_state = 1;

static uint32_t next_random(void)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(random_state >> 33);
}

static double next_unit(void)
{
    return (double)next_random() / 2147483648.0;
}

static void fill_logits(float *logits, uint32_t vocab, uint32_t shape)
{
    for (uint32_t i = 0; i < vocab; i++) {
        double u = next_unit();
        switch (shape) {
        case 0: logits[i] = (float)(u * 20.0 - 10.0); break;
        case 1: logits[i] = (float)(-8.0 * log(u + 1e-9) - 20.0); break; /* few large ones */
        case 2: logits[i] = (float)(u * 0.01); break;                    /* nearly flat */
        case 3: logits[i] = (float)(next_random() % 4); break;           /* many ties */
        case 4: logits[i] = next_random() % 3 ? -INFINITY : (float)u; break;
        default: logits[i] = next_random() % 5 ? (float)(u * 300.0) : NAN; break;
        }
    }
    logits[next_random() % vocab] = 1.0f;
}

static struct sampling_params random_params(void)
{
    static const float temperatures[] = {0.0f, 0.01f, 0.3f, 0.7f, 1.0f, 2.0f};
    static const float top_ps[] = {1.0f, 1.0f, 0.95f, 0.5f, 0.05f, 1e-6f};
    static const float min_ps[] = {0.0f, 0.0f, 0.05f, 0.5f, 1.0f};
    static const float typical_ps[] = {1.0f, 1.0f, 0.95f, 0.5f, 0.1f, 1e-6f};
    static const float sigmas[] = {0.0f, 0.0f, 0.0f, 1.0f, 0.3f, 3.0f};
    static const uint32_t top_ks[] = {0, 0, 1, 2, 40, 64, 5000};
    struct sampling_params params = sampling_params_default();
    params.seed = next_random();
    params.temperature = temperatures[next_random() % 6];
    params.top_p = top_ps[next_random() % 6];
    params.min_p = min_ps[next_random() % 5];
    params.typical_p = typical_ps[next_random() % 6];
    params.top_n_sigma = sigmas[next_random() % 6];
    params.top_k = top_ks[next_random() % 7];
    return params;
}

#define HISTORY_MAX 80u

/* Some tokens seen before and penalties on them, or none. */
static struct token_counts *random_history(struct sampling_params *params, uint32_t vocab,
                                           struct reference_row *row, uint32_t *tokens)
{
    if (next_random() % 2)
        return NULL;
    params->repetition_penalty = next_random() % 2 ? 1.0f : (float)(0.5 + next_unit());
    params->presence_penalty = (float)(next_unit() * 4.0 - 2.0);
    params->frequency_penalty = (float)(next_unit() * 4.0 - 2.0);
    params->repetition_context = next_random() % 2 ? 0 : next_random() % 100;
    params->presence_context = next_random() % 2 ? 0 : next_random() % 100;
    params->frequency_context = next_random() % 2 ? 0 : next_random() % 100;
    row->tokens = tokens;
    row->token_count = next_random() % HISTORY_MAX;
    row->prompt_count = next_random() % (row->token_count + 1);
    for (uint32_t i = 0; i < row->token_count; i++)
        tokens[i] = next_random() % vocab;
    struct token_counts *counts = token_counts_create(params, row->prompt_count);
    for (uint32_t known = 0; known < row->token_count;) {
        known += 1 + next_random() % 40;
        known = known < row->token_count ? known : row->token_count;
        assert_int_equal(token_counts_follow(counts, tokens, known), RESULT_OK);
    }
    return counts;
}

/* The alternatives are the row's largest logits with the right probabilities. */
static void check_alternatives(const struct reference_row *row, const struct sampled_token *sampled)
{
    uint32_t wanted = row->sampling->top_logprobs;
    wanted = wanted < row->vocab_tokens ? wanted : row->vocab_tokens;
    assert_true(sampled->alternative_count <= wanted);
    for (uint32_t i = 0; i < sampled->alternative_count; i++) {
        struct token_logprob pair = sampled->alternatives[i];
        assert_true(pair.token < row->vocab_tokens);
        uint32_t larger = 0;
        for (uint32_t token = 0; token < row->vocab_tokens; token++)
            larger += row->logits[token] > row->logits[pair.token] ||
                      (row->logits[token] == row->logits[pair.token] && token < pair.token);
        assert_int_equal(larger, i);
        double distance = (double)row->logits[sampled->token] - (double)row->logits[pair.token];
        if (isfinite(sampled->logprob))
            assert_true(fabs((double)sampled->logprob - (double)pair.logprob - distance) < 1e-4);
    }
    /* Fewer alternatives only if the next one's probability is about zero. */
    for (uint32_t token = 0; token < row->vocab_tokens && sampled->alternative_count < wanted;
         token++) {
        bool is_there = false;
        for (uint32_t i = 0; i < sampled->alternative_count; i++)
            is_there = is_there || sampled->alternatives[i].token == token;
        assert_true(is_there ||
                    !(row->logits[token] > row->logits[sampled->alternatives[0].token] - 86.0f));
    }
}

/* Tokens whose logit is at least the token's, by a plain count; NaN counts as -infinity. */
static uint32_t plain_rank(const float *logits, uint32_t vocab, uint32_t token)
{
    uint32_t count = 0;
    for (uint32_t other = 0; other < vocab; other++)
        count +=
            isnan(logits[token]) || logits[other] >= logits[token] || logits[token] == -INFINITY;
    return count;
}

/* NULL, or a mask with few, half, nearly all or all tokens, and any bits beyond the vocabulary. */
static const uint32_t *random_mask(uint32_t vocab, uint32_t *mask)
{
    uint32_t kind = next_random() % 8;
    for (uint32_t i = 0; i < (vocab + 31) / 32; i++) {
        uint32_t bits = next_random();
        mask[i] = kind == 0   ? bits & next_random() & next_random() & next_random()
                  : kind == 1 ? bits
                  : kind == 2 ? bits | next_random() | next_random()
                              : UINT32_MAX;
    }
    uint32_t token = next_random() % vocab;
    mask[token / 32] |= 1u << token % 32;
    return kind < 4 ? mask : NULL;
}

static void test_random_rows_match_the_reference(void **state)
{
    (void)state;
    static const uint32_t vocabs[] = {1, 2, 3, 63, 64, 65, 130, 1000, 1029, VOCAB_MAX};
    static float logits[VOCAB_MAX];
    static uint32_t tokens[HISTORY_MAX];
    static uint32_t mask[(VOCAB_MAX + 31) / 32];
    uint32_t close_calls = 0;
    const uint32_t rows = 4000;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t vocab = vocabs[next_random() % (i % 8 ? 7 : 10)];
        struct row_sampler *sampler = row_sampler_create(vocab);
        fill_logits(logits, vocab, next_random() % 6);
        struct sampling_params params = random_params();
        struct reference_row row = {.logits = logits, .vocab_tokens = vocab};
        struct token_counts *counts = random_history(&params, vocab, &row, tokens);
        struct logit_bias_entry bias[3];
        for (uint32_t j = 0; j < 3; j++)
            bias[j] = (struct logit_bias_entry){next_random() % vocab,
                                                (float)(next_unit() * 20.0 - 10.0)};
        const uint32_t barred[2] = {vocab / 2, next_random() % vocab};
        struct row_sampling sampling = {.params = &params,
                                        .counts = counts,
                                        .logit_bias = bias,
                                        .logit_bias_count = next_random() % 4,
                                        .barred = barred,
                                        .barred_count = next_random() % 3,
                                        .mask = random_mask(vocab, mask),
                                        .position = next_random(),
                                        .is_forced = next_random() % 16 == 0,
                                        .forced_token = next_random() % vocab,
                                        .wants_logprob = true,
                                        .top_logprobs = next_random() % 21};
        row.sampling = &sampling;
        struct reference_draw expected = sampling_reference_draw(&row);
        struct sampled_token sampled = row_sampler_draw(sampler, logits, &sampling);
        if (sampling.is_forced) {
            assert_int_equal(sampled.token, sampling.forced_token);
        } else if (expected.margin < 1e-5) {
            close_calls++;
        } else {
            if (sampled.token != expected.token)
                print_error(
                    "row %u of %u tokens: temperature %g top_k %u typical_p %g top_p %g min_p %g "
                    "top_n_sigma %g, %u biases, %u barred, %u seen, margin %g\n",
                    i, vocab, (double)params.temperature, params.top_k, (double)params.typical_p,
                    (double)params.top_p, (double)params.min_p, (double)params.top_n_sigma,
                    sampling.logit_bias_count, sampling.barred_count, row.token_count,
                    expected.margin);
            assert_int_equal(sampled.token, expected.token);
            assert_true(fabs((double)sampled.logprob - expected.logprob) <
                            1e-4 + 1e-6 * fabs(expected.logprob) ||
                        (double)sampled.logprob == expected.logprob);
        }
        check_alternatives(&row, &sampled);
        assert_int_equal(sampled.rank, plain_rank(logits, vocab, sampled.token));
        free(expected.p);
        token_counts_destroy(counts);
        row_sampler_destroy(sampler);
    }
    /* Ties and exact limits (min_p 1, equal weights) are deliberately frequent; most rows are
     * clear. */
    assert_true(close_calls < rows / 2);
}

static struct sampled_token draw(uint32_t vocab, const float *logits,
                                 const struct sampling_params *params, uint32_t position)
{
    struct row_sampler *sampler = row_sampler_create(vocab);
    struct row_sampling sampling = {.params = params, .position = position, .wants_logprob = true};
    struct sampled_token sampled = row_sampler_draw(sampler, logits, &sampling);
    row_sampler_destroy(sampler);
    return sampled;
}

static void test_ties_go_to_the_lowest_id(void **state)
{
    (void)state;
    float logits[200];
    for (uint32_t i = 0; i < 200; i++)
        logits[i] = i % 7 == 6 ? 5.0f : -0.0f;
    struct sampling_params params = sampling_params_default();
    assert_int_equal(draw(200, logits, &params, 0).token, 6);
    params.temperature = 1.0f;
    params.top_k = 1;
    assert_int_equal(draw(200, logits, &params, 9).token, 6);
    /* Zeros of both signs are equal: with k = 3 of equal logits, only ids 0, 1 and 2 are left. */
    for (uint32_t i = 0; i < 200; i++)
        logits[i] = i % 2 ? -0.0f : 0.0f;
    params.top_k = 3;
    for (uint32_t position = 0; position < 100; position++)
        assert_true(draw(200, logits, &params, position).token < 3);
}

static void test_odd_logits(void **state)
{
    (void)state;
    struct sampling_params params = sampling_params_default();
    float logits[70];
    for (int sampled = 0; sampled < 2; sampled++) {
        params.temperature = (float)sampled;
        for (uint32_t i = 0; i < 70; i++)
            logits[i] = NAN;
        assert_int_equal(draw(70, logits, &params, 3).token, 0);
        assert_true(draw(70, logits, &params, 3).logprob == -INFINITY);
        assert_int_equal(draw(70, logits, &params, 3).rank, 70);
        for (uint32_t i = 0; i < 70; i++)
            logits[i] = i % 2 ? -INFINITY : NAN;
        assert_int_equal(draw(70, logits, &params, 3).token, 0);
        logits[67] = -3e38f;
        assert_int_equal(draw(70, logits, &params, 3).token, 67);
        assert_true(draw(70, logits, &params, 3).logprob == 0.0f);
        logits[68] = INFINITY;
        assert_int_equal(draw(70, logits, &params, 3).token, 68);
        logits[5] = INFINITY;
        assert_true(draw(70, logits, &params, 3).token == (sampled ? 68u : 5u) ||
                    (sampled && draw(70, logits, &params, 3).token == 5));
        assert_true(fabs((double)draw(70, logits, &params, 3).logprob + log(2.0)) < 1e-6);
        assert_int_equal(draw(70, logits, &params, 3).rank, 2);
    }
}

static void test_extreme_parameters(void **state)
{
    (void)state;
    float logits[1000];
    for (uint32_t i = 0; i < 1000; i++)
        logits[i] = (float)i * 0.01f;
    static const float temperatures[] = {FLT_TRUE_MIN, FLT_MIN, 1e-20f, 1e-6f};
    for (uint32_t i = 0; i < 4; i++) {
        struct sampling_params params = sampling_params_default();
        params.temperature = temperatures[i];
        assert_int_equal(draw(1000, logits, &params, i).token, 999);
        params.top_p = FLT_TRUE_MIN;
        assert_int_equal(draw(1000, logits, &params, i).token, 999);
        params.top_k = UINT32_MAX;
        params.min_p = 1.0f;
        assert_int_equal(draw(1000, logits, &params, i).token, 999);
    }
    struct sampling_params params = sampling_params_default();
    params.temperature = 2.0f;
    params.top_p = FLT_TRUE_MIN;
    assert_int_equal(draw(1000, logits, &params, 1).token, 999);

    /* Penalties that overflow must not break the row. */
    struct token_counts *counts = token_counts_create(&params, 0);
    uint32_t every[1000];
    for (uint32_t token = 0; token < 1000; token++)
        every[token] = token;
    assert_int_equal(token_counts_follow(counts, every, 1000), RESULT_OK);
    struct row_sampler *sampler = row_sampler_create(1000);
    struct row_sampling sampling = {.params = &params, .counts = counts};
    params.repetition_penalty = FLT_TRUE_MIN;
    assert_true(row_sampler_draw(sampler, logits, &sampling).token < 1000);
    params.temperature = 0.0f;
    assert_true(row_sampler_draw(sampler, logits, &sampling).token < 1000);
    row_sampler_destroy(sampler);
    token_counts_destroy(counts);
}

/* The only allowed token is drawn however unlikely it is, and its probability is the model's. */
static void test_one_allowed_token(void **state)
{
    (void)state;
    float logits[100];
    uint32_t mask[4] = {0};
    mask[70 / 32] = 1u << 70 % 32;
    for (uint32_t i = 0; i < 100; i++)
        logits[i] = i == 70 ? -40.0f : 1.0f;
    for (uint32_t greedy = 0; greedy < 2; greedy++) {
        struct sampling_params params = sampling_params_default();
        params.temperature = greedy ? 0.0f : 1.0f;
        struct row_sampling sampling = {.params = &params, .mask = mask, .wants_logprob = true};
        struct row_sampler *sampler = row_sampler_create(100);
        struct sampled_token sampled = row_sampler_draw(sampler, logits, &sampling);
        row_sampler_destroy(sampler);
        assert_int_equal(sampled.token, 70);
        assert_true(sampled.logprob < -45.0f && sampled.logprob > -46.0f); /* -41 - log 99 */
    }
}

static void test_the_row_is_not_changed(void **state)
{
    (void)state;
    float logits[100];
    float copy[100];
    for (uint32_t i = 0; i < 100; i++)
        copy[i] = logits[i] = (float)next_unit();
    struct sampling_params params = random_params();
    struct logit_bias_entry bias = {.token = 3, .bias = 50.0f};
    struct row_sampling sampling = {
        .params = &params, .logit_bias = &bias, .logit_bias_count = 1, .position = 4};
    struct row_sampler *sampler = row_sampler_create(100);
    struct sampled_token first = row_sampler_draw(sampler, logits, &sampling);
    struct sampled_token again = row_sampler_draw(sampler, logits, &sampling);
    row_sampler_destroy(sampler);
    assert_int_equal(first.token, 3);
    assert_int_equal(again.token, 3);
    assert_true(first.logprob == 0.0f); /* not asked for */
    assert_memory_equal(logits, copy, sizeof logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_rows_match_the_reference),
        cmocka_unit_test(test_ties_go_to_the_lowest_id),
        cmocka_unit_test(test_odd_logits),
        cmocka_unit_test(test_extreme_parameters),
        cmocka_unit_test(test_one_allowed_token),
        cmocka_unit_test(test_the_row_is_not_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
