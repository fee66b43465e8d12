/*
 * Ten million records each way between two processes: none lost, none twice, none torn, in order,
 * whatever the batches.
 */
// tags: threads arm
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/process_pair.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_random.h"

#if SANITIZED
#define RECORDS 1000000u
#else
#define RECORDS 10000000u
#endif
#define BATCH_MAX 100u

/* Word `at` of record `number`: every word of a record tells on a torn or stale one. */
static uint64_t word_of(uint64_t number, size_t at)
{
    return number * 0x9e3779b97f4a7c15ull + at;
}

static void fill(void *slot, size_t bytes, uint64_t number)
{
    uint64_t *words = slot;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = word_of(number, i);
}

static int is_whole(const void *slot, size_t bytes, uint64_t number)
{
    const uint64_t *words = slot;
    uint64_t wrong = 0;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        wrong |= words[i] ^ word_of(number, i);
    return wrong == 0;
}

static void send_all(struct spsc_ring *ring, struct doorbell *bell, uint64_t seed)
{
    struct test_random random = {seed};
    uint64_t number = 0;
    while (number < RECORDS) {
        uint32_t batch = 1 + test_random_below(&random, BATCH_MAX);
        void *slot = NULL;
        enum result result = RESULT_OK;
        while (batch-- > 0 && number < RECORDS) {
            result = spsc_ring_claim(ring, &slot);
            if (result != RESULT_OK)
                break;
            fill(slot, ring->record_bytes, number++);
        }
        must(result == RESULT_OK || result == RESULT_FULL);
        spsc_ring_commit(ring);
        doorbell_ring(bell);
        if (result == RESULT_FULL)
            sched_yield();
    }
}

/* Sleeps by the recipe whenever the ring is empty. */
static void receive_all(struct spsc_ring *ring, struct doorbell *bell, int peer_fd)
{
    uint64_t number = 0;
    bool prepared = false;
    while (number < RECORDS) {
        const void *slot = NULL;
        enum result result = spsc_ring_peek(ring, &slot);
        if (result == RESULT_OK) {
            if (prepared)
                doorbell_cancel_sleep(bell);
            prepared = false;
            must(is_whole(slot, ring->record_bytes, number));
            number++;
            if (number % 64 == 0)
                spsc_ring_release(ring);
        } else if (!prepared) {
            must(result == RESULT_EMPTY);
            spsc_ring_release(ring);
            doorbell_prepare_sleep(bell);
            prepared = true;
        } else {
            (void)doorbell_wait(bell, peer_fd, PROCESS_PAIR_PATIENCE_MS);
            prepared = false;
        }
    }
    spsc_ring_release(ring);
    doorbell_cancel_sleep(bell);
}

static void send_events(struct process_pair *worker, void *argument)
{
    (void)argument;
    send_all(&worker->event, &worker->event_bell, 61);
}

static void receive_submits(struct process_pair *worker, void *argument)
{
    (void)argument;
    receive_all(&worker->submit, &worker->submit_bell, -1);
}

static void events_arrive_in_order(void **state)
{
    (void)state;
    struct process_pair pair;
    process_pair_open(&pair, 256, 1024, 4096);
    process_pair_start(&pair, send_events, NULL);
    receive_all(&pair.event, &pair.event_bell, pair.child_fd);
    assert_true(process_pair_clean(process_pair_reap(&pair)));
    const void *slot = NULL;
    assert_int_equal(spsc_ring_peek(&pair.event, &slot), RESULT_EMPTY);
    process_pair_close(&pair);
}

static void submits_arrive_in_order(void **state)
{
    (void)state;
    struct process_pair pair;
    process_pair_open(&pair, 256, 1024, 4096);
    process_pair_start(&pair, receive_submits, NULL);
    send_all(&pair.submit, &pair.submit_bell, 62);
    assert_true(process_pair_clean(process_pair_reap(&pair)));
    assert_int_equal(spsc_ring_free(&pair.submit), 256);
    process_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_arrive_in_order),
        cmocka_unit_test(submits_arrive_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
