/*
 * A stream's tokens do not depend on which other streams share its steps: streams with different
 * samplings, penalties among them, run together on a Vulkan device and each alone.
 *
 * Both runs advance side by side and are fed the tokens of the runs alone, so that one difference
 * does not cause others. Kernels for one row and for many round activations differently, so logits
 * differ a little, and draws near a boundary may too. Every token is compared with the draw as
 * specified (worker/sample/row_sampler.h) from the logits of its run, and logits must agree within
 * rounding. Where tokens differ, the test prints how small a change of the logits causes it.
 *
 * By default it runs few streams and tokens, because a driver for the CPU is slow.
 *
 * Prompts are those of the recorded answers, shorter in every round through them: after random
 * words almost every token is likely, and tokens would differ with any sampling.
 *
 * usage: vulkan_streams_test [MODEL [STREAMS [TOKENS]]]
 */
// tags: no-sanitizers optimized
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/llama_cpp_reference.h"
#include "tests/support/model_runner.h"
#include "worker/sample/token_counts.h"

#define SMOLLM2      "build/cache/models/smollm2-135m-instruct-q4_1.gguf"
#define PROMPTS_FILE "tests/golden/llama_cpp/smollm2-q4_1.txt"

#define STREAMS_MAX MODEL_RUNNER_SEQUENCES_MAX
#define TOKENS_MAX  512u
#define PROMPT_MIN  2u
#define PROMPT_MOST 64u
#define PROMPTS     20u
#define DIFFERS_MAX 0.25 /* of all draws */
#define DIFFERS_ANY 2u   /* and so many however few there are */
#define BISECTIONS  12u
/* Bounds of the differences of logits, as shares of a row's largest: each row's largest difference,
 * and its average. 8-bit codes differ from f32 by up to 0.07 of it, f16 from codes by as much. If a
 * block of activations has one number far above the others, codes represent these poorly; then both
 * are compared with the CPU backend at 16 bits, and only the stream alone, whose kernels take
 * codes, may differ more from it. */
#define LOGITS_DIFFER_MAX     0.12
#define LOGITS_DIFFER_AVERAGE 0.05
#define LOGITS_DIFFER_CODES   0.3
#define CODES_DIFFER_MAX      0.002 /* of all draws */

struct stream {
    uint32_t prompt_tokens;
    uint32_t ids[PROMPT_MOST + TOKENS_MAX];
    struct sampling_params params;
    struct token_counts *counts; /* NULL: no penalty */
    struct row_sampling sampling;
};

struct scene {
    struct model_runner *together;
    struct model_runner *alone;
    struct model_runner *exact; /* the CPU backend; NULL until it is asked */
    struct row_sampler *sampler;
    uint32_t vocab;
    uint32_t draws;
    uint32_t different;
    uint32_t asked;
    double largest_difference; /* of logits, as a share of the row's largest */
    double differences;        /* sum over draws of each row's largest */
    struct stream streams[STREAMS_MAX];
};

static const char *model = SMOLLM2;
static uint32_t streams = 4;
static uint32_t tokens = 4;

/* Every filter and penalty occurs, alone and combined. */
static struct sampling_params params_of(uint32_t stream)
{
    struct sampling_params params = sampling_params_default();
    params.seed = 1000 + stream;
    params.temperature = 0.3f + 0.015f * (float)stream;
    params.top_k = stream % 2 == 1 ? 1 + stream * 3 : 0;
    params.top_p = stream % 3 == 1 ? 0.8f : 1.0f;
    params.min_p = stream % 5 == 2 ? 0.05f : 0.0f;
    params.typical_p = stream % 4 == 2 ? 0.9f : 1.0f;
    params.top_n_sigma = stream % 7 == 1 ? 1.5f : 0.0f;
    params.repetition_penalty = stream % 4 == 3 ? 1.2f : 1.0f;
    params.presence_penalty = stream % 8 == 5 ? 0.5f : 0.0f;
    params.frequency_penalty = stream % 8 == 7 ? 0.3f : 0.0f;
    return params;
}

static void begin_stream(struct stream *stream, uint32_t number,
                         const struct llama_cpp_reference *reference)
{
    const struct reference_sequence *prompt = &reference->sequences[number % PROMPTS];
    uint32_t shorter = number / PROMPTS;
    must(prompt->prompt_tokens <= PROMPT_MOST && prompt->prompt_tokens >= PROMPT_MIN + shorter);
    stream->prompt_tokens = prompt->prompt_tokens - shorter;
    memcpy(stream->ids, prompt->ids, stream->prompt_tokens * sizeof *prompt->ids);
    stream->params = params_of(number);
    stream->sampling =
        (struct row_sampling){.params = &stream->params, .first_generated = stream->prompt_tokens};
    if (number % 4 != 3 && number % 8 != 5)
        return;
    stream->counts = token_counts_create(&stream->params, stream->prompt_tokens);
    stream->sampling.counts = stream->counts;
    must(token_counts_follow(stream->counts, stream->ids, stream->prompt_tokens) == RESULT_OK);
}

/* The rows that end in the stream's draw `at`. */
static struct model_runner_part part_of(const struct stream *stream, uint32_t slot, uint32_t at)
{
    uint32_t count = at > 0 ? 1 : stream->prompt_tokens;
    return (struct model_runner_part){.slot = slot,
                                      .tokens = stream->ids +
                                                (at > 0 ? stream->prompt_tokens + at - 1 : 0),
                                      .count = count,
                                      .logit_from = count - 1,
                                      .sampling = &stream->sampling};
}

static double difference_of(const float *one, const float *other, uint32_t count)
{
    double largest = 0, difference = 0;
    for (uint32_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)one[i]));
        difference = fmax(difference, fabs((double)one[i] - (double)other[i]));
    }
    return difference / largest;
}

/* The point between the logits of the run alone (0) and those of the other run (1) at which the
 * draw changes. */
static double change_needed(struct scene *scene, const struct row_sampling *sampling,
                            const float *alone, const float *together, uint32_t token_alone)
{
    double same = 0, other = 1;
    float *between = must_alloc(scene->vocab, sizeof *between);
    for (uint32_t i = 0; i < BISECTIONS; i++) {
        double part = (same + other) / 2;
        for (uint32_t t = 0; t < scene->vocab; t++)
            between[t] = (float)((1 - part) * (double)alone[t] + part * (double)together[t]);
        bool kept = row_sampler_draw(scene->sampler, between, sampling).token == token_alone;
        *(kept ? &same : &other) = part;
    }
    free(between);
    return other;
}

static void expect_draw(struct scene *scene, const char *run, uint32_t number, uint32_t at,
                        const struct row_sampling *sampling, const float *logits, uint32_t token)
{
    const struct sampling_params *params = sampling->params;
    uint32_t specified = row_sampler_draw(scene->sampler, logits, sampling).token;
    if (specified == token)
        return;
    fail_msg("stream %u %s, token %u: %u (logit %.9g) was drawn, not %u (%.9g); temperature %.9g "
             "top_k %u top_p %.9g min_p %.9g typical_p %.9g top_n_sigma %.9g, penalties %d",
             number, run, at, token, (double)logits[token], specified, (double)logits[specified],
             (double)params->temperature, params->top_k, (double)params->top_p,
             (double)params->min_p, (double)params->typical_p, (double)params->top_n_sigma,
             sampling->counts != NULL);
}

/* A large difference must be between the stream alone and the CPU backend. */
static void ask_cpu(struct scene *scene, uint32_t number, uint32_t at, const float *together,
                    const float *alone)
{
    const struct stream *stream = &scene->streams[number];
    struct model_runner_options options = {.sequences = 1,
                                           .sequence_tokens = PROMPT_MOST + tokens,
                                           .step_rows = PROMPT_MOST + tokens,
                                           .logit_rows = 1,
                                           .activation_bits = 16,
                                           .kv_type = KV_CACHE_F32};
    if (!scene->exact)
        scene->exact = model_runner_create(model, &options);
    uint32_t count = stream->prompt_tokens + at;
    struct model_runner_part part = {
        .tokens = stream->ids, .count = count, .logit_from = count - 1};
    const float *exact = model_runner_step(scene->exact, &part, 1);
    double together_off = difference_of(exact, together, scene->vocab);
    double alone_off = difference_of(exact, alone, scene->vocab);
    model_runner_reset(scene->exact, 0);
    print_message("    stream %u, token %u: together %.5f, alone %.5f of the largest logit away "
                  "from the CPU's\n",
                  number, at, together_off, alone_off);
    assert_true(together_off <= LOGITS_DIFFER_MAX);
    assert_true(alone_off <= LOGITS_DIFFER_CODES);
    scene->asked++;
}

static void judge(struct scene *scene, uint32_t number, uint32_t at, const float *together,
                  uint32_t token_together, const float *alone, uint32_t token_alone)
{
    struct stream *stream = &scene->streams[number];
    double difference = difference_of(alone, together, scene->vocab);
    struct row_sampling sampling = stream->sampling;
    sampling.position = stream->prompt_tokens + at;
    expect_draw(scene, "together", number, at, &sampling, together, token_together);
    expect_draw(scene, "alone", number, at, &sampling, alone, token_alone);
    scene->draws++;
    scene->differences += difference;
    if (difference > LOGITS_DIFFER_MAX)
        ask_cpu(scene, number, at, together, alone);
    scene->largest_difference = fmax(scene->largest_difference, difference);
    if (token_together == token_alone)
        return;
    scene->different++;
    double change = change_needed(scene, &sampling, alone, together, token_alone);
    print_message("    stream %u, token %u: %u together, %u alone, each as specified from its "
                  "logits; a change of those by %.5f of the largest suffices\n",
                  number, at, token_together, token_alone, change * difference);
}

static void run_draw(struct scene *scene, uint32_t at)
{
    struct model_runner_part parts[STREAMS_MAX] = {{0}};
    for (uint32_t s = 0; s < streams; s++)
        parts[s] = part_of(&scene->streams[s], s, at);
    const float *together = model_runner_step(scene->together, parts, streams);
    const struct sampled_token *drawn = model_runner_drawn(scene->together);
    for (uint32_t s = 0; s < streams; s++) {
        struct stream *stream = &scene->streams[s];
        const float *alone = model_runner_step(scene->alone, &parts[s], 1);
        uint32_t token = model_runner_drawn(scene->alone)->token;
        judge(scene, s, at, together + (size_t)s * scene->vocab, drawn[s].token, alone, token);
        stream->ids[stream->prompt_tokens + at] = token;
        if (stream->counts)
            must(token_counts_follow(stream->counts, stream->ids, stream->prompt_tokens + at + 1) ==
                 RESULT_OK);
    }
}

static void test_streams_together_and_alone(void **state)
{
    (void)state;
    struct vulkan_settings vulkan = {.tier_limit = VULKAN_TIER_HIGHEST,
                                     .kernels_when_needed = true};
    struct model_runner_options options = {
        .vulkan = &vulkan,
        .sequences = streams,
        .sequence_tokens = PROMPT_MOST + tokens,
        .step_rows = streams * PROMPT_MOST,
        .logit_rows = streams,
    };
    struct scene *scene = must_alloc(1, sizeof *scene);
    scene->together = model_runner_create(model, &options);
    scene->alone = model_runner_create(model, &options);
    scene->vocab = model_runner_plan(scene->together)->config.vocab_tokens;
    scene->sampler = row_sampler_create(scene->vocab);
    print_message("%s on %s: %u streams of %u tokens\n", model,
                  model_runner_description(scene->together), streams, tokens);
    struct llama_cpp_reference *reference = llama_cpp_reference_open(PROMPTS_FILE);
    for (uint32_t s = 0; s < streams; s++)
        begin_stream(&scene->streams[s], s, reference);
    llama_cpp_reference_close(reference);
    for (uint32_t at = 0; at < tokens; at++)
        run_draw(scene, at);
    double average = scene->differences / scene->draws;
    print_message("  %u draws, all as specified, %u differ; logits differ by up to %.6f of a row's "
                  "largest, on average %.6f\n",
                  scene->draws, scene->different, scene->largest_difference, average);
    assert_true(scene->different <= DIFFERS_ANY + DIFFERS_MAX * scene->draws);
    assert_true(scene->asked <= CODES_DIFFER_MAX * scene->draws);
    assert_true(average <= LOGITS_DIFFER_AVERAGE);
    for (uint32_t s = 0; s < streams; s++)
        token_counts_destroy(scene->streams[s].counts);
    row_sampler_destroy(scene->sampler);
    model_runner_destroy(scene->together);
    model_runner_destroy(scene->alone);
    if (scene->exact)
        model_runner_destroy(scene->exact);
    free(scene);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_streams_together_and_alone)};
    model = argc > 1 ? argv[1] : model;
    streams = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : streams;
    tokens = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : tokens;
    must(streams >= 1 && streams <= STREAMS_MAX && tokens >= 1 && tokens <= TOKENS_MAX);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
