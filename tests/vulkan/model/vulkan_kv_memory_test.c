/*
 * The automatic size of the KV cache leaves memory for a drafter, for both passes of one of blocks, and for adapters.
 * The whole memory is asked for, which is refused with what is left beside weights and a step.
 */
// tags: no-sanitizers native
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "worker/backend/host/backend.h"
#include "worker/draft/draft_model.h"
#include "worker/model/model.h"
#include "worker/model/target_drafter.h"

#define ADAPTER_MB 100.0

struct scene {
    struct model *model;
    const struct plan *block;
    const struct plan *context;
};

/* Megabytes that are left with these options. */
static double left_mb(const struct scene *scene, const struct backend_options *changed)
{
    struct backend_options options = *changed;
    struct error_text error = {""};
    uint64_t bytes;
    struct backend *backend = vulkan_backend_create();
    options.vulkan.tier_limit = VULKAN_TIER_HIGHEST;
    options.kv_share_percent = 100;
    options.step_depth = 1;
    options.max_step_rows = 64;
    options.max_logit_rows = 8;
    options.beside_rows = DRAFT_MODEL_ROWS;
    enum result result = backend->interface->choose_kv_bytes(backend, model_plan(scene->model),
                                                             &options, &bytes, &error);
    assert_int_equal(result, RESULT_TOO_LARGE);
    const char *leaves = strstr(error.text, " leave ");
    assert_non_null(leaves);
    backend->interface->destroy(backend);
    return strtod(leaves + strlen(" leave "), NULL);
}

static double weights_mb(const struct plan *plan, const struct plan *less)
{
    double bytes = 0;
    for (uint32_t w = 0; w < plan->weight_count; w++) {
        bool counts = true;
        for (uint32_t i = 0; i < less->weight_count; i++)
            counts = counts && less->weights[i].data != plan->weights[w].data;
        bytes += counts ? (double)plan->weights[w].data_bytes : 0;
    }
    return bytes / 1e6;
}

static void test_memory_beside_the_model(void **state)
{
    struct scene *scene = *state;
    const struct backend_options none = {0}, block = {.beside = scene->block},
                                 both = {.beside = scene->block, .beside_context = scene->context},
                                 adapters = {.adapters = true,
                                             .adapter_bytes = (uint64_t)(ADAPTER_MB * 1e6)};
    double left = left_mb(scene, &none), with_block = left_mb(scene, &block),
           with_both = left_mb(scene, &both), with_adapters = left_mb(scene, &adapters);
    assert_true(left - with_block >= weights_mb(scene->block, model_plan(scene->model)) - 0.1);
    assert_true(with_block - with_both >= weights_mb(scene->context, scene->block) - 0.1);
    assert_true(with_block - with_both > 0.3);
    assert_true(left - with_adapters > ADAPTER_MB && left - with_adapters < 2 * ADAPTER_MB);
}

static int setup(void **state)
{
    static struct scene scene;
    struct error_text error;
    must(model_open("tests/model/demo", &scene.model, &error) == RESULT_OK);
    must(model_open_drafter(scene.model, "tests/model/demo_dflash", NULL, &error) == RESULT_OK);
    scene.block = model_drafter(scene.model)->plan;
    scene.context = model_drafter(scene.model)->context_plan;
    *state = &scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;
    model_close(scene->model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_beside_the_model)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
