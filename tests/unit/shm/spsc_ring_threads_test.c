/*
 * Producer and consumer as two threads of one process, so that the thread sanitizer sees whether
 * the memory orders alone make records safe to read and slots safe to write again. Both sleep by
 * the doorbell's recipe when there is nothing to do.
 */
// tags: threads arm
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "shm/doorbell.h"
#include "shm/spsc_ring.h"
#include "tests/support/test_random.h"

#define CAPACITY    32u
#define RECORDS     300000u
#define PATIENCE_MS 300000 /* only a failing test waits for it */

struct record {
    uint64_t number;
    uint64_t words[7]; /* plain memory: only the ring's orders protect it */
};

struct channel {
    struct spsc_ring_shared shared;
    struct record records[CAPACITY];
    struct doorbell records_bell; /* the consumer sleeps on it */
    struct doorbell slots_bell;   /* the producer sleeps on it */
    struct doorbell_shared records_flag;
    struct doorbell_shared slots_flag;
};

static void sleep_until(struct doorbell *bell, bool work)
{
    if (work)
        doorbell_cancel_sleep(bell);
    else
        doorbell_wait(bell, -1, PATIENCE_MS);
}

static void *produce(void *argument)
{
    struct channel *channel = argument;
    struct test_random random = {21};
    struct spsc_ring ring;
    spsc_ring_attach_producer(&ring, &channel->shared, channel->records, sizeof(struct record),
                              CAPACITY);
    for (uint64_t number = 0; number < RECORDS;) {
        uint64_t batch = 1 + test_random_below(&random, 20);
        void *slot = NULL;
        while (batch-- > 0 && number < RECORDS && spsc_ring_claim(&ring, &slot) == RESULT_OK) {
            struct record *record = slot;
            record->number = number;
            for (size_t i = 0; i < 7; i++)
                record->words[i] = number * (i + 3);
            number++;
        }
        spsc_ring_commit(&ring);
        doorbell_ring(&channel->records_bell);
        if (spsc_ring_free(&ring) == 0) {
            doorbell_prepare_sleep(&channel->slots_bell);
            sleep_until(&channel->slots_bell, spsc_ring_free(&ring) > 0);
        }
    }
    return NULL;
}

static void consume(struct channel *channel)
{
    struct spsc_ring ring;
    spsc_ring_attach_consumer(&ring, &channel->shared, channel->records, sizeof(struct record),
                              CAPACITY);
    const void *slot = NULL;
    for (uint64_t number = 0; number < RECORDS;) {
        enum result result = spsc_ring_peek(&ring, &slot);
        if (result == RESULT_OK) {
            const struct record *record = slot;
            must(record->number == number);
            for (size_t i = 0; i < 7; i++)
                must(record->words[i] == number * (i + 3));
            number++;
            continue;
        }
        must(result == RESULT_EMPTY);
        spsc_ring_release(&ring);
        doorbell_ring(&channel->slots_bell);
        doorbell_prepare_sleep(&channel->records_bell);
        bool work =
            atomic_load_explicit(&channel->shared.tail, memory_order_acquire) != ring.position;
        sleep_until(&channel->records_bell, work);
    }
    spsc_ring_release(&ring);
    doorbell_ring(
        &channel->slots_bell); /* a producer that filled the ring last sleeps until then */
}

static void threads_exchange_records(void **state)
{
    (void)state;
    static struct channel channel;
    memset(&channel, 0, sizeof channel);
    channel.records_bell =
        (struct doorbell){&channel.records_flag, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    channel.slots_bell =
        (struct doorbell){&channel.slots_flag, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, &channel), 0);
    consume(&channel);
    assert_int_equal(pthread_join(producer, NULL), 0);
    assert_int_equal(atomic_load(&channel.shared.tail), RECORDS);
    close(channel.records_bell.event_fd);
    close(channel.slots_bell.event_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_exchange_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
