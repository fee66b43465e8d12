/*
 * The worker's end of the shared segment: commands in, events out. The only file of the worker that
 * touches rings.
 *
 * Everything that comes in is copied out of shared memory before it is checked, and checked before
 * it is used. Events are collected over a step and published together; what the event ring cannot
 * take stays here, in order, and the engine stops stepping until it is gone.
 */
#ifndef SHOAL_WORKER_SCHEDULE_FRONTEND_LINK_H
#define SHOAL_WORKER_SCHEDULE_FRONTEND_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/token_event.h"
#include "proto/worker_gauges.h"
#include "worker/schedule/sequence.h"

/* Descriptors that the frontend handed down; the link owns the segment's, the caller the others. */
struct frontend_link_fds {
    int segment;
    int submit_bell;
    int event_bell;
    int parent; /* pidfd of the frontend, or -1 */
};

struct frontend_link;

/* Verifies and maps the segment. */
enum result frontend_link_open(const struct frontend_link_fds *fds, struct frontend_link **link,
                               struct error_text *error) RESULT_CHECKED;
void frontend_link_close(struct frontend_link *link);

struct worker_gauges *frontend_link_gauges(struct frontend_link *link);
/* Which life of this worker it is, by the frontend's count; the first is 1. */
uint32_t frontend_link_life(const struct frontend_link *link);
/* Wakes the frontend to look at the gauges. */
void frontend_link_ring(struct frontend_link *link);

/* Whom the worker is working on, for whoever finds it dead (proto/step_roster.h). Records that are
 * taken name themselves. */
void frontend_link_roster_add(struct frontend_link *link, uint32_t slot);
void frontend_link_roster_clear(struct frontend_link *link);
/* Token ids from `vocab_tokens` on are refused. Before the first frontend_link_take(). */
void frontend_link_set_vocabulary(struct frontend_link *link, uint32_t vocab_tokens);

struct frontend_command {
    enum submit_kind kind;
    struct request_id request;        /* RUN, CANCEL */
    struct sequence_request sequence; /* RUN: the taker owns its memory */
};

/* One record. RESULT_EMPTY: none there. RESULT_INVALID: a record was bad; it is counted and, where
 * it names a request, answered with FAILED. RESULT_CORRUPT: the ring itself is; the worker must
 * end. */
enum result frontend_link_take(struct frontend_link *link,
                               struct frontend_command *command) RESULT_CHECKED;

/* Events that one turn of the engine may emit between two flushes that returned RESULT_OK: of each
 * of LIMIT_SEQUENCES progress, four of alternatives, a token and an end, and two for each record
 * that is taken in. */
#define FRONTEND_LINK_EVENTS_MAX 8192u

/* Queues an event. */
void frontend_link_emit(struct frontend_link *link, const struct token_event *event);
void frontend_link_emit_failed(struct frontend_link *link, struct request_id request,
                               enum result failure);
void frontend_link_emit_finished(struct frontend_link *link, struct request_id request,
                                 enum finish_reason finish);
/* Publishes what was queued, with at most one ring of the bell. RESULT_FULL: some are left; flush
 * again later and emit nothing before that. RESULT_CORRUPT as above. */
enum result frontend_link_flush(struct frontend_link *link) RESULT_CHECKED;

/* Sleeps until a record may be there or the parent dies; returns at once when a record is there.
 * True when the parent has died. */
bool frontend_link_sleep(struct frontend_link *link);
/* The same for lack of room in the event ring, whose reader rings no bell: a record that is there
 * does not end it. */
bool frontend_link_sleep_for_room(struct frontend_link *link, int timeout_ms);

#endif
