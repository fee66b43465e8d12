/*
 * One way of running all forms, so that what differs between two results is the form.
 */
#include "tests/support/checkpoint_forms.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"

#define GOLDEN "tests/golden/checkpoints"
#define FORMS  "build/checkpoints"

static FILE *open_golden(const char *family, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, GOLDEN "/%s/%s", family, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    return file;
}

void checkpoint_forms_read(const char *family, struct form_golden *golden)
{
    FILE *ids = open_golden(family, "ids.txt");
    for (uint32_t i = 0; i < FORM_POSITIONS; i++)
        assert_int_equal(fscanf(ids, "%u", &golden->ids[i]), 1);
    fclose(ids);
    FILE *logits = open_golden(family, "logits.f32");
    assert_int_equal(fread(golden->logits, sizeof golden->logits, 1, logits), 1);
    assert_int_equal(fgetc(logits), EOF);
    fclose(logits);
}

static uint32_t best_of(const float *logits)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < FORM_VOCAB; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

void checkpoint_forms_run(const char *form, const struct form_golden *golden,
                          const struct vulkan_settings *vulkan, const uint32_t *chunks,
                          uint32_t chunk_count, struct form_result *result)
{
    char path[128];
    struct model_runner_options options = {.vulkan = vulkan,
                                           .threads = 2,
                                           .kv_type = vulkan ? KV_CACHE_F16 : KV_CACHE_F32,
                                           .sequences = 1,
                                           .sequence_tokens = FORM_POSITIONS + FORM_ANSWER,
                                           .step_rows = FORM_POSITIONS};
    snprintf(path, sizeof path, FORMS "/%s", form);
    struct model_runner *runner = model_runner_create(path, &options);
    must(model_runner_plan(runner)->config.vocab_tokens == FORM_VOCAB);
    for (uint32_t from = 0, i = 0; from < FORM_POSITIONS; i++) {
        uint32_t left = FORM_POSITIONS - from, chunk = chunks[i % chunk_count];
        struct model_runner_part part = {.tokens = golden->ids + from,
                                         .count = chunk < left ? chunk : left};
        const float *logits = model_runner_step(runner, &part, 1);
        memcpy(result->logits[from], logits, part.count * sizeof result->logits[0]);
        from += part.count;
    }
    result->answer[0] = best_of(result->logits[FORM_POSITIONS - 1]);
    for (uint32_t i = 1; i < FORM_ANSWER; i++) {
        struct model_runner_part part = {.tokens = result->answer + i - 1, .count = 1};
        result->answer[i] = best_of(model_runner_step(runner, &part, 1));
    }
    model_runner_destroy(runner);
}

double checkpoint_forms_difference(const struct form_golden *golden,
                                   const struct form_result *result)
{
    double largest = 0, difference = 0;
    for (uint32_t p = 0; p < FORM_POSITIONS; p++)
        for (uint32_t t = 0; t < FORM_VOCAB; t++) {
            double want = (double)golden->logits[p][t], have = (double)result->logits[p][t];
            largest = fmax(largest, fabs(want));
            /* not fmax(): a NaN must not pass for no difference */
            difference = fabs(want - have) <= difference ? difference : fabs(want - have);
        }
    return difference / largest;
}
