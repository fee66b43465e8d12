/*
 * Runs all forms in the same way, so that results differ only by the form.
 */
#include "tests/support/checkpoint_forms.h"

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

static int compare_names(const void *one, const void *other)
{
    return strcmp(one, other);
}

uint32_t checkpoint_forms_families(char names[FORM_FAMILIES_MAX][FORM_NAME_BYTES])
{
    uint32_t count = 0;
    DIR *folder = opendir(GOLDEN);
    if (!folder)
        fail_msg("%s cannot be read", GOLDEN);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strchr(entry->d_name, '.'))
            continue; /* itself, its parent, and files with words */
        must(count < FORM_FAMILIES_MAX && strlen(entry->d_name) < FORM_NAME_BYTES);
        strcpy(names[count++], entry->d_name);
    }
    closedir(folder);
    qsort(names, count, FORM_NAME_BYTES, compare_names);
    return count;
}

bool checkpoint_forms_exists(const char *form)
{
    char path[128];
    snprintf(path, sizeof path, FORMS "/%s", form);
    return access(path, F_OK) == 0;
}

/* The sequence's slot, and the neighbours' in company. */
enum { BEFORE, SUBJECT, BEHIND, SLOTS };

/* One sequence that keeps the subject company: the subject's ids, backwards, over and over. */
static void take_neighbour(const struct form_golden *golden, uint32_t *at, uint32_t count,
                           uint32_t *tokens)
{
    for (uint32_t i = 0; i < count; i++, ++*at)
        tokens[i] = golden->ids[FORM_POSITIONS - 1 - *at % FORM_POSITIONS];
}

struct form_company {
    const struct form_golden *golden;
    uint32_t at[SLOTS]; /* tokens that each neighbour has had */
};

/* The subject's logits for its next `count` tokens. */
static const float *step_subject(struct model_runner *runner, struct form_company *company,
                                 const uint32_t *tokens, uint32_t count)
{
    struct model_runner_part parts[SLOTS];
    uint32_t single, three[3], part_count = 0;
    if (company) {
        take_neighbour(company->golden, &company->at[BEFORE], 1, &single);
        parts[part_count++] = (struct model_runner_part){
            .slot = BEFORE, .tokens = &single, .count = 1, .logit_from = 1};
    }
    parts[part_count++] =
        (struct model_runner_part){.slot = SUBJECT, .tokens = tokens, .count = count};
    if (company) {
        take_neighbour(company->golden, &company->at[BEHIND], 3, three);
        parts[part_count++] =
            (struct model_runner_part){.slot = BEHIND, .tokens = three, .count = 3};
    }
    return model_runner_step(runner, parts, part_count);
}

void checkpoint_forms_run(const char *form, const struct form_golden *golden,
                          const struct form_run *how, struct form_result *result)
{
    char path[128];
    struct model_runner_options options = {.vulkan = how->vulkan,
                                           .threads = 2,
                                           .activation_bits = how->activation_bits,
                                           .kv_type = how->vulkan ? KV_CACHE_F16 : KV_CACHE_F32,
                                           .sequences = SLOTS,
                                           .sequence_tokens = 3 * (FORM_POSITIONS + FORM_ANSWER),
                                           .step_rows = FORM_POSITIONS + 4};
    struct form_company company = {.golden = golden}, *with = how->company ? &company : NULL;
    snprintf(path, sizeof path, FORMS "/%s", form);
    struct model_runner *runner = model_runner_create(path, &options);
    must(model_runner_plan(runner)->config.vocab_tokens == FORM_VOCAB);
    for (uint32_t from = 0, i = 0; from < FORM_POSITIONS; i++) {
        uint32_t left = FORM_POSITIONS - from, chunk = how->chunks[i % how->chunk_count];
        uint32_t count = chunk < left ? chunk : left;
        const float *logits = step_subject(runner, with, golden->ids + from, count);
        memcpy(result->logits[from], logits, count * sizeof result->logits[0]);
        from += count;
    }
    result->answer[0] = best_of(result->logits[FORM_POSITIONS - 1]);
    for (uint32_t i = 1; i < FORM_ANSWER; i++)
        result->answer[i] = best_of(step_subject(runner, with, result->answer + i - 1, 1));
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
