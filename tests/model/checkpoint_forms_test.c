/*
 * Every family's tiny checkpoint as a folder, as several files and as a GGUF, in F32, F16 and BF16:
 * all give the logits of the reference, and the same tokens. Several files give the same bits as
 * one file; between types and formats, sums run in another order. A sequence's logits have the same
 * bits however its rows are spread over steps and whichever sequences share them.
 *
 * Prints a line for each family; scripts/family_table makes the table of
 * worker/model/family/README.md from them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/checkpoint_forms.h"

#define DIFFERENCE_MOST 1e-4 /* as a fraction of the largest logit */

static const char *const types[] = {"f32", "f16", "bf16"};

static struct form_golden golden;
static struct form_result whole, other;

static const uint32_t at_once[] = {FORM_POSITIONS};

static double run(const char *family, const char *type, const char *ending,
                  struct form_result *result)
{
    static const struct form_run how = {.chunks = at_once, .chunk_count = 1};
    char form[FORM_NAME_BYTES * 2];
    snprintf(form, sizeof form, "%s-%s%s", family, type, ending);
    checkpoint_forms_run(form, &golden, &how, result);
    double difference = checkpoint_forms_difference(&golden, result);
    if (!(difference <= DIFFERENCE_MOST))
        fail_msg("%s differs from the reference by %g", form, difference);
    return difference;
}

/* Every form agrees with the reference, sharded equals unsharded bit for bit, and all give the same
 * tokens. */
static void check_forms(const char *family, char *line, size_t line_bytes)
{
    uint32_t answer[FORM_ANSWER];
    double folder = 0, file = 0;
    char form[FORM_NAME_BYTES * 2];
    snprintf(form, sizeof form, "%s-f32.gguf", family);
    bool gguf = checkpoint_forms_exists(form);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        double difference = run(family, types[t], "", &whole);
        folder = difference > folder ? difference : folder;
        run(family, types[t], "-sharded", &other);
        assert_memory_equal(&whole, &other, sizeof whole);
        if (gguf) {
            difference = run(family, types[t], ".gguf", &other);
            file = difference > file ? difference : file;
            assert_memory_equal(whole.answer, other.answer, sizeof whole.answer);
        }
        if (t == 0)
            memcpy(answer, whole.answer, sizeof answer);
        assert_memory_equal(answer, whole.answer, sizeof answer);
    }
    int length = snprintf(line, line_bytes, "folder %.0e, sharded equal, ", folder);
    snprintf(line + length, line_bytes - (size_t)length, gguf ? "GGUF %.0e" : "GGUF -", file);
}

/* Prefilled in odd chunks, token by token, and beside other sequences. */
static void check_chunks(const char *family)
{
    static const uint32_t odd[] = {5, 1, 7, 3}, one[] = {1};
    static const struct form_run runs[] = {
        {.chunks = odd, .chunk_count = 4},
        {.chunks = one, .chunk_count = 1},
        {.chunks = odd, .chunk_count = 4, .company = true},
    };
    char form[FORM_NAME_BYTES * 2];
    run(family, "f32", "", &whole);
    snprintf(form, sizeof form, "%s-f32", family);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        checkpoint_forms_run(form, &golden, &runs[i], &other);
        assert_memory_equal(&whole, &other, sizeof whole);
    }
}

static void test_family(void **state)
{
    const char *family = *state;
    char line[128] = "";
    checkpoint_forms_read(family, &golden);
    check_forms(family, line, sizeof line);
    check_chunks(family);
    printf("family %s cpu: %s, chunks equal, single equal, mixed equal\n", family, line);
}

/* A GGUF split by the gguf package gives the same bits. */
static void test_split_file(void **state)
{
    static const char *const parts = "-00001-of-00003.gguf";
    (void)state;
    checkpoint_forms_read("llama", &golden);
    run("llama", "f32", ".gguf", &whole);
    run("llama", "split", parts, &other);
    assert_memory_equal(&whole, &other, sizeof whole);
}

int main(void)
{
    static char names[FORM_FAMILIES_MAX][FORM_NAME_BYTES];
    static struct CMUnitTest tests[FORM_FAMILIES_MAX + 1];
    uint32_t count = checkpoint_forms_families(names);
    for (uint32_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){
            .name = names[i], .test_func = test_family, .initial_state = names[i]};
    tests[count] = (struct CMUnitTest){.name = "split file", .test_func = test_split_file};
    return _cmocka_run_group_tests("families", tests, count + 1, NULL, NULL);
}
