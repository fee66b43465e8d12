/*
 * row_sampler against the formulas of row_sampler.h written plainly: f64, a full sort, libm. The
 * reference also says how close its decision was; where the draw falls within rounding of a border,
 * either side is right, and the tests count that this stays rare.
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

#include "worker/sample/row_sampler.h"
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

struct reference_token {
    uint32_t token;
    double logit;
    double p;
};

struct reference {
    struct reference_token sorted[VOCAB_MAX];
    uint32_t kept;
    uint32_t token;
    double logprob;
    double margin; /* how far the nearest decision was from going the other way, relative */
};

static int compare_reference(const void *left, const void *right)
{
    const struct reference_token *a = left;
    const struct reference_token *b = right;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->token < b->token ? -1 : 1;
}

static void note_margin(struct reference *reference, double value, double border)
{
    double margin = fabs(value - border) / (fabs(border) + 1e-300);
    if (margin < reference->margin)
        reference->margin = margin;
}

static double adjusted_logit(const struct row_sampling *sampling, uint32_t token, double logit)
{
    for (uint32_t i = 0; i < sampling->logit_bias_count; i++) {
        if (sampling->logit_bias[i].token == token)
            logit += (double)sampling->logit_bias[i].bias;
    }
    if (!sampling->counts)
        return logit;
    for (uint32_t i = 0; i < token_counts_size(sampling->counts); i++) {
        struct token_count count = token_counts_at(sampling->counts, i);
        if (count.token != token)
            continue;
        double repetition = (double)sampling->params->repetition_penalty;
        logit = logit > 0 ? logit / repetition : logit * repetition;
        if (count.generated > 0)
            logit -= (double)sampling->params->presence_penalty +
                     (double)sampling->params->frequency_penalty * count.generated;
    }
    return logit;
}

static void reference_filter(struct reference *reference, const struct sampling_params *params,
                             uint32_t vocab)
{
    uint32_t kept = params->top_k > 0 && params->top_k < vocab ? params->top_k : vocab;
    double total = 0.0;
    for (uint32_t i = 0; i < kept; i++)
        total += reference->sorted[i].p;
    double sum = 0.0;
    for (uint32_t i = 0; i < kept; i++) {
        double p = reference->sorted[i].p;
        double least = (double)params->min_p * reference->sorted[0].p;
        if (params->min_p > 0.0f)
            note_margin(reference, p, least);
        if (i > 0 && p < least) {
            kept = i;
            break;
        }
        sum += p;
        if (params->top_p < 1.0f) {
            note_margin(reference, sum, (double)params->top_p * total);
            if (sum >= (double)params->top_p * total) {
                kept = i + 1;
                break;
            }
        }
    }
    reference->kept = kept;
}

static void reference_draw(struct reference *reference, const float *logits, uint32_t vocab,
                           const struct row_sampling *sampling)
{
    reference->margin = 1.0;
    for (uint32_t i = 0; i < vocab; i++) {
        double logit = isnan(logits[i]) ? (double)-INFINITY : (double)logits[i];
        reference->sorted[i] =
            (struct reference_token){.token = i, .logit = adjusted_logit(sampling, i, logit)};
    }
    qsort(reference->sorted, vocab, sizeof reference->sorted[0], compare_reference);
    double largest = reference->sorted[0].logit;
    double temperature = (double)sampling->params->temperature;
    double plain_total = 0.0;
    for (uint32_t i = 0; i < vocab; i++)
        plain_total += exp(reference->sorted[i].logit - largest);
    uint32_t chosen = 0;
    reference->kept = 1;
    if (temperature > 0) {
        for (uint32_t i = 0; i < vocab; i++)
            reference->sorted[i].p = exp((reference->sorted[i].logit - largest) / temperature);
        reference_filter(reference, sampling->params, vocab);
        double total = 0.0;
        for (uint32_t i = 0; i < reference->kept; i++)
            total += reference->sorted[i].p;
        double target = (double)uniform_draw(sampling->params->seed, sampling->position) * total;
        double sum = reference->sorted[0].p;
        note_margin(reference, sum, target);
        while (sum <= target && chosen + 1 < reference->kept) {
            sum += reference->sorted[++chosen].p;
            note_margin(reference, sum, target);
        }
    } else if (vocab > 1 && reference->sorted[0].logit != reference->sorted[1].logit) {
        note_margin(reference, reference->sorted[1].logit, largest);
    }
    reference->token = reference->sorted[chosen].token;
    reference->logprob = reference->sorted[chosen].logit - largest - log(plain_total);
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
    static const uint32_t top_ks[] = {0, 0, 1, 2, 40, 64, 5000};
    struct sampling_params params = sampling_params_default();
    params.seed = next_random();
    params.temperature = temperatures[next_random() % 6];
    params.top_p = top_ps[next_random() % 6];
    params.min_p = min_ps[next_random() % 5];
    params.top_k = top_ks[next_random() % 7];
    return params;
}

static struct token_counts *random_counts(struct sampling_params *params, uint32_t vocab)
{
    if (next_random() % 2)
        return NULL;
    params->repetition_penalty = next_random() % 2 ? 1.0f : (float)(0.5 + next_unit());
    params->presence_penalty = (float)(next_unit() * 4.0 - 2.0);
    params->frequency_penalty = (float)(next_unit() * 4.0 - 2.0);
    struct token_counts *counts = token_counts_create();
    for (uint32_t i = next_random() % 40; i > 0; i--) {
        assert_int_equal(token_counts_add_prompt(counts, next_random() % vocab), RESULT_OK);
        assert_int_equal(token_counts_add_generated(counts, next_random() % vocab), RESULT_OK);
    }
    return counts;
}

static void test_random_rows_match_the_reference(void **state)
{
    (void)state;
    static const uint32_t vocabs[] = {1, 2, 3, 63, 64, 65, 130, 1000, 1029, VOCAB_MAX};
    static float logits[VOCAB_MAX];
    static struct reference reference;
    uint32_t close_calls = 0;
    const uint32_t rows = 3000;
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t vocab = vocabs[next_random() % (row % 4 ? 7 : 10)];
        struct row_sampler *sampler = row_sampler_create(vocab);
        fill_logits(logits, vocab, next_random() % 6);
        struct sampling_params params = random_params();
        struct token_counts *counts = random_counts(&params, vocab);
        struct logit_bias_entry bias[3];
        for (uint32_t i = 0; i < 3; i++)
            bias[i] = (struct logit_bias_entry){next_random() % vocab,
                                                (float)(next_unit() * 20.0 - 10.0)};
        struct row_sampling sampling = {.params = &params,
                                        .counts = counts,
                                        .logit_bias = bias,
                                        .logit_bias_count = next_random() % 4,
                                        .position = next_random(),
                                        .wants_logprob = true};
        reference_draw(&reference, logits, vocab, &sampling);
        struct sampled_token sampled = row_sampler_draw(sampler, logits, &sampling);
        if (reference.margin < 1e-5) {
            close_calls++;
        } else {
            assert_int_equal(sampled.token, reference.token);
            assert_true(fabs((double)sampled.logprob - reference.logprob) <
                        1e-4 + 1e-6 * fabs(reference.logprob));
        }
        token_counts_destroy(counts);
        row_sampler_destroy(sampler);
    }
    /* Ties and exact borders (min_p 1, equal weights) are common on purpose; most rows are clear.
     */
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
    struct token_counts *counts = token_counts_create();
    for (uint32_t token = 0; token < 1000; token++)
        assert_int_equal(token_counts_add_generated(counts, token), RESULT_OK);
    struct row_sampler *sampler = row_sampler_create(1000);
    struct row_sampling sampling = {.params = &params, .counts = counts};
    params.repetition_penalty = FLT_TRUE_MIN;
    assert_true(row_sampler_draw(sampler, logits, &sampling).token < 1000);
    params.temperature = 0.0f;
    assert_true(row_sampler_draw(sampler, logits, &sampling).token < 1000);
    row_sampler_destroy(sampler);
    token_counts_destroy(counts);
}

static void test_drawn_tokens_follow_the_distribution(void **state)
{
    (void)state;
    enum { VOCAB = 16, DRAWS = 40000 };
    float logits[VOCAB];
    double p[VOCAB];
    double total = 0.0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        logits[i] = (float)((i * 5) % VOCAB) * 0.2f;
        total += p[i] = exp((double)logits[i] / (double)0.8f);
    }
    struct sampling_params params = sampling_params_default();
    params.temperature = 0.8f;
    params.seed = 2026;
    struct row_sampler *sampler = row_sampler_create(VOCAB);
    uint32_t counts[VOCAB] = {0};
    for (uint32_t position = 0; position < DRAWS; position++) {
        struct row_sampling sampling = {.params = &params, .position = position};
        counts[row_sampler_draw(sampler, logits, &sampling).token]++;
    }
    row_sampler_destroy(sampler);
    double chi_square = 0.0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        double expected = DRAWS * p[i] / total;
        chi_square += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    }
    assert_true(chi_square < 40.0); /* 15 degrees of freedom: p = 0.0005 */
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
        cmocka_unit_test(test_drawn_tokens_follow_the_distribution),
        cmocka_unit_test(test_the_row_is_not_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
