/*
 * The frontend's end of one worker's segment: submits requests, takes events, checks both. The only
 * file of the frontend that touches rings. One link lives as long as one worker.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_WORKER_LINK_H
#define SHOAL_FRONTEND_SERVE_WORKER_WORKER_LINK_H

#include "frontend/api/generation/prepared_generation.h"
#include "frontend/assets/model_assets.h"
#include "proto/step_roster.h"
#include "proto/token_event.h"
#include "proto/worker_gauges.h"

struct event_base;
struct worker_link;

struct worker_link_config {
    struct event_base *base;
    uint32_t generation;
    uint32_t live_requests; /* slots of the request table: sizes the rings */
    uint64_t slab_bytes;
    void *context;
    void (*bell)(void *context); /* the worker rang: it has become ready, or events follow */
    /* One checked event that is about a request (never PAYLOAD_DONE). Anything but RESULT_OK: the
     * worker lies. */
    enum result (*event)(void *context, const struct token_event *event);
    void (*batch_end)(void *context);                /* after the events of one wake-up */
    void (*corrupt)(void *context, const char *why); /* the worker must go; no more events come */
};

enum result worker_link_create(const struct worker_link_config *config, struct worker_link **link,
                               struct error_text *error) RESULT_CHECKED;
/* Not from within a callback of the link. */
void worker_link_destroy(struct worker_link *link);

/* Descriptors for the worker to inherit. */
struct worker_link_fds {
    int segment;
    int submit_bell;
    int event_bell;
};
struct worker_link_fds worker_link_fds(const struct worker_link *link);
const struct worker_gauges *worker_link_gauges(const struct worker_link *link);
/* Events are believed only for a vocabulary that is known: to be set before the first submit. */
void worker_link_set_vocab(struct worker_link *link, uint32_t vocab_tokens);

/* `generated`: the tokens of earlier runs, fewer than prepared->max_new_tokens; the worker goes on
 * behind them. RESULT_FULL: the slab has no room now. RESULT_TOO_LARGE: it never will.
 * RESULT_CORRUPT: the worker's counts are wrong. */
enum result worker_link_submit(struct worker_link *link, struct request_id request,
                               const struct prepared_generation *prepared,
                               const struct token_list *generated,
                               const struct model_assets *assets) RESULT_CHECKED;
enum result worker_link_cancel(struct worker_link *link, struct request_id request) RESULT_CHECKED;
/* Its caches are forgotten before whatever is submitted later. */
enum result worker_link_reset_cache(struct worker_link *link) RESULT_CHECKED;
enum result worker_link_drain(struct worker_link *link) RESULT_CHECKED;

/* Handles what the worker published before it died. */
void worker_link_take_rest(struct worker_link *link);
/* Whom it was working on then, by its own word. */
void worker_link_read_roster(const struct worker_link *link, struct step_roster_copy *roster);
uint64_t worker_link_slab_used_bytes(const struct worker_link *link);

#endif
