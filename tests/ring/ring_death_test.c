/*
 * The worker is killed at each numbered step of the ring and the doorbell (table in shm/README.md).
 * Steps inside a function are replayed on the shared words directly, in the order of the step list;
 * ring_kill_test.c does the same to the real functions, instruction by instruction. The surviving
 * frontend must notice the death while it sleeps, see exactly the committed records, whole, never
 * block, and continue with a fresh segment.
 */
// tags: threads arm
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "shm/peer_watch.h"
#include "tests/support/process_pair.h"

#define CAPACITY 8u
#define EARLIER  3u /* records exchanged before the step, to have something to lose */

_Noreturn static void die(void)
{
    raise(SIGKILL);
    _exit(1);
}

/* --- the worker as producer: it dies while it publishes one more record --- */

static void fill(void *slot, uint32_t number, size_t bytes)
{
    memset(slot, (int)('a' + number), bytes);
}

static void claim_filled(struct process_pair *worker, uint32_t number)
{
    void *slot = NULL;
    must(spsc_ring_claim(&worker->event, &slot) == RESULT_OK);
    fill(slot, number, sizeof(struct token_event));
}

static void before_claim(struct process_pair *worker)
{
    (void)worker;
}

static void after_p2(struct process_pair *worker)
{
    (void)spsc_ring_free(&worker->event);
}

static void after_claim(struct process_pair *worker)
{
    void *slot = NULL;
    must(spsc_ring_claim(&worker->event, &slot) == RESULT_OK);
}

static void half_filled(struct process_pair *worker)
{
    void *slot = NULL;
    must(spsc_ring_claim(&worker->event, &slot) == RESULT_OK);
    fill(slot, EARLIER, sizeof(struct token_event) / 2);
}

static void one_of_two_filled(struct process_pair *worker)
{
    claim_filled(worker, EARLIER);
    after_claim(worker);
}

static void before_p1(struct process_pair *worker)
{
    claim_filled(worker, EARLIER);
}

static void after_p1(struct process_pair *worker)
{
    claim_filled(worker, EARLIER);
    spsc_ring_commit(&worker->event);
}

static void after_r2(struct process_pair *worker)
{
    after_p1(worker);
    atomic_fetch_add(&worker->segment.gauges->heartbeat, 1); /* as strong as the fence */
}

static void after_r3(struct process_pair *worker)
{
    after_r2(worker);
    (void)atomic_load_explicit(&worker->segment.event_bell->asleep, memory_order_relaxed);
}

/* The worst place: the flag is taken, the eventfd not yet written. */
static void inside_r4(struct process_pair *worker)
{
    after_r3(worker);
    (void)atomic_exchange(&worker->segment.event_bell->asleep, 0);
}

static void after_r4(struct process_pair *worker)
{
    after_p1(worker);
    must(doorbell_ring(&worker->event_bell));
}

struct death {
    const char *step;
    void (*play)(struct process_pair *worker);
    uint32_t records; /* producer: seen by the survivor; consumer: given back to it */
};

static const struct death producer_deaths[] = {
    {"before the claim", before_claim, EARLIER},
    {"after P2", after_p2, EARLIER},
    {"after the claim", after_claim, EARLIER},
    {"record half filled", half_filled, EARLIER},
    {"one of two claimed records filled", one_of_two_filled, EARLIER},
    {"before P1", before_p1, EARLIER},
    {"after P1 = R1", after_p1, EARLIER + 1},
    {"after R2", after_r2, EARLIER + 1},
    {"after R3", after_r3, EARLIER + 1},
    {"inside R4", inside_r4, EARLIER + 1},
    {"after R4", after_r4, EARLIER + 1},
};

static void await_asleep(struct doorbell *bell)
{
    while (atomic_load(&bell->shared->asleep) == 0)
        usleep(50);
}

static void produce_and_die(struct process_pair *worker, void *argument)
{
    const struct death *death = argument;
    for (uint32_t number = 0; number < EARLIER; number++)
        claim_filled(worker, number);
    spsc_ring_commit(&worker->event);
    doorbell_ring(&worker->event_bell);
    /* The survivor has seen them and sleeps: the step meets a sleeping peer. */
    while (atomic_load(&worker->segment.event_shared->head) != EARLIER)
        usleep(50);
    await_asleep(&worker->event_bell);
    death->play(worker);
    die();
}

/* Takes what is there; every record must be whole and the next in order. */
static void take_whole_records(struct process_pair *pair, uint32_t *seen)
{
    const void *slot = NULL;
    enum result result;
    while ((result = spsc_ring_peek(&pair->event, &slot)) == RESULT_OK) {
        uint8_t expected[sizeof(struct token_event)];
        fill(expected, *seen, sizeof expected);
        assert_memory_equal(slot, expected, sizeof expected);
        (*seen)++;
    }
    assert_int_equal(result, RESULT_EMPTY);
    spsc_ring_release(&pair->event);
}

static void assert_killed(struct process_pair *pair)
{
    int status = process_pair_reap(pair);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void assert_fresh_segment_works(void);

static void frontend_survives_a_dying_producer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof producer_deaths / sizeof producer_deaths[0]; i++) {
        struct death death = producer_deaths[i];
        print_message("  killed %s\n", death.step);
        struct process_pair pair;
        process_pair_open(&pair, CAPACITY, CAPACITY, 4096);
        process_pair_start(&pair, produce_and_die, &death);
        uint32_t seen = 0;
        bool gone = false;
        while (!gone) {
            take_whole_records(&pair, &seen);
            doorbell_prepare_sleep(&pair.event_bell);
            take_whole_records(&pair, &seen);
            gone = doorbell_wait(&pair.event_bell, pair.child_fd, PROCESS_PAIR_PATIENCE_MS);
            assert_true(gone || seen < death.records || !peer_watch_ended(pair.child_fd));
        }
        assert_true(peer_watch_ended(pair.child_fd));
        take_whole_records(&pair, &seen); /* what was committed before death still counts */
        assert_int_equal(seen, death.records);
        assert_killed(&pair);
        process_pair_close(&pair);
        assert_fresh_segment_works();
    }
}

/* --- the worker as consumer: it dies while it takes EARLIER submits --- */

static void peek_some(struct process_pair *worker, uint32_t count)
{
    const void *slot = NULL;
    for (uint32_t i = 0; i < count; i++)
        must(spsc_ring_peek(&worker->submit, &slot) == RESULT_OK);
}

static void after_c1(struct process_pair *worker)
{
    (void)atomic_load_explicit(&worker->segment.submit_shared->tail, memory_order_acquire);
}

static void before_c2(struct process_pair *worker)
{
    peek_some(worker, 2);
}

static void after_c2(struct process_pair *worker)
{
    peek_some(worker, 2);
    spsc_ring_release(&worker->submit);
}

static void after_d1(struct process_pair *worker)
{
    peek_some(worker, EARLIER);
    spsc_ring_release(&worker->submit);
    atomic_store(&worker->segment.submit_bell->asleep, 1);
}

static void after_d2(struct process_pair *worker)
{
    peek_some(worker, EARLIER);
    spsc_ring_release(&worker->submit);
    doorbell_prepare_sleep(&worker->submit_bell);
}

static void after_d3(struct process_pair *worker)
{
    after_d2(worker);
    const void *slot = NULL;
    must(spsc_ring_peek(&worker->submit, &slot) == RESULT_EMPTY);
}

/* Sleeps until the frontend kills it. */
static void inside_d4(struct process_pair *worker)
{
    after_d3(worker);
    (void)doorbell_wait(&worker->submit_bell, -1, -1);
}

static void inside_d5(struct process_pair *worker)
{
    after_d3(worker);
    must(doorbell_ring(&worker->submit_bell)); /* stands for the frontend's ring */
    atomic_store(&worker->segment.submit_bell->asleep, 0);
}

static void after_d5(struct process_pair *worker)
{
    after_d3(worker);
    must(doorbell_ring(&worker->submit_bell));
    doorbell_woken(&worker->submit_bell);
}

static const struct death consumer_deaths[] = {
    {"after C1", after_c1, 0},         {"before C2", before_c2, 0},
    {"after C2", after_c2, 2},         {"after D1", after_d1, EARLIER},
    {"after D2", after_d2, EARLIER},   {"after D3", after_d3, EARLIER},
    {"inside D4", inside_d4, EARLIER}, {"inside D5", inside_d5, EARLIER},
    {"after D5", after_d5, EARLIER},
};

static void consume_and_die(struct process_pair *worker, void *argument)
{
    const struct death *death = argument;
    death->play(worker);
    die();
}

static uint32_t claim_until_full(struct process_pair *pair)
{
    uint32_t claimed = 0;
    void *slot = NULL;
    enum result result;
    while ((result = spsc_ring_claim(&pair->submit, &slot)) == RESULT_OK)
        claimed++;
    assert_int_equal(result, RESULT_FULL);
    return claimed;
}

static void frontend_survives_a_dying_consumer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof consumer_deaths / sizeof consumer_deaths[0]; i++) {
        struct death death = consumer_deaths[i];
        print_message("  killed %s\n", death.step);
        struct process_pair pair;
        process_pair_open(&pair, CAPACITY, CAPACITY, 4096);
        void *slot = NULL;
        for (uint32_t number = 0; number < EARLIER; number++)
            assert_int_equal(spsc_ring_claim(&pair.submit, &slot), RESULT_OK);
        spsc_ring_commit(&pair.submit);
        process_pair_start(&pair, consume_and_die, &death);
        if (death.play == inside_d4) {
            await_asleep(&pair.submit_bell);
            usleep(2000);
            assert_false(peer_watch_ended(pair.child_fd));
            assert_int_equal(kill(pair.child, SIGKILL), 0);
        }
        /* The frontend sleeps on its own bell meanwhile, and the death wakes it. */
        doorbell_prepare_sleep(&pair.event_bell);
        assert_true(doorbell_wait(&pair.event_bell, pair.child_fd, PROCESS_PAIR_PATIENCE_MS));
        assert_true(peer_watch_ended(pair.child_fd));
        /* It may go on to write for a while before it looks: no crash, no wait, at most one useless
         * wake-up. */
        assert_int_equal(claim_until_full(&pair), CAPACITY - EARLIER + death.records);
        spsc_ring_commit(&pair.submit);
        (void)doorbell_ring(&pair.submit_bell);
        assert_false(doorbell_ring(&pair.submit_bell));
        assert_killed(&pair);
        process_pair_close(&pair);
        assert_fresh_segment_works();
    }
}

/* --- afterwards --- */

static void echo_one(struct process_pair *worker, void *argument)
{
    (void)argument;
    const void *slot = NULL;
    doorbell_prepare_sleep(&worker->submit_bell);
    while (spsc_ring_peek(&worker->submit, &slot) == RESULT_EMPTY) {
        doorbell_wait(&worker->submit_bell, -1, PROCESS_PAIR_PATIENCE_MS);
        doorbell_prepare_sleep(&worker->submit_bell);
    }
    doorbell_cancel_sleep(&worker->submit_bell);
    void *answer = NULL;
    must(spsc_ring_claim(&worker->event, &answer) == RESULT_OK);
    memcpy(answer, slot, sizeof(struct token_event));
    spsc_ring_commit(&worker->event);
    doorbell_ring(&worker->event_bell);
}

static void assert_fresh_segment_works(void)
{
    struct process_pair pair;
    process_pair_open(&pair, CAPACITY, CAPACITY, 4096);
    process_pair_start(&pair, echo_one, NULL);
    void *slot = NULL;
    assert_int_equal(spsc_ring_claim(&pair.submit, &slot), RESULT_OK);
    fill(slot, 0, sizeof(struct submit_record));
    spsc_ring_commit(&pair.submit);
    doorbell_ring(&pair.submit_bell);
    assert_true(process_pair_clean(process_pair_reap(&pair)));
    uint32_t seen = 0;
    take_whole_records(&pair, &seen);
    assert_int_equal(seen, 1);
    process_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frontend_survives_a_dying_producer),
        cmocka_unit_test(frontend_survives_a_dying_consumer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
