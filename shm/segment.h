/*
 * The shared-memory segment between the frontend and one worker: header, gauges, two rings with
 * doorbells, roster, trace, payload slab. The frontend creates it as an anonymous memory file of sealed
 * size: no name remains after a crash, and neither process can shrink it while the other reads. The
 * worker inherits its descriptor. The layout constants are compiled into both; an attaching process
 * uses the header only to verify them.
 *
 * Byte map of the segment:
 *
 *   offset  size                   what                             writer
 *   0       256                    struct segment_header            frontend, before the start
 *   256     1024                   struct worker_gauges             worker
 *   1536    128                    submit struct spsc_ring_shared   tail: frontend; head: worker
 *   1664    64                     submit struct doorbell_shared    doorbell.h
 *   2048    128                    event struct spsc_ring_shared    tail: worker; head: frontend
 *   2176    64                     event struct doorbell_shared     doorbell.h
 *   3072    512                    struct step_roster               worker
 *   4096    4096                   struct step_trace                worker; `looks`: frontend
 *   8192    submit_capacity * 256  array of struct submit_record    frontend
 *   ...     event_capacity * 64    array of struct token_event      worker
 *   ...     slab_bytes             payload slab, on the next page   frontend
 */
#ifndef SHOAL_SHM_SEGMENT_H
#define SHOAL_SHM_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"
#include "proto/step_roster.h"
#include "proto/step_trace.h"
#include "proto/submit_record.h"
#include "proto/token_event.h"
#include "proto/worker_gauges.h"
#include "shm/doorbell.h"
#include "shm/spsc_ring.h"

#define SEGMENT_MAGIC   0x314c414f48535345ull
#define SEGMENT_VERSION 10u

/*
 * Byte map of struct segment_header, 256 bytes. Written by the frontend, before the worker starts.
 *
 *   offset  size  field                rule
 *   0       8     magic                SEGMENT_MAGIC
 *   8       4     version              SEGMENT_VERSION
 *   12      4     generation           of the worker: one more at each restart
 *   16      8     segment_bytes        the file's size; follows from the three sizes below
 *   24      8     slab_offset          likewise
 *   32      8     slab_bytes           1..LIMIT_SLAB_BYTES, a multiple of 64
 *   40      4     submit_capacity      records, a power of two, <= LIMIT_RING_RECORDS
 *   44      4     event_capacity       likewise
 *   48      4     submit_record_bytes  sizeof(struct submit_record)
 *   52      4     event_bytes          sizeof(struct token_event)
 *   56      200   reserved             zero
 */
struct segment_header {
    uint64_t magic;
    uint32_t version;
    uint32_t generation;
    uint64_t segment_bytes;
    uint64_t slab_offset;
    uint64_t slab_bytes;
    uint32_t submit_capacity;
    uint32_t event_capacity;
    uint32_t submit_record_bytes;
    uint32_t event_bytes;
    uint8_t reserved[200];
};
_Static_assert(sizeof(struct segment_header) == 256, "byte map");

/* One process's mapping. */
struct segment {
    int fd;
    uint8_t *base;
    uint64_t segment_bytes;
    struct segment_header *header;
    struct worker_gauges *gauges;
    struct spsc_ring_shared *submit_shared;
    struct doorbell_shared *submit_bell;
    uint8_t *submit_records;
    struct spsc_ring_shared *event_shared;
    struct doorbell_shared *event_bell;
    uint8_t *event_records;
    struct step_roster *roster;
    struct step_trace *trace;
    uint8_t *slab;
    uint64_t slab_bytes;
    uint32_t submit_capacity;
    uint32_t event_capacity;
};

struct segment_sizes {
    uint32_t submit_capacity;
    uint32_t event_capacity;
    uint64_t slab_bytes;
};

/* Frontend: creates, seals, maps and fills the header. The fd is close-on-exec (the spawner clears
 * that for the child). RESULT_INVALID when a size is out of bounds. */
enum result segment_create(const struct segment_sizes *sizes, uint32_t generation,
                           struct segment *segment, struct error_text *error) RESULT_CHECKED;
/* Worker: maps `fd` and verifies every header field against the file's size, and that the size is
 * sealed; RESULT_CORRUPT names the field. Owns fd on success only. */
enum result segment_attach(int fd, struct segment *segment,
                           struct error_text *error) RESULT_CHECKED;
/* Unmaps and closes fd. Safe on a zeroed struct. */
void segment_detach(struct segment *segment);

#endif
