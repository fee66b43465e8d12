/*
 * Keys and values of a CPU have full precision, so that logits are as exact as the golden ones.
 */
#include "tests/support/drafter_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proto/must.h"

void drafter_trial_numbers(const char *path, uint32_t *numbers, uint32_t count)
{
    FILE *file = fopen(path, "r");
    must(file);
    for (uint32_t i = 0; i < count; i++)
        must(fscanf(file, "%u", &numbers[i]) == 1);
    fclose(file);
}

float *drafter_trial_floats(const char *path, size_t count)
{
    float *floats = must_alloc(count, sizeof *floats);
    FILE *file = fopen(path, "rb");
    must(file && fread(floats, sizeof *floats, count, file) == count);
    fclose(file);
    return floats;
}

struct backend *drafter_trial_backend(const struct plan *plan,
                                      const struct drafter_trial_load *load,
                                      const struct backend *lender)
{
    struct backend *backend = load->on_vulkan ? vulkan_backend_create() : cpu_backend_create();
    struct backend_options options = {.threads = 2,
                                      .activation_bits = 16,
                                      .lender = lender,
                                      .shares_kv = load->shares_kv,
                                      .vulkan = {.tier_limit = VULKAN_TIER_HIGHEST,
                                                 .batch_invariant = true,
                                                 .kernels_when_needed = true},
                                      .kv_type = load->on_vulkan ? KV_CACHE_F16 : KV_CACHE_F32,
                                      .step_depth = 1,
                                      .keeps_logits = plan->logits != PLAN_NONE,
                                      .max_step_rows = load->rows,
                                      .max_logit_rows = load->rows};
    struct error_text error = {""};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        options.kv_blocks[group] = load->blocks;
    if (backend->interface->load(backend, plan, &options, NULL, NULL, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    return backend;
}
