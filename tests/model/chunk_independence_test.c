/*
 * A sequence's logits have the same bits whether it is prefilled at once, in odd chunks or token by
 * token, alone or beside other sequences, on one thread or two. This allows a server to batch,
 * chunk, preempt and replay without changing an answer.
 *
 * Gemma's sequences are longer than its sliding window, so blocks are freed on the way and
 * overwritten by other sequences. Quantized keys and values are covered too.
 */
// tags: long
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/model_runner.h"

#define SMOLLM2     "build/cache/models/smollm2-135m-instruct-q4_1.gguf"
#define GEMMA3      "build/cache/models/gemma-3-270m-q4_k_m.gguf"
#define TOKENS_MAX  640u
#define COMPARED    12u /* the last positions of the sequence, whose logits are kept */
#define ROWS_BESIDE 2u

struct scene {
    struct model_runner *runner;
    uint32_t vocab;
    uint32_t tokens; /* of the sequence under test */
    uint32_t ids[TOKENS_MAX];
    uint32_t neighbour_ids[TOKENS_MAX];
    float *kept; /* [COMPARED, vocab]: the logits of the last run */
};

static const struct kv_quantization full = {.scheme = KV_QUANT_NONE};

static struct scene *make_scene(const char *path, uint32_t tokens, uint32_t threads,
                                const struct kv_quantization *quantization)
{
    struct scene *scene = must_alloc(1, sizeof(*scene));
    struct model_runner_options options = {.threads = threads,
                                           .quantization = *quantization,
                                           .sequences = 1 + ROWS_BESIDE,
                                           .sequence_tokens = TOKENS_MAX,
                                           .step_rows = TOKENS_MAX};
    scene->runner = model_runner_create(path, &options);
    scene->vocab = model_runner_plan(scene->runner)->config.vocab_tokens;
    scene->tokens = tokens;
    scene->kept = must_alloc((size_t)COMPARED * scene->vocab, sizeof(float));
    uint64_t state = 20261121;
    for (uint32_t i = 0; i < TOKENS_MAX; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        scene->ids[i] = (uint32_t)((state >> 33) % scene->vocab);
        scene->neighbour_ids[i] = (uint32_t)((state >> 21) % scene->vocab);
    }
    return scene;
}

static void drop_scene(struct scene *scene)
{
    model_runner_destroy(scene->runner);
    free(scene->kept);
    free(scene);
}

/*
 * Runs the whole sequence in slot `slot`, `chunks[i % chunk_count]` rows at a time, and keeps the
 * logits of the last COMPARED positions. With neighbours, each step also has rows of two others.
 */
static void run(struct scene *scene, uint32_t slot, const uint32_t *chunks, uint32_t chunk_count,
                bool with_neighbours)
{
    uint32_t first_kept = scene->tokens - COMPARED;
    uint32_t neighbour_at = 0;
    model_runner_reset(scene->runner, slot);
    for (uint32_t from = 0, i = 0; from < scene->tokens; i++) {
        uint32_t count = chunks[i % chunk_count];
        count = count < scene->tokens - from ? count : scene->tokens - from;
        uint32_t skip = first_kept > from ? first_kept - from : 0;
        struct model_runner_part parts[1 + ROWS_BESIDE];
        uint32_t part_count = 0;
        for (uint32_t s = 0; s < 1 + ROWS_BESIDE; s++) {
            uint32_t rows = s % 3 + 1; /* one neighbour decodes, one prefills */
            if (s == slot)
                parts[part_count++] =
                    (struct model_runner_part){.slot = s,
                                               .tokens = scene->ids + from,
                                               .count = count,
                                               .logit_from = skip < count ? skip : count};
            else if (with_neighbours && neighbour_at + rows <= TOKENS_MAX)
                parts[part_count++] =
                    (struct model_runner_part){.slot = s,
                                               .tokens = scene->neighbour_ids + neighbour_at,
                                               .count = rows,
                                               .logit_from = rows};
        }
        neighbour_at += 3;
        const float *logits = model_runner_step(scene->runner, parts, part_count);
        if (skip < count)
            memcpy(scene->kept + (size_t)(from + skip - first_kept) * scene->vocab, logits,
                   (size_t)(count - skip) * scene->vocab * sizeof(float));
        from += count;
    }
    if (with_neighbours)
        for (uint32_t s = 0; s < 1 + ROWS_BESIDE; s++)
            if (s != slot)
                model_runner_reset(scene->runner, s);
}

static float *take_kept(struct scene *scene)
{
    size_t bytes = (size_t)COMPARED * scene->vocab * sizeof(float);
    float *copy = must_alloc(bytes, 1);
    memcpy(copy, scene->kept, bytes);
    memset(scene->kept, 0xff, bytes);
    return copy;
}

static void assert_same(const struct scene *scene, const float *expected)
{
    for (uint32_t row = 0; row < COMPARED; row++)
        for (uint32_t t = 0; t < scene->vocab; t++) {
            size_t at = (size_t)row * scene->vocab + t;
            if (memcmp(&scene->kept[at], &expected[at], sizeof(float)) != 0)
                fail_msg("row %u of the last %u, token %u: %.9g, not %.9g", row, COMPARED, t,
                         (double)scene->kept[at], (double)expected[at]);
        }
}

static void check_model(const char *path, uint32_t tokens,
                        const struct kv_quantization *quantization)
{
    static const uint32_t at_once[] = {TOKENS_MAX};
    static const uint32_t odd[] = {1, 61, 3, 130, 17, 5, 64, 2, 31};
    const uint32_t tail_alone[] = {tokens - COMPARED - 20,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1,
                                   1};
    struct scene *scene = make_scene(path, tokens, 2, quantization);
    run(scene, 0, at_once, 1, false);
    float *expected = take_kept(scene);
    assert_true(memcmp(expected, expected + (size_t)scene->vocab, sizeof(float) * 64) != 0);

    run(scene, 0, odd, sizeof(odd) / sizeof(odd[0]), false);
    assert_same(scene, expected);
    run(scene, 1, tail_alone, sizeof(tail_alone) / sizeof(tail_alone[0]), false);
    assert_same(scene, expected);
    run(scene, 1, odd, sizeof(odd) / sizeof(odd[0]), true);
    assert_same(scene, expected);
    free(expected);
    drop_scene(scene);
}

static void test_smollm2(void **state)
{
    (void)state;
    check_model(SMOLLM2, 150, &full);
}

static void test_quantized_caches(void **state)
{
    (void)state;
    check_model(SMOLLM2, 150, &(struct kv_quantization){KV_QUANT_TURBOQUANT, 7, 8, 0, 0});
    check_model(SMOLLM2, 90, &(struct kv_quantization){KV_QUANT_UNIFORM, 16, 10, 32, 83});
}

/* Within the full-precision prefix the numbers are those of full precision; after it they differ.
 */
static void test_a_start_of_quantization(void **state)
{
    (void)state;
    static const uint32_t chunk[] = {50};
    const uint32_t tokens = 90, start = 83;
    struct scene *scene = make_scene(SMOLLM2, tokens, 2, &full);
    run(scene, 0, chunk, 1, false);
    float *expected = take_kept(scene);
    drop_scene(scene);
    scene = make_scene(SMOLLM2, tokens, 2,
                       &(struct kv_quantization){KV_QUANT_UNIFORM, 16, 16, 0, start});
    run(scene, 0, chunk, 1, false);
    for (uint32_t row = 0; row < COMPARED; row++) {
        const size_t at = (size_t)row * scene->vocab;
        bool same = memcmp(scene->kept + at, expected + at, scene->vocab * sizeof(float)) == 0;
        assert_true(same == (tokens - COMPARED + row < start));
    }
    free(expected);
    drop_scene(scene);
}

static void test_gemma3_past_its_window(void **state)
{
    (void)state;
    check_model(GEMMA3, 620, &full);
}

static void test_gemma3_gives_blocks_back(void **state)
{
    (void)state;
    static const uint32_t chunk[] = {40};
    struct scene *scene = make_scene(GEMMA3, 600, 2, &full);
    const struct kv_layout *kv = &model_runner_plan(scene->runner)->kv;
    run(scene, 0, chunk, 1, false);
    for (uint32_t group = 0; group < kv->group_count; group++) {
        uint32_t held = model_runner_blocks_held(scene->runner, 0, group);
        assert_true(held <= kv_layout_blocks_needed(kv, group, 600, 40));
        if (kv->groups[group].kind == KV_SLIDING)
            assert_true(held < 600 / KV_BLOCK_TOKENS);
    }
    drop_scene(scene);
}

static void test_thread_count(void **state)
{
    (void)state;
    static const uint32_t chunk[] = {50};
    struct scene *two = make_scene(SMOLLM2, 100, 2, &full);
    run(two, 0, chunk, 1, false);
    float *expected = take_kept(two);
    drop_scene(two);
    struct scene *one = make_scene(SMOLLM2, 100, 1, &full);
    run(one, 0, chunk, 1, false);
    assert_same(one, expected);
    free(expected);
    drop_scene(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_quantized_caches),
        cmocka_unit_test(test_a_start_of_quantization),
        cmocka_unit_test(test_gemma3_past_its_window),
        cmocka_unit_test(test_gemma3_gives_blocks_back),
        cmocka_unit_test(test_thread_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
