/*
 * Single-producer, single-consumer ring of fixed-size records in shared memory, lock-free, in two
 * phases on each side: claim a slot, fill it in place, commit; peek a slot, read it in place,
 * release.
 *
 * Head and tail are free-running 32-bit counts on cache lines of their own; each side keeps private
 * copies of both. A foreign count that is impossible (it moved back, or passed this side's bound)
 * is RESULT_CORRUPT, never an index. Capacity and record size are the attaching side's own
 * constants, never read from the segment.
 *
 *   P1 producer publishes records:  store tail, release   (spsc_ring_commit)
 *   C1 consumer sees records:       load tail, acquire    (pairs with P1)
 *   C2 consumer returns slots:      store head, release   (spsc_ring_release)
 *   P2 producer sees free slots:    load head, acquire    (pairs with C2)
 */
#ifndef SHOAL_SHM_SPSC_RING_H
#define SHOAL_SHM_SPSC_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

/*
 * The shared part: one per ring in the segment.
 *
 * Byte map of struct spsc_ring_shared, 128 bytes.
 *
 *   offset  size  field     writer    rule
 *   0       4     tail      producer  P1: records committed, modulo 2^32
 *   4       60    pad_tail  none      keeps head on a cache line of its own
 *   64      4     head      consumer  C2: records released, modulo 2^32
 *   68      60    pad_head  none
 */
struct spsc_ring_shared {
    _Atomic uint32_t tail;
    uint8_t pad_tail[60];
    _Atomic uint32_t head;
    uint8_t pad_head[60];
};
_Static_assert(sizeof(struct spsc_ring_shared) == 128, "two cache lines");

/* One side's private view. */
struct spsc_ring {
    struct spsc_ring_shared *shared;
    uint8_t *records;
    uint32_t record_bytes;
    uint32_t capacity;  /* power of two */
    uint32_t position;  /* producer: next to claim; consumer: next to peek */
    uint32_t foreign;   /* last count seen of the other side */
    uint32_t committed; /* producer: own tail as published; consumer: own head as published */
};

/* A view over `shared` and `records` (capacity * record_bytes). A new ring's shared part is zero.
 */
void spsc_ring_attach_producer(struct spsc_ring *ring, struct spsc_ring_shared *shared,
                               void *records, uint32_t record_bytes, uint32_t capacity);
void spsc_ring_attach_consumer(struct spsc_ring *ring, struct spsc_ring_shared *shared,
                               void *records, uint32_t record_bytes, uint32_t capacity);

/* RESULT_OK and a slot to fill, RESULT_FULL, or RESULT_CORRUPT. Several claims may precede one
 * commit. A slot holds an old record: fill all of it. */
enum result spsc_ring_claim(struct spsc_ring *ring, void **record) RESULT_CHECKED;
/* Publishes every record claimed since the last commit. */
void spsc_ring_commit(struct spsc_ring *ring);
/* Slots that can be claimed now (a lower bound). */
uint32_t spsc_ring_free(struct spsc_ring *ring);

/* RESULT_OK and the next record, RESULT_EMPTY, or RESULT_CORRUPT. Several peeks may precede one
 * release. The peer can still write to the record: copy it out, then check the copy. */
enum result spsc_ring_peek(struct spsc_ring *ring, const void **record) RESULT_CHECKED;
/* Gives back every record peeked since the last release. */
void spsc_ring_release(struct spsc_ring *ring);

#endif
