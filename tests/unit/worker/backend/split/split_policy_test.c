/*
 * How layers are divided among devices: the best of all divisions, found by trying them all, for drawn
 * pieces and memories; equal devices get equal layers; weights that fit nowhere are told with the bytes
 * that are missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "tests/support/test_random.h"
#include "worker/backend/split/split_policy.h"

#define PIECES_MAX  9u
#define DEVICES_MAX 4u

struct scene {
    struct split_piece pieces[PIECES_MAX];
    uint32_t piece_count;
    uint64_t memory_bytes[DEVICES_MAX];
    uint32_t devices;
};

/* Of the scarcest device: tokens that fit beside the weights, or minus the bytes that lack. */
static double judge(const struct scene *scene, const uint32_t *ends)
{
    double worst = 1e300;
    for (uint32_t d = 0, p = 0; d < scene->devices; d++) {
        uint64_t weight_bytes = 0, kv_bytes = 0;
        for (; p < ends[d]; p++) {
            weight_bytes += scene->pieces[p].weight_bytes;
            kv_bytes += scene->pieces[p].kv_bytes;
        }
        double left = (double)scene->memory_bytes[d] - (double)weight_bytes;
        double found = left < 0 ? left : left / (double)kv_bytes;
        worst = found < worst ? found : worst;
    }
    return worst;
}

/* Tries every division from device `device` on, which begins with piece `begin`. */
static double best_of(const struct scene *scene, uint32_t device, uint32_t begin, uint32_t *ends)
{
    double best = -1e300;
    if (device + 1 == scene->devices) {
        ends[device] = scene->piece_count;
        return judge(scene, ends);
    }
    for (uint32_t end = begin + 1; end + (scene->devices - device - 1) <= scene->piece_count;
         end++) {
        ends[device] = end;
        double found = best_of(scene, device + 1, end, ends);
        best = found > best ? found : best;
    }
    return best;
}

static void test_the_best_of_all_divisions(void **state)
{
    (void)state;
    struct test_random random = {.state = (uint64_t)time(NULL)};
    uint32_t fitting = 0, lacking = 0;
    printf("seed %llu\n", (unsigned long long)random.state);
    for (uint32_t trial = 0; trial < 2000; trial++) {
        struct scene scene = {.devices = 1 + test_random_below(&random, DEVICES_MAX)};
        uint32_t ends[LIMIT_SPLIT_DEVICES], tried[DEVICES_MAX];
        scene.piece_count =
            scene.devices + test_random_below(&random, PIECES_MAX - scene.devices + 1);
        for (uint32_t p = 0; p < scene.piece_count; p++)
            scene.pieces[p] = (struct split_piece){1 + test_random_below(&random, 1000),
                                                   1 + test_random_below(&random, 50)};
        for (uint32_t d = 0; d < scene.devices; d++)
            scene.memory_bytes[d] = 1 + test_random_below(&random, 4000);
        uint64_t missing = split_policy_divide(scene.pieces, scene.piece_count, scene.memory_bytes,
                                               scene.devices, ends);
        double best = best_of(&scene, 0, 0, tried), found = judge(&scene, ends);
        assert_int_equal(ends[scene.devices - 1], scene.piece_count);
        for (uint32_t d = 0; d < scene.devices; d++)
            assert_true(ends[d] > (d > 0 ? ends[d - 1] : 0));
        assert_true(found >= best - 1e-9 && found <= best + 1e-9);
        assert_int_equal(missing, best < 0 ? (uint64_t)-best : 0);
        fitting += best >= 0;
        lacking += best < 0;
    }
    assert_true(fitting > 100 && lacking > 100);
}

static void test_equal_devices_get_equal_layers(void **state)
{
    (void)state;
    struct split_piece pieces[32];
    const uint64_t memory_bytes[] = {80, 80, 80, 80};
    uint32_t ends[LIMIT_SPLIT_DEVICES];
    for (uint32_t p = 0; p < 32; p++)
        pieces[p] = (struct split_piece){.weight_bytes = 4, .kv_bytes = 1};
    assert_int_equal(split_policy_divide(pieces, 32, memory_bytes, 4, ends), 0);
    for (uint32_t d = 0; d < 4; d++)
        assert_int_equal(ends[d], 8 * (d + 1));
}

/* Of equally good divisions the one whose last devices have the fewest pieces; without a KV cache the bytes
 * beside the weights count. */
static void test_ties_and_models_without_kv_cache(void **state)
{
    (void)state;
    const uint64_t memory_bytes[] = {100, 100};
    struct split_piece pieces[3] = {{40, 1}, {40, 1}, {40, 1}};
    uint32_t ends[LIMIT_SPLIT_DEVICES];
    assert_int_equal(split_policy_divide(pieces, 3, memory_bytes, 2, ends), 0);
    assert_int_equal(ends[0], 2);
    struct split_piece no_kv[3] = {{50, 0}, {10, 0}, {30, 0}}; /* 50 + 40, not 60 + 30 */
    assert_int_equal(split_policy_divide(no_kv, 3, memory_bytes, 2, ends), 0);
    assert_int_equal(ends[0], 1);
    struct split_piece exact[2] = {{100, 1}, {101, 1}};
    assert_int_equal(split_policy_divide(exact, 2, memory_bytes, 2, ends), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_of_all_divisions),
        cmocka_unit_test(test_equal_devices_get_equal_layers),
        cmocka_unit_test(test_ties_and_models_without_kv_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
