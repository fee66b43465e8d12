/*
 * The CPU answers greedily first. Then the device is fed those answers, so that every position is
 * compared independently: whole sequences at once, and token by token with many and with few streams
 * in a step, which use different kernels. The device's best token must be the CPU's, unless the CPU's
 * lead over its second best is a near-tie, which is printed.
 *
 * 20 prompts are answered by 64 tokens each. For a driver for the CPU, 10 of them are compared, and
 * only a stretch of some is decoded token by token, because steps of few rows take longest there.
 */
#include "tests/support/vulkan_agreement.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/llama_cpp_reference.h"
#include "tests/support/model_runner.h"

#define PROMPTS         20u
#define SOME_PROMPTS    10u
#define ANSWER_TOKENS   64u
#define PROMPT_MAX      64u
#define SEQUENCE_TOKENS (PROMPT_MAX + ANSWER_TOKENS)
#define PAIR            2u /* sequences that are computed at once: more than 128 rows, mostly */

#define DISAGREES_MAX          0.02 /* of a model's positions so far: a stretch alone has too few */
#define LEAD_MAX               0.5
#define LOGPROB_DIFFERENCE_MAX 0.06 /* each backend rounds activations in its own way */

struct answer {
    uint32_t prompt_tokens;
    uint32_t ids[SEQUENCE_TOKENS]; /* the prompt, then the CPU's tokens */
    double lead[ANSWER_TOKENS];    /* of the CPU's token before its second best */
    double logprob[ANSWER_TOKENS]; /* of the CPU's token */
};

struct tally {
    uint32_t positions;
    uint32_t disagreements;
    double widest_lead; /* at a disagreement */
    double difference;  /* sum of |logprob - the CPU's| */
    double largest_difference;
};

struct scene {
    struct answer answers[PROMPTS];
    struct model_runner *runner;
    uint32_t vocab;
    struct tally tally;                /* of a pass */
    uint32_t positions, disagreements; /* of all passes */
};

/* Answers that are decoded token by token, by as many streams to a step. */
struct stretch {
    uint32_t streams;
    uint32_t prompts;
    uint32_t tokens;
};

static const struct stretch everything[] = {
    {20, PROMPTS, ANSWER_TOKENS}, {8, PROMPTS, ANSWER_TOKENS}, {1, PROMPTS, ANSWER_TOKENS}};
static const struct stretch some[] = {{8, 8, 8}, {1, 1, 16}};

static double now_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint32_t best_of(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static double lead_of(const float *logits, uint32_t count, uint32_t best)
{
    float second = -INFINITY;
    for (uint32_t i = 0; i < count; i++)
        if (i != best)
            second = fmaxf(second, logits[i]);
    return (double)logits[best] - (double)second;
}

static double logprob_of(const float *logits, uint32_t count, uint32_t best, uint32_t token)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)expf(logits[i] - logits[best]);
    return (double)logits[token] - (double)logits[best] - log(sum);
}

/* --- the CPU's answers --- */

static void note_answer(struct answer *answer, uint32_t at, const float *logits, uint32_t vocab)
{
    uint32_t best = best_of(logits, vocab);
    answer->ids[answer->prompt_tokens + at] = best;
    answer->lead[at] = lead_of(logits, vocab, best);
    answer->logprob[at] = logprob_of(logits, vocab, best, best);
}

static void answer_on_cpu(struct scene *scene, const char *model)
{
    struct model_runner_options options = {
        .sequences = PROMPTS, .sequence_tokens = SEQUENCE_TOKENS, .step_rows = PROMPT_MAX};
    struct model_runner_part parts[PROMPTS] = {{0}};
    struct model_runner *cpu = model_runner_create(model, &options);
    scene->vocab = model_runner_plan(cpu)->config.vocab_tokens;
    for (uint32_t p = 0; p < PROMPTS; p++) {
        struct answer *answer = &scene->answers[p];
        parts[p] = (struct model_runner_part){.slot = p,
                                              .tokens = answer->ids,
                                              .count = answer->prompt_tokens,
                                              .logit_from = answer->prompt_tokens - 1};
        note_answer(answer, 0, model_runner_step(cpu, &parts[p], 1), scene->vocab);
    }
    for (uint32_t at = 1; at < ANSWER_TOKENS; at++) {
        for (uint32_t p = 0; p < PROMPTS; p++)
            parts[p] = (struct model_runner_part){
                .slot = p,
                .tokens = scene->answers[p].ids + scene->answers[p].prompt_tokens + at - 1,
                .count = 1};
        const float *logits = model_runner_step(cpu, parts, PROMPTS);
        for (uint32_t p = 0; p < PROMPTS; p++)
            note_answer(&scene->answers[p], at, logits + (size_t)p * scene->vocab, scene->vocab);
    }
    model_runner_destroy(cpu);
}

/* --- the device --- */

static void judge(struct scene *scene, uint32_t prompt, uint32_t at, const float *logits,
                  const struct sampled_token *drawn)
{
    const struct answer *answer = &scene->answers[prompt];
    struct tally *tally = &scene->tally;
    uint32_t expected = answer->ids[answer->prompt_tokens + at];
    uint32_t best = best_of(logits, scene->vocab);
    double difference =
        fabs(logprob_of(logits, scene->vocab, best, expected) - answer->logprob[at]);
    assert_int_equal(drawn->token, best);
    tally->positions++;
    tally->difference += difference;
    tally->largest_difference = fmax(tally->largest_difference, difference);
    if (best == expected)
        return;
    tally->disagreements++;
    tally->widest_lead = fmax(tally->widest_lead, answer->lead[at]);
    print_message("    prompt %u, token %u: %u, the CPU's %u, whose lead was %.4f\n", prompt, at,
                  best, expected, answer->lead[at]);
}

static void end_pass(struct scene *scene, const char *what, double began_s, double began_cpu_s)
{
    const struct tally *tally = &scene->tally;
    print_message(
        "  %s: %u positions, best token agrees at %.2f %%, widest lead where not %.4f, "
        "mean logprob difference %.5f, largest %.4f; %.1f s, %.1f s of processor\n",
        what, tally->positions, 100.0 * (1.0 - (double)tally->disagreements / tally->positions),
        tally->widest_lead, tally->difference / tally->positions, tally->largest_difference,
        now_s(CLOCK_MONOTONIC) - began_s, now_s(CLOCK_PROCESS_CPUTIME_ID) - began_cpu_s);
    scene->positions += tally->positions;
    scene->disagreements += tally->disagreements;
    assert_true(scene->disagreements <= DISAGREES_MAX * scene->positions);
    assert_true(tally->widest_lead <= LEAD_MAX);
    assert_true(tally->difference / tally->positions <= LOGPROB_DIFFERENCE_MAX);
}

/* Sequences as a whole, a few to a step. */
static void judge_prefill(struct scene *scene, uint32_t prompts)
{
    double began_s = now_s(CLOCK_MONOTONIC), began_cpu_s = now_s(CLOCK_PROCESS_CPUTIME_ID);
    scene->tally = (struct tally){0};
    for (uint32_t first = 0; first < prompts; first += PAIR) {
        struct model_runner_part parts[PAIR] = {{0}};
        for (uint32_t i = 0; i < PAIR; i++) {
            const struct answer *answer = &scene->answers[first + i];
            model_runner_reset(scene->runner, i);
            parts[i] =
                (struct model_runner_part){.slot = i,
                                           .tokens = answer->ids,
                                           .count = answer->prompt_tokens + ANSWER_TOKENS - 1,
                                           .logit_from = answer->prompt_tokens - 1};
        }
        const float *logits = model_runner_step(scene->runner, parts, PAIR);
        const struct sampled_token *drawn = model_runner_drawn(scene->runner);
        for (uint32_t row = 0; row < PAIR * ANSWER_TOKENS; row++, logits += scene->vocab)
            judge(scene, first + row / ANSWER_TOKENS, row % ANSWER_TOKENS, logits, &drawn[row]);
    }
    end_pass(scene, "sequences at once", began_s, began_cpu_s);
}

/* One step of all streams of the group: first their prompts, then a token each. */
static void judge_group_step(struct scene *scene, uint32_t first, uint32_t count, uint32_t at)
{
    struct model_runner_part parts[PROMPTS] = {{0}};
    for (uint32_t i = 0; i < count; i++) {
        const struct answer *answer = &scene->answers[first + i];
        uint32_t prompt = answer->prompt_tokens;
        if (at == 0)
            model_runner_reset(scene->runner, i);
        parts[i] =
            (struct model_runner_part){.slot = i,
                                       .tokens = answer->ids + (at > 0 ? prompt + at - 1 : 0),
                                       .count = at > 0 ? 1 : prompt,
                                       .logit_from = at > 0 ? 0 : prompt - 1};
    }
    const float *logits = model_runner_step(scene->runner, parts, count);
    const struct sampled_token *drawn = model_runner_drawn(scene->runner);
    for (uint32_t i = 0; i < count; i++)
        judge(scene, first + i, at, logits + (size_t)i * scene->vocab, &drawn[i]);
}

/* Groups of streams one after the other. */
static void judge_decode(struct scene *scene, const struct stretch *stretch)
{
    double began_s = now_s(CLOCK_MONOTONIC), began_cpu_s = now_s(CLOCK_PROCESS_CPUTIME_ID);
    char what[64];
    scene->tally = (struct tally){0};
    for (uint32_t first = 0; first < stretch->prompts; first += stretch->streams) {
        uint32_t left = stretch->prompts - first;
        for (uint32_t at = 0; at < stretch->tokens; at++)
            judge_group_step(scene, first, left < stretch->streams ? left : stretch->streams, at);
    }
    snprintf(what, sizeof what, "%u to a step", stretch->streams);
    end_pass(scene, what, began_s, began_cpu_s);
}

void vulkan_agreement_check(const char *model, const char *prompts, bool all)
{
    struct vulkan_settings vulkan = {.tier_limit = VULKAN_TIER_HIGHEST,
                                     .kernels_when_needed = true};
    struct model_runner_options options = {.vulkan = &vulkan,
                                           .sequences = PROMPTS,
                                           .sequence_tokens = SEQUENCE_TOKENS,
                                           .step_rows = PROMPTS * PROMPT_MAX,
                                           .logit_rows = PAIR * ANSWER_TOKENS};
    struct scene *scene = must_alloc(1, sizeof *scene);
    struct llama_cpp_reference *reference = llama_cpp_reference_open(prompts);
    assert_true(reference->sequence_count >= PROMPTS);
    for (uint32_t p = 0; p < PROMPTS; p++) {
        const struct reference_sequence *sequence = &reference->sequences[p];
        assert_int_equal(strncmp(sequence->name, "greedy", 6), 0);
        assert_in_range(sequence->prompt_tokens, 1, PROMPT_MAX);
        scene->answers[p].prompt_tokens = sequence->prompt_tokens;
        memcpy(scene->answers[p].ids, sequence->ids, sequence->prompt_tokens * sizeof(uint32_t));
    }
    llama_cpp_reference_close(reference);
    answer_on_cpu(scene, model);
    scene->runner = model_runner_create(model, &options);
    print_message("%s on %s, against the CPU backend\n", model,
                  model_runner_description(scene->runner));
    judge_prefill(scene, all ? PROMPTS : SOME_PROMPTS);
    const struct stretch *stretches = all ? everything : some;
    size_t count = all ? sizeof everything / sizeof *everything : sizeof some / sizeof *some;
    for (size_t i = 0; i < count; i++)
        judge_decode(scene, &stretches[i]);
    model_runner_destroy(scene->runner);
    free(scene);
}
