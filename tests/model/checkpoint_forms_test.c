/*
 * The same tiny checkpoint as a folder, in several files and as a GGUF, in F32, F16 and BF16: all
 * give the logits that mlx-lm gives, and the same tokens. In several files nothing at all differs
 * from one; between types and formats sums run in another order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/checkpoint_forms.h"

#define DIFFERENCE_MOST 1e-4 /* of the largest logit */

static const char *const families[] = {"llama", "gemma3"};
static const char *const types[] = {"f32", "f16", "bf16"};

static struct form_golden golden;
static struct form_result whole, pieces, other;

static const uint32_t at_once[] = {FORM_POSITIONS};

static void run(const char *family, const char *type, const char *ending,
                struct form_result *result)
{
    char form[64];
    snprintf(form, sizeof form, "%s-%s%s", family, type, ending);
    checkpoint_forms_run(form, &golden, NULL, at_once, 1, result);
    double difference = checkpoint_forms_difference(&golden, result);
    printf("%-20s differs by %.1e\n", form, difference);
    if (!(difference <= DIFFERENCE_MOST))
        fail_msg("%s differs from the reference by %g", form, difference);
}

/* Every form agrees with the reference; sharded is bitwise unsharded; answers are one. */
static void test_forms(void **state)
{
    const char *family = *state;
    uint32_t answer[FORM_ANSWER];
    checkpoint_forms_read(family, &golden);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        run(family, types[t], "", &whole);
        run(family, types[t], "-sharded", &pieces);
        assert_memory_equal(&whole, &pieces, sizeof whole);
        run(family, types[t], ".gguf", &other);
        assert_memory_equal(whole.answer, other.answer, sizeof whole.answer);
        if (t == 0)
            memcpy(answer, whole.answer, sizeof answer);
        assert_memory_equal(answer, whole.answer, sizeof answer);
    }
}

/* Prefilled in odd chunks and token by token. */
static void test_chunks(void **state)
{
    static const uint32_t odd[] = {5, 1, 7, 3}, one[] = {1};
    const char *family = *state;
    char form[64];
    checkpoint_forms_read(family, &golden);
    snprintf(form, sizeof form, "%s-f32", family);
    checkpoint_forms_run(form, &golden, NULL, at_once, 1, &whole);
    checkpoint_forms_run(form, &golden, NULL, odd, 4, &pieces);
    assert_memory_equal(&whole, &pieces, sizeof whole);
    checkpoint_forms_run(form, &golden, NULL, one, 1, &pieces);
    assert_memory_equal(&whole, &pieces, sizeof whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_forms, (void *)(uintptr_t)families[0]),
        cmocka_unit_test_prestate(test_forms, (void *)(uintptr_t)families[1]),
        cmocka_unit_test_prestate(test_chunks, (void *)(uintptr_t)families[0]),
        cmocka_unit_test_prestate(test_chunks, (void *)(uintptr_t)families[1]),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
