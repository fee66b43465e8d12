/*
 * The distribution of 20,000 draws under every sampling parameter is that of its definition in
 * double precision (tests/support/sampling_reference.h), by a chi-square test, and tokens that the
 * definition excludes are never drawn.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/draw_check.h"
#include "tests/support/sampling_reference.h"
#include "worker/sample/token_counts.h"

#define VOCAB  48u
#define DRAWS  20000u
#define TOKENS 30u
#define PROMPT 18u

struct trial {
    const char *name;
    struct sampling_params params;
    uint32_t biases;
    uint32_t barred;
};

/* Fields that are 0 are at their default, the temperature at 1. */
#define WITH(...)                                                                                  \
    {                                                                                              \
        .seed = 2026, __VA_ARGS__                                                                  \
    }

static const struct trial trials[] = {
    {"no filter", WITH(.top_k = 0), 0, 0},
    {"temperature 0.5", WITH(.temperature = 0.5f), 0, 0},
    {"temperature 2", WITH(.temperature = 2.0f), 0, 0},
    {"top_k 7", WITH(.top_k = 7), 0, 0},
    {"top_p 0.8", WITH(.top_p = 0.8f), 0, 0},
    {"min_p 0.1", WITH(.min_p = 0.1f), 0, 0},
    {"typical_p 0.6", WITH(.typical_p = 0.6f), 0, 0},
    {"typical_p 0.2", WITH(.typical_p = 0.2f), 0, 0},
    {"typical_p 0.9, temperature 2", WITH(.typical_p = 0.9f, .temperature = 2.0f), 0, 0},
    {"top_n_sigma 1", WITH(.top_n_sigma = 1.0f), 0, 0},
    {"top_n_sigma 1.4", WITH(.top_n_sigma = 1.4f), 0, 0},
    {"repetition 1.3", WITH(.repetition_penalty = 1.3f), 0, 0},
    {"repetition 1.3 in 5", WITH(.repetition_penalty = 1.3f, .repetition_context = 5), 0, 0},
    {"presence 0.8", WITH(.presence_penalty = 0.8f), 0, 0},
    {"presence 2 in 4", WITH(.presence_penalty = 2.0f, .presence_context = 4), 0, 0},
    {"frequency 1.3", WITH(.frequency_penalty = 1.3f), 0, 0},
    {"frequency 1.3 in 6", WITH(.frequency_penalty = 1.3f, .frequency_context = 6), 0, 0},
    {"bias", WITH(.top_k = 0), 3, 0},
    {"barred", WITH(.top_k = 0), 0, 3},
    {"all filters",
     WITH(.temperature = 1.7f, .top_k = 30, .typical_p = 0.9f, .top_p = 0.9f, .min_p = 0.02f,
          .top_n_sigma = 2.5f),
     2, 1},
};

static const struct logit_bias_entry biases[] = {{3, 4.0f}, {20, -5.0f}, {3, 0.5f}};
static const uint32_t barred[] = {1, 12, 45};

struct scene {
    float logits[VOCAB];
    uint32_t tokens[TOKENS];
};

static struct scene make_scene(void)
{
    struct scene scene;
    for (uint32_t i = 0; i < VOCAB; i++)
        scene.logits[i] = 4.0f * sinf((float)i * 1.7f) - 0.02f * (float)i;
    for (uint32_t i = 0; i < TOKENS; i++)
        scene.tokens[i] = i * i % 23;
    return scene;
}

static struct sampling_params params_of(const struct trial *trial)
{
    struct sampling_params params = trial->params;
    float *ones[] = {&params.temperature, &params.top_p, &params.typical_p,
                     &params.repetition_penalty};
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++)
        *ones[i] = *ones[i] > 0.0f ? *ones[i] : 1.0f;
    return params;
}

static struct row_sampling sampling_of(const struct trial *trial,
                                       const struct sampling_params *params)
{
    return (struct row_sampling){.params = params,
                                 .logit_bias = biases,
                                 .logit_bias_count = trial->biases,
                                 .barred = barred,
                                 .barred_count = trial->barred};
}

/* What each token is drawn with; the caller frees it. */
static double *define(const struct scene *scene, const struct row_sampling *sampling)
{
    return sampling_reference_draw(&(struct reference_row){.logits = scene->logits,
                                                           .vocab_tokens = VOCAB,
                                                           .sampling = sampling,
                                                           .tokens = scene->tokens,
                                                           .token_count = TOKENS,
                                                           .prompt_count = PROMPT})
        .p;
}

static void test_draws_fall_as_defined(void **state)
{
    (void)state;
    struct scene scene = make_scene();
    struct row_sampler *sampler = row_sampler_create(VOCAB);
    for (size_t at = 0; at < sizeof trials / sizeof trials[0]; at++) {
        const struct trial *trial = &trials[at];
        struct sampling_params params = params_of(trial);
        struct token_counts *counts = token_counts_create(&params, PROMPT);
        assert_int_equal(token_counts_follow(counts, scene.tokens, TOKENS), RESULT_OK);
        struct row_sampling sampling = sampling_of(trial, &params);
        sampling.counts = counts;
        uint32_t drawn[VOCAB] = {0};
        for (sampling.position = 0; sampling.position < DRAWS; sampling.position++)
            drawn[row_sampler_draw(sampler, scene.logits, &sampling).token]++;
        double *p = define(&scene, &sampling);
        /* Chi-square exceeds the limit once in 10,000 times. */
        draw_check(
            &(struct draw_check){trial->name, VOCAB, DRAWS, .deviations = 3.719, .alone = 1e-6}, p,
            drawn);
        free(p);
        token_counts_destroy(counts);
    }
    row_sampler_destroy(sampler);
}

/* Each parameter of the table changes the distribution; a definition without effect would pass the
 * test above trivially. */
static void test_each_trial_is_one_of_its_own(void **state)
{
    (void)state;
    struct scene scene = make_scene();
    double *seen[sizeof trials / sizeof trials[0]];
    for (size_t at = 0; at < sizeof trials / sizeof trials[0]; at++) {
        struct sampling_params params = params_of(&trials[at]);
        struct row_sampling sampling = sampling_of(&trials[at], &params);
        seen[at] = define(&scene, &sampling);
        for (size_t other = 0; other < at; other++) {
            double change = 0.0;
            for (uint32_t i = 0; i < VOCAB; i++)
                change += fabs(seen[at][i] - seen[other][i]);
            if (!(change > 0.02))
                print_error("%s is %s\n", trials[at].name, trials[other].name);
            assert_true(change > 0.02);
        }
    }
    for (size_t at = 0; at < sizeof trials / sizeof trials[0]; at++)
        free(seen[at]);
}

static void test_seeds_reproduce_and_differ(void **state)
{
    (void)state;
    float logits[VOCAB];
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = 0.05f * (float)i;
    struct row_sampler *sampler = row_sampler_create(VOCAB);
    struct sampling_params params = params_of(&trials[0]);
    uint32_t same = 0;
    for (uint32_t position = 0; position < 1000; position++) {
        struct row_sampling sampling = {.params = &params, .position = position};
        params.seed = 1;
        uint32_t first = row_sampler_draw(sampler, logits, &sampling).token;
        assert_int_equal(row_sampler_draw(sampler, logits, &sampling).token, first);
        params.seed = 1ull << 40;
        same += row_sampler_draw(sampler, logits, &sampling).token == first;
    }
    row_sampler_destroy(sampler);
    assert_in_range(same, 5, 60); /* by chance: about 25 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_fall_as_defined),
        cmocka_unit_test(test_each_trial_is_one_of_its_own),
        cmocka_unit_test(test_seeds_reproduce_and_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
