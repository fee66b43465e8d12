/*
 * A broken process writes random and plausible bytes into all shared memory (header, gauges, ring
 * counts, doorbell flags and eventfds, records, slab) while the other works: that one gets error
 * codes or records that pass their checks, never a wild read, a hang, or a wrong entry in its slab
 * table. Both roles are tested.
 */
// tags: threads arm
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "proto/submit_payload.h"
#include "shm/payload_slab.h"
#include "tests/support/process_pair.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_random.h"

#define CAPACITY     64u
#define SLAB_BYTES   (1u << 16)
#define VOCAB_TOKENS 1000u
#if SANITIZED
#define RECORDS_MIN 5000u /* enough believed lies for every branch */
#else
#define RECORDS_MIN 20000u
#endif
#define FORGED_GENERATION 7u
#define ROUNDS_MAX        20000000u /* and an end if the liar is not believed */
#define PATIENCE_S        (PROCESS_PAIR_PATIENCE_MS / 1000)

/* An empty ring on a busy machine: lets the liar run. */
static void rest(uint32_t empty_peeks)
{
    if (empty_peeks % 32 == 0)
        usleep(50);
}

/* --- the liar --- */

/* Mostly counts that could be true, seen from the other's count, so that the victim goes on to read
 * what they point at. */
static void lie_in_counts(struct test_random *random, struct spsc_ring_shared *shared)
{
    uint32_t tail = atomic_load(&shared->head) + test_random_below(random, CAPACITY / 4);
    uint32_t head = atomic_load(&shared->tail) - test_random_below(random, CAPACITY / 4);
    switch (test_random_below(random, 16)) {
    case 0: atomic_store(&shared->tail, (uint32_t)test_random_edgy(random)); break;
    case 1: atomic_store(&shared->head, (uint32_t)test_random_edgy(random)); break;
    case 2: atomic_store(&shared->head, head); break;
    default: atomic_store(&shared->tail, tail); break;
    }
}

static void lie_in_doorbell(struct test_random *random, struct doorbell *bell)
{
    atomic_store(&bell->shared->asleep, test_random_below(random, 3));
    uint64_t count = test_random_below(random, 4) ? 1 : UINT64_MAX - 1;
    /* Sets O_NONBLOCK for its own sake first, and then, often, leaves the shared descriptor
     * blocking. */
    (void)fcntl(bell->event_fd, F_SETFL, O_NONBLOCK);
    (void)!write(bell->event_fd, &count, sizeof count);
    if (test_random_below(random, 2))
        (void)!read(bell->event_fd, &count, sizeof count);
    (void)fcntl(bell->event_fd, F_SETFL, test_random_below(random, 2) ? 0 : O_NONBLOCK);
}

static void lie_in_event(struct test_random *random, struct segment *segment)
{
    struct token_event event = {.kind = 1 + test_random_below(random, 5), .logprob = -1.0f};
    event.request.slot = test_random_below(random, LIMIT_LIVE_REQUESTS);
    event.finish = event.kind == TOKEN_EVENT_FINISHED ? FINISH_LENGTH : FINISH_NONE;
    event.failure = event.kind == TOKEN_EVENT_FAILED ? RESULT_INVALID : RESULT_OK;
    event.token = test_random_below(random, VOCAB_TOKENS + 1);
    event.payload_generation = test_random_below(random, 2000);
    event.payload_offset = 64 * (uint64_t)test_random_below(random, SLAB_BYTES / 64 + 1);
    /* Half of the time it looks for a true one, so that honest and false give-backs mix. */
    for (uint32_t tries = test_random_below(random, 2) * 32; tries > 0; tries--) {
        uint32_t chunk = test_random_below(random, SLAB_BYTES / 64 - 1);
        uint32_t generation = 0;
        memcpy(&generation, segment->slab + (size_t)chunk * 64, sizeof generation);
        if (generation > 0 && generation < 5000 && generation != FORGED_GENERATION) {
            event.payload_offset = 64 * (chunk + 1ull);
            event.payload_generation = generation;
            break;
        }
    }
    memcpy(segment->event_records + (size_t)test_random_below(random, CAPACITY) * sizeof event,
           &event, sizeof event);
}

static void lie_in_submit(struct test_random *random, struct segment *segment)
{
    struct submit_record record = {.kind = SUBMIT_RUN, .run.sampling = sampling_params_default()};
    record.run.prompt_tokens = 1 + test_random_below(random, SLAB_BYTES / 16);
    record.run.max_new_tokens = 1;
    record.payload_bytes = submit_payload_bytes(&record.run);
    record.payload_offset = 64 * (uint64_t)test_random_below(random, SLAB_BYTES / 64 + 1);
    record.payload_generation = FORGED_GENERATION;
    if (record.payload_offset >= 64)
        memcpy(segment->slab + record.payload_offset - 64, &record.payload_generation, 4);
    memcpy(segment->submit_records + (size_t)test_random_below(random, CAPACITY) * sizeof record,
           &record, sizeof record);
}

static void lie_once(struct test_random *random, struct process_pair *pair)
{
    struct segment *segment = &pair->segment;
    uint64_t before_slab = (uint64_t)(segment->slab - segment->base);
    switch (test_random_below(random, 16)) {
    case 0: lie_in_doorbell(random, &pair->event_bell); break;
    case 1: lie_in_doorbell(random, &pair->submit_bell); break;
    case 2:
    case 3:
    case 4: lie_in_event(random, segment); break;
    case 5:
    case 6:
    case 7: lie_in_submit(random, segment); break;
    case 8:
    case 9:
    case 10:
    case 11: lie_in_counts(random, segment->event_shared); break;
    case 12:
    case 13:
    case 14: lie_in_counts(random, segment->submit_shared); break;
    default: {
        uint64_t at = test_random_below(random, 8)
                          ? test_random_below(random, (uint32_t)before_slab / 8) * 8ull
                          : test_random_below(random, (uint32_t)segment->segment_bytes / 8) * 8ull;
        uint64_t word = test_random_edgy(random);
        memcpy(segment->base + at, &word, sizeof word);
    }
    }
}

/* --- the frontend among lies --- */

struct honest {
    struct payload_slab *slab;
    uint64_t vocabulary[VOCAB_TOKENS]; /* indexed by what the worker says */
    uint64_t requests[LIMIT_LIVE_REQUESTS];
    uint32_t seen[RESULT_COUNT]; /* of peeks */
    uint32_t passed;
    uint32_t given;
};

/* Each branch was taken often enough: how soon depends on how the two are scheduled. */
static bool heard_enough(const struct honest *honest)
{
    return honest->seen[RESULT_OK] >= RECORDS_MIN && honest->seen[RESULT_CORRUPT] > 100 &&
           honest->passed > 1000 && honest->given > 0;
}

static void read_one_event(struct honest *honest, struct process_pair *pair)
{
    const void *slot = NULL;
    enum result result = spsc_ring_peek(&pair->event, &slot);
    honest->seen[result]++;
    if (result == RESULT_EMPTY)
        rest(honest->seen[RESULT_EMPTY]);
    if (result == RESULT_CORRUPT) {
        /* A supervisor would end the worker here; the test starts the ring afresh to go on. */
        atomic_store(&pair->segment.event_shared->tail, 0);
        spsc_ring_attach_consumer(&pair->event, pair->segment.event_shared,
                                  pair->segment.event_records, sizeof(struct token_event),
                                  CAPACITY);
    }
    if (result != RESULT_OK)
        return;
    struct token_event event;
    memcpy(&event, slot, sizeof event);
    spsc_ring_release(&pair->event);
    if (token_event_check(&event, VOCAB_TOKENS, SLAB_BYTES, NULL) != RESULT_OK)
        return;
    honest->passed++;
    honest->requests[event.request.slot]++;
    if (event.kind == TOKEN_EVENT_TOKEN)
        honest->vocabulary[event.token]++;
    if (event.kind == TOKEN_EVENT_PAYLOAD_DONE) {
        uint64_t used = payload_slab_used_bytes(honest->slab);
        result = payload_slab_give(honest->slab, event.payload_offset, event.payload_generation);
        assert_true(result == RESULT_OK || result == RESULT_STALE);
        assert_int_equal(payload_slab_used_bytes(honest->slab) < used, result == RESULT_OK);
        honest->given += result == RESULT_OK;
    }
}

static void submit_one(struct honest *honest, struct process_pair *pair, struct test_random *random)
{
    struct payload_ref ref;
    void *payload = NULL;
    uint32_t bytes = 1 + test_random_below(random, 4000);
    if (payload_slab_take(honest->slab, bytes, &ref, &payload) == RESULT_OK) {
        memset(payload, 'p', bytes);
    } else { /* its give-backs were scribbled over: begin again, to have true ones to mix with the
                lies */
        payload_slab_destroy(honest->slab);
        honest->slab = payload_slab_create(pair->segment.slab, SLAB_BYTES);
    }
    void *slot = NULL;
    enum result result = spsc_ring_claim(&pair->submit, &slot);
    assert_true(result == RESULT_OK || result == RESULT_FULL || result == RESULT_CORRUPT);
    if (result == RESULT_OK) {
        assert_true((uint8_t *)slot >= pair->segment.submit_records &&
                    (uint8_t *)slot + 128 <= pair->segment.event_records);
        memset(slot, 's', sizeof(struct submit_record));
        spsc_ring_commit(&pair->submit);
    }
    (void)doorbell_ring(&pair->submit_bell);
}

static void lie_for_ever(struct process_pair *worker, void *argument)
{
    (void)argument;
    struct test_random random = {91};
    for (;;)
        lie_once(&random, worker);
}

static void attach_to_noise(struct process_pair *pair)
{
    struct segment segment;
    int fd = dup(pair->segment.fd);
    enum result result = segment_attach(fd, &segment, NULL);
    assert_true(result == RESULT_OK || result == RESULT_CORRUPT);
    if (result == RESULT_OK) {
        assert_true(segment.slab + segment.slab_bytes <= segment.base + segment.segment_bytes);
        segment_detach(&segment);
    } else {
        close(fd);
    }
}

static void frontend_survives_a_broken_worker(void **state)
{
    (void)state;
    struct process_pair pair;
    process_pair_open(&pair, CAPACITY, CAPACITY, SLAB_BYTES);
    struct honest *honest = must_alloc(1, sizeof *honest);
    honest->slab = payload_slab_create(pair.segment.slab, SLAB_BYTES);
    process_pair_start(&pair, lie_for_ever, NULL);
    struct test_random random = {92};
    alarm(PATIENCE_S); /* a call that blocks ends the test program */
    for (uint32_t round = 0; round < ROUNDS_MAX && !heard_enough(honest); round++) {
        read_one_event(honest, &pair);
        if (round % 4 == 0)
            submit_one(honest, &pair, &random);
        doorbell_prepare_sleep(&pair.event_bell);
        if (round % 16 == 0)
            assert_false(doorbell_wait(&pair.event_bell, pair.child_fd, 0));
        doorbell_cancel_sleep(&pair.event_bell);
        if (round % 64 == 0)
            attach_to_noise(&pair);
    }
    alarm(0);
    assert_int_equal(kill(pair.child, SIGKILL), 0);
    assert_true(WIFSIGNALED(process_pair_reap(&pair)));
    print_message("peeks: %u ok, %u empty, %u corrupt; %u events passed, %u payloads given\n",
                  honest->seen[RESULT_OK], honest->seen[RESULT_EMPTY], honest->seen[RESULT_CORRUPT],
                  honest->passed, honest->given);
    assert_true(heard_enough(honest));
    payload_slab_destroy(honest->slab);
    free(honest);
    process_pair_close(&pair);
}

/* --- the worker among lies --- */

/* Reads through the payload of a record that passes; returns its size. */
static uint64_t read_payload(const struct segment *segment, const struct submit_record *record,
                             uint64_t *sum)
{
    const void *payload = NULL;
    if (submit_record_check(record, SLAB_BYTES, NULL) != RESULT_OK || record->kind != SUBMIT_RUN)
        return 0;
    if (payload_view(segment->slab, SLAB_BYTES, record->payload_offset, record->payload_bytes,
                     record->payload_generation, &payload) != RESULT_OK)
        return 0;
    const uint8_t *bytes = payload;
    must(bytes + record->payload_bytes <= segment->base + segment->segment_bytes);
    for (uint64_t i = 0; i < record->payload_bytes; i += 32)
        *sum += bytes[i];
    *sum += bytes[record->payload_bytes - 1];
    return record->payload_bytes;
}

static bool take_one_submit(struct process_pair *worker, struct submit_record *record,
                            uint32_t *empty_peeks)
{
    const void *slot = NULL;
    enum result result = spsc_ring_peek(&worker->submit, &slot);
    must(result == RESULT_OK || result == RESULT_EMPTY || result == RESULT_CORRUPT);
    if (result == RESULT_EMPTY)
        rest(++*empty_peeks);
    if (result == RESULT_CORRUPT) {
        atomic_store(&worker->segment.submit_shared->tail, 0);
        spsc_ring_attach_consumer(&worker->submit, worker->segment.submit_shared,
                                  worker->segment.submit_records, sizeof *record, CAPACITY);
    }
    if (result != RESULT_OK)
        return false;
    memcpy(record, slot, sizeof *record);
    spsc_ring_release(&worker->submit);
    return true;
}

static void work_among_lies(struct process_pair *worker, void *argument)
{
    int attached_fd = *(int *)argument;
    must(write(attached_fd, "a", 1) == 1); /* the header was still true: let the lies begin */
    uint64_t sum = 0;
    uint64_t bytes_read = 0;
    uint32_t taken = 0;
    uint32_t empty_peeks = 0;
    for (uint32_t round = 0; round < ROUNDS_MAX && (taken < RECORDS_MIN || sum == 0); round++) {
        struct submit_record record;
        if (take_one_submit(worker, &record, &empty_peeks)) {
            taken++;
            bytes_read += read_payload(&worker->segment, &record, &sum);
        }
        void *event = NULL;
        if (spsc_ring_claim(&worker->event, &event) == RESULT_OK)
            memset(event, 'e', sizeof(struct token_event));
        spsc_ring_commit(&worker->event);
        (void)doorbell_ring(&worker->event_bell);
        doorbell_prepare_sleep(&worker->submit_bell);
        if (round % 16 == 0)
            (void)doorbell_wait(&worker->submit_bell, -1, 0);
        doorbell_cancel_sleep(&worker->submit_bell);
    }
    must(taken >= RECORDS_MIN && bytes_read > 0 && sum > 0);
}

static void worker_survives_a_broken_frontend(void **state)
{
    (void)state;
    struct process_pair pair;
    process_pair_open(&pair, CAPACITY, CAPACITY, SLAB_BYTES);
    int attached[2];
    char byte = 0;
    assert_int_equal(pipe(attached), 0);
    process_pair_start(&pair, work_among_lies, &attached[1]);
    assert_int_equal(read(attached[0], &byte, 1), 1);
    struct test_random random = {93};
    int status = 0;
    pid_t ended = 0;
    alarm(PATIENCE_S);
    for (uint32_t lies = 0; ended == 0; lies++) {
        lie_once(&random, &pair);
        if (lies % 1024 == 0)
            ended = waitpid(pair.child, &status, WNOHANG);
    }
    alarm(0);
    assert_int_equal(ended, pair.child);
    assert_true(process_pair_clean(status));
    close(attached[0]);
    close(attached[1]);
    close(pair.child_fd);
    pair.child = -1;
    process_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frontend_survives_a_broken_worker),
        cmocka_unit_test(worker_survives_a_broken_frontend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
