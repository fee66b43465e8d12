/*
 * The worker's end of the shared segment: commands in, events out. The only file of the worker that
 * uses rings.
 *
 * Records are copied out of shared memory before they are checked, and checked before they are
 * used. Events are collected during a step and published together. Events that do not fit the event
 * ring stay here in order, and the engine launches no step until they are published.
 */
#ifndef SHOAL_WORKER_SCHEDULE_FRONTEND_LINK_H
#define SHOAL_WORKER_SCHEDULE_FRONTEND_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/step_trace.h"
#include "proto/token_event.h"
#include "proto/worker_gauges.h"
#include "worker/schedule/sequence.h"

/* Inherited descriptors. The link owns the segment's, the caller the others. */
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
/* The number of this worker process, counted by the frontend; the first is 1. */
uint32_t frontend_link_life(const struct frontend_link *link);
struct step_trace *frontend_link_trace(struct frontend_link *link);
/* Wakes the frontend to look at the gauges. */
void frontend_link_ring(struct frontend_link *link);

/* The roster of requests in progress, which the frontend reads if the worker dies
 * (proto/step_roster.h). A record that is being taken is listed by the link itself. */
void frontend_link_roster_add(struct frontend_link *link, uint32_t slot);
void frontend_link_roster_clear(struct frontend_link *link);
/* Sets the vocabulary: ids >= vocab_tokens are refused. Call before the first frontend_link_take().
 */
void frontend_link_set_vocabulary(struct frontend_link *link, uint32_t vocab_tokens);

/* A checked copy of the tokens' bytes. */
struct frontend_vocabulary {
    struct token_table_sizes sizes; /* token_count <= the vocabulary */
    struct token_table table;       /* parts of the payload */
    void *payload;                  /* malloc */
};

struct frontend_command {
    enum submit_kind kind;
    struct request_id request;             /* RUN, CANCEL */
    struct adapter_id adapter;             /* ADAPTER */
    struct sequence_request sequence;      /* RUN: owned by the caller, like the next one */
    struct frontend_vocabulary vocabulary; /* VOCABULARY */
};

/* Takes one record. RESULT_EMPTY: there is none. RESULT_INVALID: the record was bad; it is counted
 * and, if it names a request, answered with FAILED. RESULT_CORRUPT: the ring is corrupt and the
 * worker must exit. */
enum result frontend_link_take(struct frontend_link *link,
                               struct frontend_command *command) RESULT_CHECKED;

/* Maximum number of events between two flushes that returned RESULT_OK: for each of LIMIT_SEQUENCES
 * sequences progress, four of alternatives, a token and an end; and two for each record taken. A scored
 * prompt token takes the place of a sequence's token: a step has as many logit rows. */
#define FRONTEND_LINK_EVENTS_MAX 8192u

/* Queues an event. */
void frontend_link_emit(struct frontend_link *link, const struct token_event *event);
void frontend_link_emit_failed(struct frontend_link *link, struct request_id request,
                               enum result failure);
void frontend_link_emit_finished(struct frontend_link *link, struct request_id request,
                                 enum finish_reason finish);
/* Publishes the queued events and rings the bell at most once. RESULT_FULL: some are left; flush
 * again later and emit nothing before that. RESULT_CORRUPT as above. */
enum result frontend_link_flush(struct frontend_link *link) RESULT_CHECKED;

/* Sleeps until a record may be there or the parent dies; returns at once if a record is there. True
 * if the parent has died. */
bool frontend_link_sleep(struct frontend_link *link);
/* Waits for room in the event ring, for at most `timeout_ms` because the reader rings no bell.
 * Records do not end the wait. True if the parent has died. */
bool frontend_link_sleep_for_room(struct frontend_link *link, int timeout_ms);

#endif
