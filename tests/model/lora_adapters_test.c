/*
 * LoRA adapters made by PEFT (tests/golden/adapters): logits and greedy tokens are those of
 * transformers with the adapter, and have the same bits however rows are spread over steps and
 * whichever other adapters share them.
 */
// tags: arm
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/model_runner.h"

#define GOLDEN     "tests/golden/"
#define POSITIONS  24u
#define GREEDY     24u
#define CASES_MAX  32u
#define NAME_BYTES 64u
#define COMPANIONS 16u
#define DIFFERENCE_MOST                                                                            \
    1e-5 /* as a fraction of the largest logit; weights and activations are F32 */

struct golden {
    char name[NAME_BYTES];
    char folder[320];
    char base[256];
    uint32_t ids[POSITIONS];
    uint32_t greedy[GREEDY];
};

static struct golden cases[CASES_MAX];
static uint32_t case_count;

static FILE *open_golden(const struct golden *golden, const char *file_name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", golden->folder, file_name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    return file;
}

static void read_ids(const struct golden *golden, const char *name, uint32_t *ids, uint32_t count)
{
    FILE *file = open_golden(golden, name);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(fscanf(file, "%u", &ids[i]), 1);
    fclose(file);
}

static struct model_runner *create_runner(const char *base, uint32_t sequences)
{
    const struct model_runner_options options = {.threads = 2,
                                                 .activation_bits = 16,
                                                 .kv_type = KV_CACHE_F32,
                                                 .sequences = sequences,
                                                 .sequence_tokens = POSITIONS + GREEDY,
                                                 .step_rows = sequences * POSITIONS};
    return model_runner_create(base, &options);
}

/* Logits of all positions, `chunk` at a time: [POSITIONS, vocab]. */
static void run(struct model_runner *runner, const struct golden *golden, uint32_t adapter,
                uint32_t chunk, float *logits)
{
    uint32_t vocab = model_runner_plan(runner)->config.vocab_tokens;
    for (uint32_t from = 0; from < POSITIONS; from += chunk) {
        uint32_t count = chunk < POSITIONS - from ? chunk : POSITIONS - from;
        struct model_runner_part part = {
            .tokens = golden->ids + from, .count = count, .adapter = adapter};
        memcpy(logits + (size_t)from * vocab, model_runner_step(runner, &part, 1),
               (size_t)count * vocab * sizeof *logits);
    }
    model_runner_reset(runner, 0);
}

static void check_difference(const char *name, const float *have, const float *want, size_t count)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)have[i] - (double)want[i]);
        worst = difference > worst || isnan(difference) ? difference : worst;
        largest = fmax(largest, fabs((double)want[i]));
    }
    printf("adapter %-20s %.0e\n", name, worst / largest);
    if (!(worst <= DIFFERENCE_MOST * largest))
        fail_msg("%s differs by %g of the largest logit", name, worst / largest);
}

static void check_greedy(struct model_runner *runner, const struct golden *golden)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < GREEDY; i++) {
        struct model_runner_part part = {.tokens = i == 0 ? golden->ids : &last,
                                         .count = i == 0 ? POSITIONS : 1,
                                         .logit_from = i == 0 ? POSITIONS - 1 : 0,
                                         .adapter = 1};
        (void)model_runner_step(runner, &part, 1);
        last = model_runner_drawn(runner)[0].token;
        assert_int_equal(last, golden->greedy[i]);
    }
    model_runner_reset(runner, 0);
}

static void test_agreement(void **state)
{
    const struct golden *golden = *state;
    struct model_runner *runner = create_runner(golden->base, 1);
    size_t count = (size_t)POSITIONS * model_runner_plan(runner)->config.vocab_tokens;
    float *want = must_alloc(count, sizeof *want), *whole = must_alloc(count, sizeof *whole);
    float *pieces = must_alloc(count, sizeof *pieces);
    FILE *file = open_golden(golden, "logits.f32");
    assert_int_equal(fread(want, sizeof *want, count, file), count);
    fclose(file);
    run(runner, golden, 0, POSITIONS, pieces); /* the model alone */
    model_runner_adapter(runner, 0, golden->folder);
    run(runner, golden, 1, POSITIONS, whole);
    check_difference(golden->name, whole, want, count);
    run(runner, golden, 0, POSITIONS, want);
    assert_memory_equal(want, pieces, count * sizeof *want); /* unchanged beside an adapter */
    assert_memory_not_equal(want, whole, count * sizeof *want);
    run(runner, golden, 1, 1, pieces);
    assert_memory_equal(whole, pieces, count * sizeof *whole);
    run(runner, golden, 1, 7, pieces);
    assert_memory_equal(whole, pieces, count * sizeof *whole);
    check_greedy(runner, golden);
    free(want);
    free(whole);
    free(pieces);
    model_runner_destroy(runner);
}

/* Sequences of all adapters of one checkpoint, and of none, in the same steps. */
static void check_company(const char *base)
{
    uint32_t own[CASES_MAX], adapters = 0;
    struct model_runner *runner = create_runner(base, COMPANIONS);
    uint32_t vocab = model_runner_plan(runner)->config.vocab_tokens;
    size_t count = (size_t)POSITIONS * vocab;
    float *alone = must_alloc(COMPANIONS * count, sizeof *alone);
    struct model_runner_part parts[COMPANIONS];
    for (uint32_t i = 0; i < case_count; i++) {
        if (strcmp(cases[i].base, base) != 0)
            continue;
        model_runner_adapter(runner, adapters, cases[i].folder);
        own[adapters++] = i;
    }
    for (uint32_t s = 0; s < COMPANIONS; s++) {
        uint32_t adapter = s % (adapters + 1);
        const struct golden *golden = &cases[own[s % adapters]];
        run(runner, golden, adapter, POSITIONS, alone + s * count);
        parts[s] = (struct model_runner_part){
            .slot = s, .tokens = golden->ids, .count = s + 1, .adapter = adapter};
    }
    uint32_t done[COMPANIONS] = {0}, running = COMPANIONS;
    while (running > 0) {
        const float *logits = model_runner_step(runner, parts, running);
        uint32_t left = 0;
        for (uint32_t i = 0; i < running; i++) {
            struct model_runner_part *part = &parts[i];
            assert_memory_equal(logits,
                                alone + part->slot * count + (size_t)done[part->slot] * vocab,
                                (size_t)part->count * vocab * sizeof *logits);
            logits += (size_t)part->count * vocab;
            done[part->slot] += part->count;
            part->tokens += part->count;
            if (part->count > POSITIONS - done[part->slot])
                part->count = POSITIONS - done[part->slot];
            if (part->count > 0)
                parts[left++] = *part;
        }
        running = left;
    }
    free(alone);
    model_runner_destroy(runner);
}

static void test_company(void **state)
{
    (void)state;
    check_company(GOLDEN "features/llama_biases-a");
    check_company(GOLDEN "features/llama_biases-b");
}

static void list_cases(void)
{
    DIR *folder = opendir(GOLDEN "adapters");
    must(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct golden *golden = &cases[case_count];
        char base[128];
        if (strchr(entry->d_name, '.'))
            continue;
        must(case_count < CASES_MAX && strlen(entry->d_name) < NAME_BYTES);
        strcpy(golden->name, entry->d_name);
        snprintf(golden->folder, sizeof golden->folder, GOLDEN "adapters/%s", entry->d_name);
        FILE *file = open_golden(golden, "base.txt");
        must(fscanf(file, "%127s", base) == 1);
        fclose(file);
        snprintf(golden->base, sizeof golden->base, GOLDEN "%s", base);
        read_ids(golden, "ids.txt", golden->ids, POSITIONS);
        read_ids(golden, "greedy.txt", golden->greedy, GREEDY);
        case_count++;
    }
    closedir(folder);
}

int main(void)
{
    static struct CMUnitTest tests[CASES_MAX + 1];
    list_cases();
    must(case_count > 0);
    for (uint32_t i = 0; i < case_count; i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = test_agreement, .initial_state = &cases[i]};
    tests[case_count] = (struct CMUnitTest){.name = "company", .test_func = test_company};
    return _cmocka_run_group_tests("adapters", tests, case_count + 1, NULL, NULL);
}
