/*
 * A peer that puts any number into its count: the other side gets RESULT_CORRUPT or a slot inside
 * the ring, and an impossible count changes nothing. The records lie in a heap block of exactly
 * their size, so the address sanitizer sees a byte too far.
 */
// tags: threads arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shm/spsc_ring.h"
#include "tests/support/test_random.h"

#define CAPACITY     16u
#define RECORD_BYTES 64u
#define ROUNDS       300000

static void assert_slot_inside(const uint8_t *records, const void *slot)
{
    uintptr_t distance = (uintptr_t)slot - (uintptr_t)records;
    assert_true(distance < CAPACITY * RECORD_BYTES);
    assert_int_equal(distance % RECORD_BYTES, 0);
}

/* A foreign count: often a believable step from the last one, else anything. */
static uint32_t noisy_count(struct test_random *random, uint32_t last, uint32_t step)
{
    if (test_random_below(random, 3) > 0)
        return last + test_random_below(random, step);
    if (test_random_below(random, 2))
        return last + (uint32_t)test_random_edgy(random);
    return (uint32_t)test_random_edgy(random);
}

static void consumer_survives_any_tail(void **state)
{
    (void)state;
    struct test_random random = {11};
    struct spsc_ring_shared shared = {0};
    uint8_t *records = calloc(CAPACITY, RECORD_BYTES);
    assert_non_null(records);
    struct spsc_ring ring;
    spsc_ring_attach_consumer(&ring, &shared, records, RECORD_BYTES, CAPACITY);
    uint32_t seen[RESULT_COUNT] = {0};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        atomic_store(&shared.tail, noisy_count(&random, ring.foreign, CAPACITY / 2));
        atomic_store(&shared.head, (uint32_t)test_random_next(&random)); /* own count: not read */
        struct spsc_ring before = ring;
        const void *slot = NULL;
        enum result result = spsc_ring_peek(&ring, &slot);
        seen[result]++;
        if (result == RESULT_OK) {
            assert_slot_inside(records, slot);
            uint8_t copy[RECORD_BYTES];
            memcpy(copy, slot, sizeof copy);
            assert_true(ring.position - ring.committed <= CAPACITY);
        } else {
            assert_true(result == RESULT_EMPTY || result == RESULT_CORRUPT);
            assert_memory_equal(&before, &ring, sizeof ring);
        }
        if (test_random_below(&random, 4) == 0)
            spsc_ring_release(&ring);
    }
    assert_true(seen[RESULT_OK] > 1000 && seen[RESULT_EMPTY] > 1000 && seen[RESULT_CORRUPT] > 1000);
    free(records);
}

static void producer_survives_any_head(void **state)
{
    (void)state;
    struct test_random random = {12};
    struct spsc_ring_shared shared = {0};
    uint8_t *records = calloc(CAPACITY, RECORD_BYTES);
    assert_non_null(records);
    struct spsc_ring ring;
    spsc_ring_attach_producer(&ring, &shared, records, RECORD_BYTES, CAPACITY);
    uint32_t seen[RESULT_COUNT] = {0};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        atomic_store(&shared.head, noisy_count(&random, ring.foreign, 2));
        atomic_store(&shared.tail, (uint32_t)test_random_next(&random));
        void *slot = NULL;
        enum result result = spsc_ring_claim(&ring, &slot);
        seen[result]++;
        if (result == RESULT_OK) {
            assert_slot_inside(records, slot);
            memset(slot, (int)round, RECORD_BYTES);
        } else {
            assert_true(result == RESULT_FULL || result == RESULT_CORRUPT);
        }
        assert_true(spsc_ring_free(&ring) <= CAPACITY);
        assert_true(ring.position - ring.foreign <= CAPACITY);
        if (test_random_below(&random, 4) == 0)
            spsc_ring_commit(&ring);
    }
    assert_true(seen[RESULT_OK] > 1000 && seen[RESULT_FULL] > 1000 && seen[RESULT_CORRUPT] > 1000);
    free(records);
}

static void a_tail_one_lap_ahead_is_corrupt(void **state)
{
    (void)state;
    struct spsc_ring_shared shared = {0};
    uint64_t records[4] = {0};
    struct spsc_ring ring;
    const void *slot = NULL;
    spsc_ring_attach_consumer(&ring, &shared, records, 8, 4);
    atomic_store(&shared.tail, 5);
    assert_int_equal(spsc_ring_peek(&ring, &slot), RESULT_CORRUPT);
    atomic_store(&shared.tail, UINT32_MAX); /* back by one */
    assert_int_equal(spsc_ring_peek(&ring, &slot), RESULT_CORRUPT);
    atomic_store(&shared.tail, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(spsc_ring_peek(&ring, &slot), RESULT_OK);
    atomic_store(&shared.tail, 5); /* over slots that were peeked but not released */
    assert_int_equal(spsc_ring_peek(&ring, &slot), RESULT_CORRUPT);
    spsc_ring_release(&ring);
    assert_int_equal(spsc_ring_peek(&ring, &slot), RESULT_OK);
}

static void a_head_past_the_commit_is_corrupt(void **state)
{
    (void)state;
    struct spsc_ring_shared shared = {0};
    uint64_t records[2] = {0};
    struct spsc_ring ring;
    void *slot = NULL;
    spsc_ring_attach_producer(&ring, &shared, records, 8, 2);
    assert_int_equal(spsc_ring_claim(&ring, &slot), RESULT_OK);
    spsc_ring_commit(&ring);
    assert_int_equal(spsc_ring_claim(&ring, &slot), RESULT_OK);
    atomic_store(&shared.head, 2); /* releases a slot that was claimed but never committed */
    assert_int_equal(spsc_ring_claim(&ring, &slot), RESULT_CORRUPT);
    atomic_store(&shared.head, 1);
    assert_int_equal(spsc_ring_claim(&ring, &slot), RESULT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(consumer_survives_any_tail),
        cmocka_unit_test(producer_survives_any_head),
        cmocka_unit_test(a_tail_one_lap_ahead_is_corrupt),
        cmocka_unit_test(a_head_past_the_commit_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
