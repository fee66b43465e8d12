/*
 * Which models stay loaded: the cases of the contract, and random sets that are led to a load.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/serve/models/model_policy.h"

#define COUNT 6u

static void test_cases(void **state)
{
    (void)state;
    uint32_t victim = 99;
    struct model_policy_model models[3] = {{.bytes = 10}, {.bytes = 20}, {.bytes = 30}};
    struct model_policy_limits limits = {0};
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_LOAD);
    models[1].in_memory = models[2].in_memory = true;
    models[1].used_ms = 5;
    models[2].used_ms = 4;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_LOAD);
    limits.models = 3;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_LOAD);
    limits.models = 2;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_UNLOAD);
    assert_int_equal(victim, 2);
    models[2].used_ms = 6;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_UNLOAD);
    assert_int_equal(victim, 1);
    models[1].busy = true;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_UNLOAD);
    assert_int_equal(victim, 2);
    models[2].pinned = true;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_WAIT);
    models[1].busy = false;
    models[1].leaving = true;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_WAIT);
    models[1].leaving = false;
    models[1].pinned = true;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_TOO_LARGE);

    limits = (struct model_policy_limits){.bytes = 60};
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_LOAD);
    limits.bytes = 59;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_TOO_LARGE);
    models[1].pinned = false;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_UNLOAD);
    assert_int_equal(victim, 1);
    limits.bytes = 9; /* less than the wanted model alone */
    models[2].pinned = false;
    assert_int_equal(model_policy_decide(models, 3, 0, &limits, &victim), MODEL_TOO_LARGE);
}

/* Every place in the list counts; of two that were used at the same time the first is unloaded. */
static void test_the_first_may_be_the_victim(void **state)
{
    (void)state;
    const struct model_policy_limits limits = {.models = 2};
    struct model_policy_model models[3] = {
        {.in_memory = true, .used_ms = 4}, {.in_memory = true, .used_ms = 5}, {.bytes = 1}};
    uint32_t victim = 99;
    assert_int_equal(model_policy_decide(models, 3, 2, &limits, &victim), MODEL_UNLOAD);
    assert_int_equal(victim, 0);
    models[1].used_ms = 4;
    assert_int_equal(model_policy_decide(models, 3, 2, &limits, &victim), MODEL_UNLOAD);
    assert_int_equal(victim, 0);
    models[0].used_ms = 5;
    assert_int_equal(model_policy_decide(models, 3, 2, &limits, &victim), MODEL_UNLOAD);
    assert_int_equal(victim, 1);
}

static uint32_t seed = 20261127;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* Following the verdicts, with unloads that end and requests that end, loads every model that fits
 * beside the pinned ones, keeps the limits, and touches no busy or pinned model. */
static void test_verdicts_lead_to_a_load(void **state)
{
    (void)state;
    uint32_t loads = 0, refusals = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        struct model_policy_model models[COUNT] = {0};
        struct model_policy_limits limits = {.bytes = draw(2) ? 0 : draw(200),
                                             .models = draw(2) ? 0 : draw(COUNT)};
        uint64_t pinned = 0;
        uint32_t pinned_count = 0;
        for (uint32_t i = 0; i < COUNT; i++) {
            models[i] = (struct model_policy_model){.bytes = draw(60),
                                                    .in_memory = i > 0 && draw(2),
                                                    .pinned = draw(4) == 0,
                                                    .used_ms = draw(100)};
            models[i].busy = models[i].in_memory && draw(3) == 0;
            models[i].leaving = models[i].in_memory && !models[i].busy && draw(4) == 0;
            if (models[i].in_memory && models[i].pinned && !models[i].leaving) {
                pinned += models[i].bytes;
                pinned_count++;
            }
        }
        enum model_verdict verdict = MODEL_WAIT;
        uint32_t victim = COUNT;
        for (uint32_t step = 0; step < 3 * COUNT && verdict != MODEL_LOAD; step++) {
            verdict = model_policy_decide(models, COUNT, 0, &limits, &victim);
            if (verdict == MODEL_TOO_LARGE)
                break;
            if (verdict == MODEL_UNLOAD) {
                assert_true(models[victim].in_memory && !models[victim].busy &&
                            !models[victim].pinned && !models[victim].leaving);
                models[victim].leaving = true;
            }
            for (uint32_t i = 1; verdict == MODEL_WAIT && i < COUNT; i++) {
                if (models[i].leaving)
                    models[i].in_memory = models[i].leaving = false;
                models[i].busy = false;
            }
        }
        bool fits = (limits.bytes == 0 || pinned + models[0].bytes <= limits.bytes) &&
                    (limits.models == 0 || pinned_count < limits.models);
        assert_int_equal(verdict, fits ? MODEL_LOAD : MODEL_TOO_LARGE);
        loads += fits;
        refusals += !fits;
    }
    assert_true(loads > 1000 && refusals > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_the_first_may_be_the_victim),
        cmocka_unit_test(test_verdicts_lead_to_a_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
