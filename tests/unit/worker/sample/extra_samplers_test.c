/*
 * Dynamic temperature, XTC, DRY and mirostat 2 compared with llama.cpp's algorithms
 * (tests/golden/samplers): 20,000 draws of each case fall as they say, by a chi-square test, tokens
 * that they exclude are never drawn, and temperatures, penalties and states are theirs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "proto/dry_breakers.h"
#include "tests/support/draw_check.h"
#include "worker/sample/dry_penalty.h"
#include "worker/sample/dynamic_temperature.h"
#include "worker/sample/row_sampler.h"

#define CASES    "tests/golden/samplers/cases.txt"
#define DRAWS    20000u
#define LIST_MAX 300u

struct list {
    uint32_t count;
    double values[LIST_MAX];
};

struct golden {
    char kind[16];
    struct sampling_params params;
    struct list logits, history, breakers, p, after;
    double temperature;
};

static double read_number(FILE *file)
{
    double value;
    assert_int_equal(fscanf(file, "%lf", &value), 1);
    return value;
}

static void read_list(FILE *file, struct list *list)
{
    list->count = (uint32_t)read_number(file);
    assert_in_range(list->count, 0, LIST_MAX);
    for (uint32_t i = 0; i < list->count; i++)
        list->values[i] = read_number(file);
}

static bool read_case(FILE *file, struct golden *golden)
{
    if (fscanf(file, " case %15s", golden->kind) != 1)
        return false;
    struct sampling_params *params = &golden->params;
    *params = sampling_params_default();
    float *const floats[] = {&params->temperature,       &params->dynatemp_range,
                             &params->dynatemp_exponent, &params->xtc_probability,
                             &params->xtc_threshold,     &params->mirostat_tau,
                             &params->mirostat_eta,      &params->mirostat_mu,
                             &params->dry_multiplier,    &params->dry_base};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        *floats[i] = (float)read_number(file);
    params->dry_allowed_length = (uint32_t)read_number(file);
    params->dry_context = (uint32_t)read_number(file);
    params->mirostat = strcmp(golden->kind, "mirostat") == 0 ? 2 : 0;
    struct list *const lists[] = {&golden->logits, &golden->history, &golden->breakers, &golden->p,
                                  &golden->after};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        read_list(file, lists[i]);
    golden->temperature = read_number(file);
    return true;
}

static void check_temperature(const struct golden *golden, const float *logits)
{
    struct logit_walk walk;
    logit_walk_init(&walk, golden->logits.count);
    logit_walk_begin(&walk, logits);
    float temperature = dynamic_temperature(&walk, &golden->params);
    assert_true(fabs((double)temperature - golden->temperature) < 2e-5);
    logit_walk_fini(&walk);
}

static void check_penalties(const struct golden *golden, const struct dry_history *history)
{
    float row[LIST_MAX] = {0};
    struct dry_scratch scratch = {0};
    for (int again = 0; again < 2; again++) { /* the scratch is clean afterwards */
        memset(row, 0, sizeof row);
        dry_penalty_apply(&scratch, &golden->params, history, row, golden->logits.count);
        for (uint32_t i = 0; i < golden->after.count; i++)
            assert_true(fabs((double)row[i] + golden->after.values[i]) <=
                        1e-6 * golden->after.values[i]);
    }
    dry_scratch_fini(&scratch);
}

static void check_case(struct golden *golden)
{
    uint32_t vocab = golden->logits.count;
    float logits[LIST_MAX];
    uint32_t history[LIST_MAX], drawn[LIST_MAX] = {0};
    uint32_t *words = calloc(golden->breakers.count + 1, sizeof *words);
    for (uint32_t i = 0; i < vocab; i++)
        logits[i] = (float)golden->logits.values[i];
    for (uint32_t i = 0; i < golden->history.count; i++)
        history[i] = (uint32_t)golden->history.values[i];
    for (uint32_t i = 0; i < golden->breakers.count; i++)
        words[i] = (uint32_t)golden->breakers.values[i];
    struct dry_breakers breakers;
    struct error_text error;
    assert_int_equal(dry_breakers_init(&breakers, words, golden->breakers.count, vocab, &error),
                     RESULT_OK);
    bool is_dry = strcmp(golden->kind, "dry") == 0;
    struct row_sampling sampling = {.params = &golden->params,
                                    .position = golden->history.count,
                                    .history = history,
                                    .dry_breakers = &breakers};
    struct row_sampler *sampler = row_sampler_create(vocab);
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct sampled_token sampled = row_sampler_draw(sampler, logits, &sampling);
        drawn[sampled.token]++;
        if (golden->params.mirostat == 2)
            assert_true(fabs((double)sampled.mirostat_mu - golden->after.values[sampled.token]) <
                        1e-4);
        if (is_dry)
            golden->params.seed++; /* the position is the history's length */
        else
            sampling.position++;
    }
    /* Chi-square exceeds the limit once in 10,000,000 times; alone: 40 rare draws of 20,000. */
    char name[64];
    snprintf(name, sizeof name, "%s, seed %llu", golden->kind,
             (unsigned long long)golden->params.seed);
    draw_check(&(struct draw_check){name, golden->p.count, DRAWS, .deviations = 5.2, .alone = 0.1},
               golden->p.values, drawn);
    if (strcmp(golden->kind, "dynatemp") == 0)
        check_temperature(golden, logits);
    if (is_dry)
        check_penalties(golden, &(struct dry_history){.tokens = history,
                                                      .count = golden->history.count,
                                                      .breakers = &breakers});
    row_sampler_destroy(sampler);
    dry_breakers_fini(&breakers);
}

static void test_cases_are_as_in_llama_cpp(void **state)
{
    (void)state;
    static struct golden golden;
    FILE *file = fopen(CASES, "r");
    assert_non_null(file);
    uint32_t cases = 0;
    for (; read_case(file, &golden); cases++) {
        golden.params.seed = (uint64_t)time(NULL) << 20 | cases << 15;
        check_case(&golden);
    }
    fclose(file);
    assert_int_equal(cases, 14 * 6);
}

/* The coin of XTC and the number of the draw are independent: all four combinations of their halves
 * occur equally often. */
static void test_the_coin_is_independent_of_the_draw(void **state)
{
    (void)state;
    uint32_t counts[4] = {0};
    for (uint32_t position = 0; position < DRAWS; position++)
        counts[(uniform_draw(7, position) < 0.5f ? 0 : 1) +
               (uniform_coin(7, position) < 0.5f ? 0 : 2)]++;
    for (uint32_t i = 0; i < 4; i++)
        assert_in_range(counts[i], DRAWS / 4 - 300, DRAWS / 4 + 300);
}

/* A repetition of thousands of tokens is found in time that grows with the history only. */
static void test_a_long_history_of_one_token(void **state)
{
    (void)state;
    static uint32_t history[200000];
    static float row[8];
    struct sampling_params params = sampling_params_default();
    params.dry_multiplier = 0.8f;
    params.dry_base = 1.75f;
    params.dry_allowed_length = 2;
    struct dry_scratch scratch = {0};
    const struct dry_history all = {.tokens = history, .count = 200000};
    dry_penalty_apply(&scratch, &params, &all, row, 8);
    assert_true(row[0] < -1e30f && isfinite(row[0]) && row[1] == 0.0f);
    dry_scratch_fini(&scratch);
}

static void test_breakers_of_a_wrong_form_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        uint32_t words[6];
    } wrong[] = {{1, {0}},
                 {1, {1}},
                 {2, {2, 1}},
                 {2, {1, 10}},
                 {4, {1, 3, 1, 2}},
                 {3, {0, 1, 1}},
                 {6, {1, 1, 2, 1, 3, 1}},
                 {2, {UINT32_MAX, 1}}};
    struct error_text error;
    struct dry_breakers breakers;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint32_t *words = malloc(sizeof wrong[i].words);
        memcpy(words, wrong[i].words, sizeof wrong[i].words);
        enum result result = dry_breakers_init(&breakers, words, wrong[i].count, 10, &error);
        assert_int_equal(result, RESULT_INVALID);
        assert_null(breakers.words);
    }
    uint32_t many = 2 * (LIMIT_DRY_BREAKERS + 1);
    uint32_t *words = malloc(many * sizeof *words);
    for (uint32_t i = 0; i < many; i++)
        words[i] = 1;
    assert_int_equal(dry_breakers_init(&breakers, words, many, 10, &error), RESULT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_are_as_in_llama_cpp),
        cmocka_unit_test(test_the_coin_is_independent_of_the_draw),
        cmocka_unit_test(test_a_long_history_of_one_token),
        cmocka_unit_test(test_breakers_of_a_wrong_form_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
