/*
 * A queue between two processes without a lock: whatever one process does or whenever it dies, the
 * other neither hangs nor reads out of bounds.
 *
 * Each side owns one count in shared memory and writes only that one, from a private copy that the
 * peer cannot reach. The foreign count is read rarely (when the cached value says full or empty)
 * and accepted only between the last value seen and the furthest an honest peer can have reached.
 * Other counts are RESULT_CORRUPT and change nothing. Slots are found by masking the private
 * position, so a broken peer affects which records are seen, never which memory is read.
 *
 * Waiting is doorbell.h's. After RESULT_CORRUPT the segment is discarded.
 */
#include "shm/spsc_ring.h"

#include "proto/limits.h"
#include "proto/must.h"

static void attach(struct spsc_ring *ring, struct spsc_ring_shared *shared, void *records,
                   uint32_t record_bytes, uint32_t capacity)
{
    must(record_bytes > 0);
    must(capacity > 0 && capacity <= LIMIT_RING_RECORDS && (capacity & (capacity - 1)) == 0);
    *ring = (struct spsc_ring){
        .shared = shared, .records = records, .record_bytes = record_bytes, .capacity = capacity};
}

static uint8_t *slot_at(const struct spsc_ring *ring, uint32_t position)
{
    return ring->records + (size_t)(position & (ring->capacity - 1)) * ring->record_bytes;
}

void spsc_ring_attach_producer(struct spsc_ring *ring, struct spsc_ring_shared *shared,
                               void *records, uint32_t record_bytes, uint32_t capacity)
{
    attach(ring, shared, records, record_bytes, capacity);
}

void spsc_ring_attach_consumer(struct spsc_ring *ring, struct spsc_ring_shared *shared,
                               void *records, uint32_t record_bytes, uint32_t capacity)
{
    attach(ring, shared, records, record_bytes, capacity);
}

/* Refreshes the producer's copy of head. A correct head never moves back and never passes the
 * committed tail. */
static enum result see_free_slots(struct spsc_ring *ring)
{
    /* P2: pairs with C2 in spsc_ring_release(): the consumer is done reading the slots before head.
     */
    uint32_t head = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
    if (head - ring->foreign > ring->committed - ring->foreign)
        return RESULT_CORRUPT;
    ring->foreign = head;
    return RESULT_OK;
}

/* Refreshes the consumer's copy of tail. A correct tail never moves back and never laps the
 * released slots. */
static enum result see_records(struct spsc_ring *ring)
{
    /* C1: pairs with P1 in spsc_ring_commit(): the records before tail are whole. */
    uint32_t tail = atomic_load_explicit(&ring->shared->tail, memory_order_acquire);
    if (tail - ring->foreign > ring->committed + ring->capacity - ring->foreign)
        return RESULT_CORRUPT;
    ring->foreign = tail;
    return RESULT_OK;
}

enum result spsc_ring_claim(struct spsc_ring *ring, void **record)
{
    if (ring->position - ring->foreign == ring->capacity) {
        enum result result = see_free_slots(ring);
        if (result != RESULT_OK)
            return result;
        if (ring->position - ring->foreign == ring->capacity)
            return RESULT_FULL;
    }
    *record = slot_at(ring, ring->position++);
    return RESULT_OK;
}

void spsc_ring_commit(struct spsc_ring *ring)
{
    ring->committed = ring->position;
    /* P1: pairs with C1 in see_records(). */
    atomic_store_explicit(&ring->shared->tail, ring->committed, memory_order_release);
}

uint32_t spsc_ring_free(struct spsc_ring *ring)
{
    /* If the head is corrupt, the last accepted one still gives a lower bound; the next claim at
     * that bound reports it. */
    (void)see_free_slots(ring);
    return ring->capacity - (ring->position - ring->foreign);
}

enum result spsc_ring_peek(struct spsc_ring *ring, const void **record)
{
    if (ring->position == ring->foreign) {
        enum result result = see_records(ring);
        if (result != RESULT_OK)
            return result;
        if (ring->position == ring->foreign)
            return RESULT_EMPTY;
    }
    *record = slot_at(ring, ring->position++);
    return RESULT_OK;
}

void spsc_ring_release(struct spsc_ring *ring)
{
    ring->committed = ring->position;
    /* C2: pairs with P2 in see_free_slots(). */
    atomic_store_explicit(&ring->shared->head, ring->committed, memory_order_release);
}
