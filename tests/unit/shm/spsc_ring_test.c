/*
 * The ring's hand-over between one producer and one consumer: order, batches, full and empty, and
 * counts that wrap.
 */
// tags: threads arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shm/spsc_ring.h"
#include "tests/support/test_random.h"

#define CAPACITY 8u

struct pair {
    struct spsc_ring_shared shared;
    uint64_t records[CAPACITY];
    struct spsc_ring producer;
    struct spsc_ring consumer;
};

/* Both sides as if `start` records had gone through already. */
static void pair_init(struct pair *pair, uint32_t start)
{
    memset(pair, 0, sizeof *pair);
    spsc_ring_attach_producer(&pair->producer, &pair->shared, pair->records, 8, CAPACITY);
    spsc_ring_attach_consumer(&pair->consumer, &pair->shared, pair->records, 8, CAPACITY);
    atomic_store(&pair->shared.tail, start);
    atomic_store(&pair->shared.head, start);
    struct spsc_ring *sides[] = {&pair->producer, &pair->consumer};
    for (size_t i = 0; i < 2; i++)
        sides[i]->position = sides[i]->foreign = sides[i]->committed = start;
}

static void put(struct pair *pair, uint64_t value)
{
    void *slot = NULL;
    assert_int_equal(spsc_ring_claim(&pair->producer, &slot), RESULT_OK);
    memcpy(slot, &value, sizeof value);
}

static uint64_t get(struct pair *pair)
{
    const void *slot = NULL;
    assert_int_equal(spsc_ring_peek(&pair->consumer, &slot), RESULT_OK);
    uint64_t value = 0;
    memcpy(&value, slot, sizeof value);
    return value;
}

static void assert_empty(struct pair *pair)
{
    const void *slot = NULL;
    assert_int_equal(spsc_ring_peek(&pair->consumer, &slot), RESULT_EMPTY);
    assert_null(slot);
}

static void assert_full(struct pair *pair)
{
    void *slot = NULL;
    assert_int_equal(spsc_ring_claim(&pair->producer, &slot), RESULT_FULL);
    assert_null(slot);
}

static void claimed_is_unseen_until_commit(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, 0);
    assert_empty(&pair);
    put(&pair, 1);
    put(&pair, 2);
    assert_empty(&pair);
    spsc_ring_commit(&pair.producer);
    assert_int_equal(get(&pair), 1);
    assert_int_equal(get(&pair), 2);
    assert_empty(&pair);
}

static void peeked_is_not_reused_until_release(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, 0);
    for (uint64_t i = 0; i < CAPACITY; i++)
        put(&pair, i);
    assert_full(&pair);
    spsc_ring_commit(&pair.producer);
    assert_int_equal(get(&pair), 0);
    assert_int_equal(get(&pair), 1);
    assert_full(&pair);
    assert_int_equal(spsc_ring_free(&pair.producer), 0);
    spsc_ring_release(&pair.consumer);
    assert_int_equal(spsc_ring_free(&pair.producer), 2);
    put(&pair, 8);
    put(&pair, 9);
    assert_full(&pair);
}

static void uncommitted_claims_fill_the_ring(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair, 0);
    for (uint64_t i = 0; i < CAPACITY; i++) {
        assert_int_equal(spsc_ring_free(&pair.producer), CAPACITY - i);
        put(&pair, i);
    }
    assert_full(&pair);
    assert_empty(&pair);
}

static void random_batches_keep_order(void **state)
{
    (void)state;
    /* Starts just below the wrap of the 32-bit counts and goes through it. */
    struct pair pair;
    pair_init(&pair, UINT32_MAX - 5000);
    struct test_random random = {7};
    uint64_t written = 0;
    uint64_t read = 0;
    while (read < 20000) {
        uint32_t room = spsc_ring_free(&pair.producer);
        assert_int_equal(room, CAPACITY - (written - read));
        for (uint32_t n = test_random_below(&random, room + 1); n > 0; n--)
            put(&pair, written++);
        spsc_ring_commit(&pair.producer);
        uint32_t waiting = (uint32_t)(written - read);
        for (uint32_t n = test_random_below(&random, waiting + 1); n > 0; n--)
            assert_int_equal(get(&pair), read++);
        spsc_ring_release(&pair.consumer);
    }
    assert_true(atomic_load(&pair.shared.tail) < 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claimed_is_unseen_until_commit),
        cmocka_unit_test(peeked_is_not_reused_until_release),
        cmocka_unit_test(uncommitted_claims_fill_the_ring),
        cmocka_unit_test(random_batches_keep_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
