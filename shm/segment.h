/*
 * The shared-memory segment between the frontend and one worker: header, gauges, two rings with
 * doorbells, payload slab. Created by the frontend as a nameless memory file of sealed size
 * (nothing is left behind whatever dies, and nobody can shrink it under a reader); its descriptor
 * is inherited by the worker. Layout constants are compiled into both; the header only lets an
 * attaching side verify them.
 *
 *   offset        bytes                       what                     writer
 *   0             256                         struct segment_header    frontend, before the start
 *   256           768                         struct worker_gauges     worker
 *   1024          128 + 64                    submit ring + doorbell   rules in spsc_ring.h and
 *   2048          128 + 64                    event ring + doorbell    doorbell.h
 *   3072          512                         struct step_roster       worker
 *   4096          submit_capacity * 192       submit records           frontend
 *   ...           event_capacity * 64         token events             worker
 *   ... (page)    slab_bytes                  payload slab             frontend
 */
#ifndef SHOAL_SHM_SEGMENT_H
#define SHOAL_SHM_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"
#include "proto/step_roster.h"
#include "proto/submit_record.h"
#include "proto/token_event.h"
#include "proto/worker_gauges.h"
#include "shm/doorbell.h"
#include "shm/spsc_ring.h"

#define SEGMENT_MAGIC   0x314c414f48535345ull
#define SEGMENT_VERSION 5u

struct segment_header {
    uint64_t magic;
    uint32_t version;
    uint32_t generation; /* of the worker: one more at each restart */
    uint64_t segment_bytes;
    uint64_t slab_offset;
    uint64_t slab_bytes;
    uint32_t submit_capacity; /* records; power of two */
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
