/*
 * Settings that few published models use, each in two shapes, in folders as transformers saves them
 * (tests/golden/features): the logits are those of transformers, and have the same bits however the
 * rows are spread over steps. An argument names another directory of such folders, or of GGUF files
 * in folders (tests/api/drawn_texts_test.py).
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
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/model_runner.h"

#define GOLDEN          "tests/golden/features"
#define GGUF            "model.gguf" /* in a folder, if it is there */
#define POSITIONS       24u
#define FOLDERS_MAX     128u
#define NAME_BYTES      64u
#define DIFFERENCE_MOST 1e-4 /* as a fraction of the largest logit */
#define PACKED_MOST     2e-3 /* of quantized weights, whose products round activations */

static char names[FOLDERS_MAX][NAME_BYTES];
static const char *directory = GOLDEN;

static FILE *open_golden(const char *name, const char *file_name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", directory, name, file_name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    return file;
}

/* Runs all positions, `chunk` at a time: logits [POSITIONS, vocab]. */
static void run(struct model_runner *runner, const uint32_t *ids, uint32_t chunk, float *logits)
{
    uint32_t vocab = model_runner_plan(runner)->config.vocab_tokens;
    for (uint32_t from = 0; from < POSITIONS; from += chunk) {
        uint32_t count = chunk < POSITIONS - from ? chunk : POSITIONS - from;
        struct model_runner_part part = {.tokens = ids + from, .count = count};
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
    printf("feature %-20s %.0e\n", name, worst / largest);
    double most = strncmp(name, "packed", 6) == 0 ? PACKED_MOST : DIFFERENCE_MOST;
    if (!(worst <= most * largest))
        fail_msg("%s differs by %g of the largest logit", name, worst / largest);
}

static void test_folder(void **state)
{
    const char *name = *state;
    const struct model_runner_options options = {.threads = 2,
                                                 .activation_bits = 16,
                                                 .kv_type = KV_CACHE_F32,
                                                 .sequences = 1,
                                                 .sequence_tokens = POSITIONS,
                                                 .step_rows = POSITIONS};
    char path[512];
    uint32_t ids[POSITIONS];
    FILE *file = open_golden(name, "ids.txt");
    for (uint32_t i = 0; i < POSITIONS; i++)
        assert_int_equal(fscanf(file, "%u", &ids[i]), 1);
    fclose(file);
    snprintf(path, sizeof path, "%s/%s/" GGUF, directory, name);
    if (access(path, F_OK) != 0)
        snprintf(path, sizeof path, "%s/%s", directory, name);
    struct model_runner *runner = model_runner_create(path, &options);
    size_t count = (size_t)POSITIONS * model_runner_plan(runner)->config.vocab_tokens;
    float *want = must_alloc(count, sizeof *want), *whole = must_alloc(count, sizeof *whole);
    float *pieces = must_alloc(count, sizeof *pieces);
    file = open_golden(name, "logits.f32");
    assert_int_equal(fread(want, sizeof *want, count, file), count);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    run(runner, ids, POSITIONS, whole);
    check_difference(name, whole, want, count);
    run(runner, ids, 1, pieces);
    assert_memory_equal(whole, pieces, count * sizeof *whole);
    run(runner, ids, 7, pieces);
    assert_memory_equal(whole, pieces, count * sizeof *whole);
    free(want);
    free(whole);
    free(pieces);
    model_runner_destroy(runner);
}

static uint32_t list_folders(void)
{
    uint32_t count = 0;
    DIR *folder = opendir(directory);
    must(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strchr(entry->d_name, '.'))
            continue;
        must(count < FOLDERS_MAX && strlen(entry->d_name) < NAME_BYTES);
        strcpy(names[count++], entry->d_name);
    }
    closedir(folder);
    return count;
}

int main(int word_count, char **words)
{
    directory = word_count > 1 ? words[1] : GOLDEN;
    static struct CMUnitTest tests[FOLDERS_MAX];
    uint32_t count = list_folders();
    must(count > 0);
    for (uint32_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){
            .name = names[i], .test_func = test_folder, .initial_state = names[i]};
    return _cmocka_run_group_tests("features", tests, count, NULL, NULL);
}
