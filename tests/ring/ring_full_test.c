/*
 * A full ring: the producer gets RESULT_FULL and nothing is overwritten; each slot that the other
 * process returns can be used again, and not one more.
 */
// tags: threads arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/process_pair.h"
#include "tests/support/test_random.h"

#define CAPACITY 16u
#define ROUNDS   2000u

/* The frontend says in a payload-slab word how many records to take; the worker answers with an
 * event per round. */
static _Atomic uint32_t *order_word(struct process_pair *pair)
{
    return (_Atomic uint32_t *)(void *)pair->segment.slab;
}

static void take_as_told(struct process_pair *worker, void *argument)
{
    (void)argument;
    uint32_t expected = 0;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        doorbell_prepare_sleep(&worker->submit_bell);
        while (atomic_load(order_word(worker)) >> 16 != round) {
            doorbell_wait(&worker->submit_bell, -1, PROCESS_PAIR_PATIENCE_MS);
            doorbell_prepare_sleep(&worker->submit_bell);
        }
        doorbell_cancel_sleep(&worker->submit_bell);
        uint32_t count = atomic_load(order_word(worker)) & 0xffff;
        for (uint32_t i = 0; i < count; i++) {
            const void *slot = NULL;
            must(spsc_ring_peek(&worker->submit, &slot) == RESULT_OK);
            must(((const struct submit_record *)slot)->run.prompt_tokens == expected);
            expected++;
        }
        spsc_ring_release(&worker->submit);
        void *answer = NULL;
        must(spsc_ring_claim(&worker->event, &answer) == RESULT_OK);
        ((struct token_event *)answer)->index = round;
        spsc_ring_commit(&worker->event);
        doorbell_ring(&worker->event_bell);
    }
}

static void await_answer(struct process_pair *pair, uint32_t round)
{
    const void *slot = NULL;
    doorbell_prepare_sleep(&pair->event_bell);
    while (spsc_ring_peek(&pair->event, &slot) == RESULT_EMPTY) {
        assert_false(doorbell_wait(&pair->event_bell, pair->child_fd, PROCESS_PAIR_PATIENCE_MS) &&
                     round < ROUNDS);
        doorbell_prepare_sleep(&pair->event_bell);
    }
    doorbell_cancel_sleep(&pair->event_bell);
    assert_non_null(slot);
    assert_int_equal(((const struct token_event *)slot)->index, round);
    spsc_ring_release(&pair->event);
}

static uint32_t fill_up(struct process_pair *pair, uint32_t *next)
{
    uint32_t filled = 0;
    void *slot = NULL;
    enum result result;
    while ((result = spsc_ring_claim(&pair->submit, &slot)) == RESULT_OK) {
        ((struct submit_record *)slot)->run.prompt_tokens = (*next)++;
        filled++;
    }
    assert_int_equal(result, RESULT_FULL);
    assert_int_equal(spsc_ring_claim(&pair->submit, &slot), RESULT_FULL);
    assert_int_equal(spsc_ring_free(&pair->submit), 0);
    spsc_ring_commit(&pair->submit);
    return filled;
}

static void a_full_ring_rejects_claims(void **state)
{
    (void)state;
    struct process_pair pair;
    process_pair_open(&pair, CAPACITY, 16, 4096);
    process_pair_start(&pair, take_as_told, NULL);
    struct test_random random = {71};
    uint32_t next = 0;
    uint32_t freed = CAPACITY;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        assert_int_equal(fill_up(&pair, &next), freed);
        freed = test_random_below(&random, CAPACITY + 1);
        atomic_store(order_word(&pair), round << 16 | freed);
        doorbell_ring(&pair.submit_bell);
        await_answer(&pair, round);
    }
    assert_true(process_pair_clean(process_pair_reap(&pair)));
    process_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_ring_rejects_claims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
