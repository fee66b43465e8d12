/*
 * Requests that wait for a worker, in the order of their arrival, requeued ones too.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_WAITING_QUEUE_H
#define SHOAL_FRONTEND_SERVE_ENGINE_WAITING_QUEUE_H

#include "frontend/serve/engine/live_request.h"

struct waiting_queue {
    struct live_request *first;
    struct live_request *last;
    uint32_t count;
};

/* Inserts by `arrival`: a new request at the end in O(1), a requeued one at its old place. */
void waiting_queue_insert(struct waiting_queue *queue, struct live_request *request);
/* `request` must be in this queue. */
void waiting_queue_remove(struct waiting_queue *queue, struct live_request *request);

#endif
