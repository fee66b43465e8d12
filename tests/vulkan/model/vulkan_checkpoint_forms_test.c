/*
 * Every family's tiny checkpoint on a Vulkan device gives the logits of the reference: in odd
 * chunks with others in each step.
 *
 * usage: vulkan_checkpoint_forms_test [all]   `all` also in each type of weight, at once and token
 * by token, which is for a GPU: a driver for the CPU makes the kernels anew for each
 */
// tags: no-sanitizers native
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/checkpoint_forms.h"
#include "tests/support/vulkan_fixture.h"

/* Share of the largest logit. Embeddings and attention pass through f16 on devices. If matrix units
 * compute all steps of several rows, every activation does: an error of 2^-12, some twenty times on
 * the way through these layers (one H200: 2.4e-3 at most). */
#define DIFFERENCE_MAX        2e-3
#define DIFFERENCE_MOST_UNITS 4e-3

static struct form_golden golden;
static struct form_result result;
static bool all;
static struct vulkan_device *device; /* some drivers may not be loaded afresh a hundred times */

static double run(const char *family, const char *type, const struct form_run *how)
{
    char form[FORM_NAME_BYTES * 2];
    snprintf(form, sizeof form, "%s-%s", family, type);
    checkpoint_forms_run(form, &golden, how, &result);
    double difference = checkpoint_forms_difference(&golden, &result);
    bool units = vulkan_fixture_share(device) == VULKAN_SHARE_ALL;
    if (!(difference <= (units ? DIFFERENCE_MOST_UNITS : DIFFERENCE_MAX)))
        fail_msg("%s differs from the reference by %g", form, difference);
    return difference;
}

static void test_family(void **state)
{
    static const uint32_t odd[] = {5, 1, 7, 3}, at_once[] = {FORM_POSITIONS}, one[] = {1};
    static const struct vulkan_settings vulkan = {.tier_limit = VULKAN_TIER_HIGHEST,
                                                  .kernels_when_needed = true};
    const struct form_run mixed = {.vulkan = &vulkan,
                                   .chunks = odd,
                                   .chunk_count = 4,
                                   .company = true},
                          whole = {.vulkan = &vulkan, .chunks = at_once, .chunk_count = 1},
                          single = {.vulkan = &vulkan, .chunks = one, .chunk_count = 1};
    const char *family = *state;
    checkpoint_forms_read(family, &golden);
    printf("family %s vulkan: mixed %.0e\n", family, run(family, "f32", &mixed));
    if (!all)
        return;
    printf("%s: at once %.0e\n", family, run(family, "f32", &whole));
    printf("%s: f16, token by token %.0e\n", family, run(family, "f16", &single));
    printf("%s: bf16, at once %.0e\n", family, run(family, "bf16", &whole));
}

static int setup(void **state)
{
    (void)state;
    return vulkan_fixture_setup((void **)&device);
}

static int teardown(void **state)
{
    (void)state;
    return vulkan_fixture_teardown((void **)&device);
}

int main(int argc, char **argv)
{
    static char names[FORM_FAMILIES_MAX][FORM_NAME_BYTES];
    static struct CMUnitTest tests[FORM_FAMILIES_MAX];
    uint32_t count = checkpoint_forms_families(names);
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    for (uint32_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){
            .name = names[i], .test_func = test_family, .initial_state = names[i]};
    return _cmocka_run_group_tests("families", tests, count, setup, teardown);
}
