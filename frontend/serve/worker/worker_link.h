/*
 * The frontend's end of one worker's segment: submits requests, takes events, checks both. The only
 * file of the frontend that touches rings. One link lives as long as one worker.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_WORKER_LINK_H
#define SHOAL_FRONTEND_SERVE_WORKER_WORKER_LINK_H

#include "frontend/api/generation/prepared_generation.h"
#include "frontend/assets/model_assets.h"
#include "frontend/serve/metrics/worker_totals.h"
#include "proto/step_roster.h"
#include "proto/step_trace.h"
#include "proto/token_event.h"
#include "proto/worker_gauges.h"

struct event_base;
struct worker_link;

/* The engine's functions for a worker's reports. Pool and supervisor pass the listener on, so that
 * the link calls the engine directly. */
struct worker_listener {
    void *context;
    void (*ready)(void *context); /* the supervisor's: after the link has its vocabulary */
    /* The link's: one checked event of a request or an adapter (never PAYLOAD_DONE). Any result but RESULT_OK
     * means that the worker contradicts itself; the link then ends as corrupt. */
    enum result (*event)(void *context, uint32_t worker, const struct token_event *event);
    void (*batch_end)(void *context); /* the link's: after the events of one wake-up */
};

/* Who gets a link's reports. */
struct worker_link_owner {
    struct worker_listener listener;
    void *context;               /* argument of the two functions below */
    void (*bell)(void *context); /* the worker rang: its state changed, or events follow */
    void (*corrupt)(void *context,
                    const char *why); /* the worker is to be killed; no more events follow */
};

struct worker_link_config {
    struct event_base *base;
    uint32_t worker; /* its index, for the listener */
    uint32_t generation;
    uint32_t live_requests; /* slots of the request table: sizes the rings */
    uint64_t slab_bytes;
    struct worker_link_owner owner;
};

enum result worker_link_create(const struct worker_link_config *config, struct worker_link **link,
                               struct error_text *error) RESULT_CHECKED;
/* Not allowed in a callback of the link. */
void worker_link_destroy(struct worker_link *link);

/* Not allowed in a callback of the link. */
void worker_link_set_owner(struct worker_link *link, const struct worker_link_owner *owner);

/* Descriptors for the worker to inherit. */
struct worker_link_fds {
    int segment;
    int submit_bell;
    int event_bell;
};
struct worker_link_fds worker_link_fds(const struct worker_link *link);
const struct worker_gauges *worker_link_gauges(const struct worker_link *link);
/* Copies its trace of steps and asks for a new map of its KV cache, also if it sleeps. */
void worker_link_look(struct worker_link *link, struct step_trace_copy *copy);
/* Reads the worker's counters and adds the plausible ones. */
void worker_link_add_totals(struct worker_link *link, struct worker_totals *totals);
/* Sets the vocabulary that events are checked against, before the first submit. */
void worker_link_set_vocab(struct worker_link *link, uint32_t vocab_tokens);

/* `generated`: the tokens of earlier runs, fewer than prepared->max_new_tokens; the worker
 * continues after them. `scored_tokens`: prompt tokens after the first one whose log-probability has
 * arrived. RESULT_FULL: the slab has no room now. RESULT_TOO_LARGE: larger than the
 * slab. RESULT_CORRUPT: the worker's counts are wrong. */
enum result worker_link_submit(struct worker_link *link, struct request_id request,
                               const struct prepared_generation *prepared,
                               const struct token_list *generated, uint32_t scored_tokens,
                               const struct model_assets *assets) RESULT_CHECKED;
enum result worker_link_cancel(struct worker_link *link, struct request_id request) RESULT_CHECKED;
/* Clears its caches before any request that is submitted later. */
enum result worker_link_reset_cache(struct worker_link *link) RESULT_CHECKED;
/* It reads the slot of the adapters' memory before any request that is submitted later; an event answers. */
enum result worker_link_read_adapter(struct worker_link *link,
                                     struct adapter_id adapter) RESULT_CHECKED;
/* The words of gauge `failure`: why it cannot start, or refused the adapter of the event that is being handled. */
void worker_link_read_failure(const struct worker_link *link, struct error_text *words);
/* A reset was asked for that the worker has not done, or not counted before its death. */
bool worker_link_reset_is_pending(const struct worker_link *link);
enum result worker_link_drain(struct worker_link *link) RESULT_CHECKED;

/* Handles what the worker published before it died. */
void worker_link_take_rest(struct worker_link *link);
/* The requests that the dead worker listed as in progress. */
void worker_link_read_roster(const struct worker_link *link, struct step_roster_copy *roster);
uint64_t worker_link_slab_used_bytes(const struct worker_link *link);

#endif
