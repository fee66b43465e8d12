/*
 * The tiny checkpoints on a Vulkan device: from a folder, in each type of weight, the logits are
 * those that mlx-lm gives, at once and token by token.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/checkpoint_forms.h"

/* Of the largest logit. Embeddings and attention pass through f16 on devices. */
#define DIFFERENCE_MOST 2e-3

static struct form_golden golden;
static struct form_result result;

static void check(const char *family, const char *form, uint32_t chunk)
{
    struct vulkan_settings vulkan = {.tier_limit = VULKAN_NV_MATRIX2, .kernels_when_needed = true};
    checkpoint_forms_read(family, &golden);
    checkpoint_forms_run(form, &golden, &vulkan, &chunk, 1, &result);
    double difference = checkpoint_forms_difference(&golden, &result);
    printf("%-12s %2u rows at once: differs by %.1e\n", form, chunk, difference);
    if (!(difference <= DIFFERENCE_MOST))
        fail_msg("%s differs from the reference by %g", form, difference);
}

static void test_llama(void **state)
{
    (void)state;
    check("llama", "llama-f32", FORM_POSITIONS);
    check("llama", "llama-bf16", 1);
}

static void test_gemma3(void **state)
{
    (void)state;
    check("gemma3", "gemma3-f16", 1);
    check("gemma3", "gemma3-bf16", FORM_POSITIONS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
