/*
 * No wake-up is lost and none is wasted. A storm of short bursts makes both processes fall asleep
 * and wake all the time, each burst answered before the next is sent, so that no later burst can
 * cover for a lost wake-up: it would show as a wait that only its time limit ended. Random pauses
 * move the burst across the sleeper's steps D1-D4.
 */
// tags: threads arm
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/process_pair.h"
#include "tests/support/test_random.h"

#define BURSTS       20000u
#define BUSY_COMMITS 500000u
#define LOST_MS      60000 /* no machine keeps a process waiting for so long */
#define LAST_BURST   UINT32_MAX

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct sleeper {
    uint32_t spins; /* looks before it prepares to sleep */
    struct spsc_ring *ring;
    struct doorbell *bell;
    uint64_t sleeps;
    uint64_t lost;
};

/* The next record, good until the next call; sleeps by the recipe until there is one. */
static const void *next_record(struct sleeper *sleeper)
{
    const void *slot = NULL;
    spsc_ring_release(sleeper->ring);
    for (;;) {
        for (uint32_t looks = 0; looks <= sleeper->spins; looks++) {
            if (spsc_ring_peek(sleeper->ring, &slot) == RESULT_OK)
                return slot;
        }
        doorbell_prepare_sleep(sleeper->bell);
        if (spsc_ring_peek(sleeper->ring, &slot) == RESULT_OK) {
            doorbell_cancel_sleep(sleeper->bell);
            return slot;
        }
        int64_t start_ms = now_ms();
        sleeper->sleeps++;
        (void)doorbell_wait(sleeper->bell, -1, LOST_MS);
        sleeper->lost += now_ms() - start_ms >= LOST_MS;
        must(sleeper->lost == 0);
    }
}

static void pause_for(uint32_t turns)
{
    for (volatile uint32_t i = 0; i < turns; i++)
        continue;
}

static void pause_briefly(struct test_random *random)
{
    pause_for(test_random_below(random, 200));
}

static void pause_randomly(struct test_random *random)
{
    pause_for(test_random_below(random, 8000));
}

static void answer_bursts(struct process_pair *worker, void *argument)
{
    (void)argument;
    struct test_random random = {81};
    struct sleeper sleeper = {.ring = &worker->submit, .bell = &worker->submit_bell};
    for (;;) {
        sleeper.spins = test_random_below(&random, 300);
        const struct submit_record *record = next_record(&sleeper);
        if (record->kind == LAST_BURST)
            break;
        uint32_t number = record->run.prompt_tokens;
        if (number % 64 == 0)
            pause_randomly(&random);
        void *slot = NULL;
        must(spsc_ring_claim(&worker->event, &slot) == RESULT_OK);
        ((struct token_event *)slot)->index = number;
        spsc_ring_commit(&worker->event);
        doorbell_ring(&worker->event_bell);
    }
    atomic_store(&worker->segment.gauges->steps, sleeper.sleeps);
}

static bool send_record(struct process_pair *pair, uint32_t kind, uint32_t number)
{
    void *slot = NULL;
    must(spsc_ring_claim(&pair->submit, &slot) == RESULT_OK);
    ((struct submit_record *)slot)->kind = kind;
    ((struct submit_record *)slot)->run.prompt_tokens = number;
    spsc_ring_commit(&pair->submit);
    return doorbell_ring(&pair->submit_bell);
}

static void no_wakeup_is_lost(void **state)
{
    (void)state;
    struct process_pair pair;
    process_pair_open(&pair, 64, 64, 4096);
    process_pair_start(&pair, answer_bursts, NULL);
    struct test_random random = {82};
    struct sleeper sleeper = {.ring = &pair.event, .bell = &pair.event_bell};
    uint64_t syscalls = 0;
    uint32_t number = 0;
    for (uint32_t burst = 0; burst < BURSTS; burst++) {
        uint32_t first = number;
        for (uint32_t n = 1 + test_random_below(&random, 3); n > 0; n--)
            syscalls += send_record(&pair, SUBMIT_RUN, number++);
        while (first < number) {
            const struct token_event *event = next_record(&sleeper);
            assert_int_equal(event->index, first);
            first++;
        }
        /* An answer that is seen at once puts the next burst close to the worker's D1-D4. */
        sleeper.spins = burst % 8 ? 50000 : 0;
        if (burst % 8)
            pause_briefly(&random);
        else
            pause_randomly(&random);
    }
    syscalls += send_record(&pair, LAST_BURST, 0);
    assert_true(process_pair_clean(process_pair_reap(&pair)));
    uint64_t sleeps = atomic_load(&pair.segment.gauges->steps);
    print_message("%u bursts: worker slept %llu times, %llu wake-ups; frontend slept %llu times\n",
                  BURSTS, (unsigned long long)sleeps, (unsigned long long)syscalls,
                  (unsigned long long)sleeper.sleeps);
    /* It did sleep, or nothing was tested; and a wake-up was only made for a sleep or one that was
     * called off. */
    assert_true(sleeps > BURSTS / 20);
    assert_true(syscalls <= number + 1);
    process_pair_close(&pair);
}

static void stay_awake(struct process_pair *worker, void *argument)
{
    (void)argument;
    for (uint32_t seen = 0; seen < BUSY_COMMITS;) {
        const void *slot = NULL;
        enum result result = spsc_ring_peek(&worker->submit, &slot);
        must(result == RESULT_OK || result == RESULT_EMPTY);
        if (result == RESULT_EMPTY) {
            sched_yield();
            continue;
        }
        must(((const struct submit_record *)slot)->run.prompt_tokens == seen);
        seen++;
        spsc_ring_release(&worker->submit);
    }
}

static void a_busy_peer_costs_no_syscall(void **state)
{
    (void)state;
    struct process_pair pair;
    process_pair_open(&pair, 64, 64, 4096);
    process_pair_start(&pair, stay_awake, NULL);
    uint64_t syscalls = 0;
    for (uint32_t number = 0; number < BUSY_COMMITS; number++) {
        while (spsc_ring_free(&pair.submit) == 0)
            sched_yield();
        syscalls += send_record(&pair, SUBMIT_RUN, number);
    }
    assert_true(process_pair_clean(process_pair_reap(&pair)));
    assert_int_equal(syscalls, 0);
    process_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wakeup_is_lost),
        cmocka_unit_test(a_busy_peer_costs_no_syscall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
