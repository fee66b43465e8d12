/*
 * Fingerprints: the same request is recognized, another is not, and none is kept for ever.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "frontend/base/shared_bytes.h"
#include "frontend/serve/engine/poison_memory.h"

static uint64_t print_of(const struct poison_memory *memory, uint32_t token, float temperature,
                         uint64_t seed)
{
    uint32_t ids[3] = {1, token, 3};
    struct prepared_generation prepared = {.request = {.sampling = sampling_params_default()},
                                           .prompt = {.ids = ids, .count = 3}};
    prepared.request.sampling.temperature = temperature;
    prepared.request.sampling.seed = seed;
    return poison_memory_fingerprint(memory, &prepared);
}

/* Of a request with these sequence breakers of DRY; NULL: without. */
static uint64_t print_of_breakers(const struct poison_memory *memory, const uint32_t *words,
                                  size_t count)
{
    uint32_t ids[3] = {1, 2, 3};
    struct prepared_generation prepared = {.request = {.sampling = sampling_params_default()},
                                           .prompt = {.ids = ids, .count = 3}};
    if (words)
        prepared.request.dry_breakers = shared_bytes_create(words, count * sizeof *words);
    uint64_t fingerprint = poison_memory_fingerprint(memory, &prepared);
    shared_bytes_release(prepared.request.dry_breakers);
    return fingerprint;
}

static bool has(struct poison_memory *memory, uint64_t fingerprint, int64_t now_ms)
{
    return poison_memory_find(memory, fingerprint, now_ms) != NULL;
}

static void add(struct poison_memory *memory, uint64_t fingerprint, int64_t now_ms)
{
    const struct poison_conviction conviction = {.fingerprint = fingerprint, .deaths = 4};
    poison_memory_add(memory, &conviction, now_ms);
}

static void the_same_request_has_the_same_fingerprint(void **state)
{
    (void)state;
    struct poison_memory memory;
    poison_memory_init(&memory, 1000);
    uint64_t fingerprint = print_of(&memory, 2, 1.0f, 5);
    assert_true(fingerprint == print_of(&memory, 2, 1.0f, 5));
    assert_true(fingerprint == print_of(&memory, 2, 1.0f, 6)); /* a retry has another seed */
    assert_true(fingerprint != print_of(&memory, 4, 1.0f, 5));
    assert_true(fingerprint != print_of(&memory, 2, 0.5f, 5));
    struct poison_memory other; /* of another run of the server */
    poison_memory_init(&other, 1000);
    assert_true(fingerprint != print_of(&other, 2, 1.0f, 5));
}

static void the_sequence_breakers_are_part_of_it(void **state)
{
    (void)state;
    const uint32_t words[] = {1, 7, 2, 9};
    const uint32_t others[] = {1, 7, 2, 8};
    struct poison_memory memory;
    poison_memory_init(&memory, 1000);
    uint64_t fingerprint = print_of_breakers(&memory, words, 4);
    assert_true(fingerprint == print_of_breakers(&memory, words, 4));
    assert_true(fingerprint != print_of_breakers(&memory, others, 4));
    assert_true(fingerprint != print_of_breakers(&memory, words, 3));
    assert_true(fingerprint != print_of_breakers(&memory, NULL, 0));
}

static void a_fingerprint_is_kept_for_a_while(void **state)
{
    (void)state;
    struct poison_memory memory;
    poison_memory_init(&memory, 1000);
    assert_false(has(&memory, 7, 0));
    add(&memory, 7, 100);
    assert_true(has(&memory, 7, 1099));
    assert_false(has(&memory, 8, 1099));
    assert_false(has(&memory, 7, 1100));
    assert_int_equal(memory.count, 0);
}

static void adding_again_restarts_the_time(void **state)
{
    (void)state;
    struct poison_memory memory;
    poison_memory_init(&memory, 1000);
    add(&memory, 7, 0);
    add(&memory, 7, 900);
    assert_int_equal(memory.count, 1);
    assert_true(has(&memory, 7, 1500));
}

static void a_full_memory_replaces_the_first_to_expire(void **state)
{
    (void)state;
    struct poison_memory memory;
    poison_memory_init(&memory, 100000);
    for (uint32_t i = 0; i < POISON_MEMORY_PLACES + 10; i++)
        add(&memory, 1000 + i, i);
    assert_int_equal(memory.count, POISON_MEMORY_PLACES);
    assert_false(has(&memory, 1009, 500));
    assert_true(has(&memory, 1010, 500));
    assert_true(has(&memory, 1000 + POISON_MEMORY_PLACES + 9, 500));
}

static void another_tenants_request_has_another_fingerprint(void **state)
{
    (void)state;
    struct poison_memory memory;
    uint32_t ids[3] = {1, 2, 3};
    struct prepared_generation prepared = {.request = {.sampling = sampling_params_default()},
                                           .prompt = {.ids = ids, .count = 3}};
    poison_memory_init(&memory, 1000);
    uint64_t fingerprint = poison_memory_fingerprint(&memory, &prepared);
    memset(&prepared.request.cache_salt, 7, sizeof prepared.request.cache_salt);
    assert_true(fingerprint != poison_memory_fingerprint(&memory, &prepared));
}

static void a_conviction_tells_its_times_and_is_revoked(void **state)
{
    (void)state;
    struct poison_memory memory;
    poison_memory_init(&memory, 1000);
    add(&memory, 7, 100);
    add(&memory, 8, 300);
    const struct poison_conviction *found = poison_memory_find(&memory, 7, 400);
    assert_non_null(found);
    assert_int_equal(found->since_ms, 100);
    assert_int_equal(found->until_ms, 1100);
    assert_int_equal(found->deaths, 4);
    poison_memory_remove(&memory, 7);
    poison_memory_remove(&memory, 9); /* unknown */
    assert_false(has(&memory, 7, 400));
    assert_true(has(&memory, 8, 400));
    assert_int_equal(poison_memory_refresh(&memory, 400), 1);
    assert_int_equal(poison_memory_refresh(&memory, 1300), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_request_has_the_same_fingerprint),
        cmocka_unit_test(the_sequence_breakers_are_part_of_it),
        cmocka_unit_test(a_fingerprint_is_kept_for_a_while),
        cmocka_unit_test(adding_again_restarts_the_time),
        cmocka_unit_test(another_tenants_request_has_another_fingerprint),
        cmocka_unit_test(a_conviction_tells_its_times_and_is_revoked),
        cmocka_unit_test(a_full_memory_replaces_the_first_to_expire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
