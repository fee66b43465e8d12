/*
 * Two real processes on one segment, for tests: the test process is the frontend, a forked child is
 * the worker.
 */
#ifndef SHOAL_TESTS_SUPPORT_PROCESS_PAIR_H
#define SHOAL_TESTS_SUPPORT_PROCESS_PAIR_H

#include <sys/types.h>

#include "shm/doorbell.h"
#include "shm/segment.h"
#include "shm/spsc_ring.h"

/* Longer than any wait of a passing test, also on a loaded machine under a sanitizer. */
#define PROCESS_PAIR_PATIENCE_MS 300000

/* The handles of one process. The child has its own mapping of the segment, from segment_attach(). */
struct process_pair {
    struct segment segment;
    struct doorbell submit_bell;
    struct doorbell event_bell;
    struct spsc_ring submit; /* frontend: producer; worker: consumer */
    struct spsc_ring event;  /* frontend: consumer; worker: producer */
    pid_t child;
    int child_fd; /* pidfd */
};

typedef void child_main(struct process_pair *pair, void *argument);

/* Makes segment and doorbells and attaches the frontend's sides. Aborts on failure. */
void process_pair_open(struct process_pair *pair, uint32_t submit_capacity, uint32_t event_capacity,
                       uint64_t slab_bytes);
/* Forks. The child attaches the worker's sides, runs `run`, and exits with 0. It must not use
 * cmocka's asserts, but must(). */
void process_pair_start(struct process_pair *pair, child_main *run, void *argument);
/* Waits for the child's end through its pidfd and reaps it; returns the wait status. Aborts after
 * PROCESS_PAIR_PATIENCE_MS. */
int process_pair_reap(struct process_pair *pair);
/* Frees everything; the child must have been reaped or never started. */
void process_pair_close(struct process_pair *pair);

/* True when a wait status says "exited with 0". */
int process_pair_clean(int status);

#endif
