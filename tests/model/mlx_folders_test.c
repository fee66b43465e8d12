/*
 * Folders as mlx-lm saves them, for families whose tensor names, shapes or norms it changes: the
 * logits equal those of the original folder bit for bit.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/checkpoint_forms.h"

static struct form_golden golden;
static struct form_result plain, mlx;

static void check(const char *family)
{
    static const uint32_t at_once[] = {FORM_POSITIONS};
    const struct form_run whole = {.chunks = at_once, .chunk_count = 1};
    char form[FORM_NAME_BYTES * 2];
    checkpoint_forms_read(family, &golden);
    snprintf(form, sizeof form, "%s-f32", family);
    checkpoint_forms_run(form, &golden, &whole, &plain);
    snprintf(form, sizeof form, "%s-mlx", family);
    checkpoint_forms_run(form, &golden, &whole, &mlx);
    assert_memory_equal(plain.logits, mlx.logits, sizeof plain.logits);
    assert_memory_equal(plain.answer, mlx.answer, sizeof plain.answer);
}

static void test_lfm2(void **state)
{
    (void)state;
    check("lfm2");
}

static void test_mamba2(void **state)
{
    (void)state;
    check("mamba2");
}

static void test_qwen3_5(void **state)
{
    (void)state;
    check("qwen3_5");
}

static void test_qwen3_5_moe(void **state)
{
    (void)state;
    check("qwen3_5_moe");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lfm2), cmocka_unit_test(test_qwen3_5),
                                       cmocka_unit_test(test_qwen3_5_moe),
                                       cmocka_unit_test(test_mamba2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
