/*
 * A list linked through the requests, ordered by arrival. New requests have the highest numbers and
 * requests of a dead worker the lowest, so new ones search their place from the back and requeued
 * ones from the front.
 */
#include "frontend/serve/engine/waiting_queue.h"

#include "proto/must.h"

static void link_between(struct waiting_queue *queue, struct live_request *before,
                         struct live_request *request, struct live_request *after)
{
    request->previous_waiting = before;
    request->next_waiting = after;
    if (before)
        before->next_waiting = request;
    else
        queue->first = request;
    if (after)
        after->previous_waiting = request;
    else
        queue->last = request;
    queue->count++;
}

void waiting_queue_insert(struct waiting_queue *queue, struct live_request *request)
{
    must(!request->previous_waiting && !request->next_waiting);
    if (!queue->last || queue->last->arrival < request->arrival) {
        link_between(queue, queue->last, request, NULL);
        return;
    }
    struct live_request *after = queue->first;
    while (after->arrival < request->arrival)
        after = after->next_waiting;
    link_between(queue, after->previous_waiting, request, after);
}

void waiting_queue_remove(struct waiting_queue *queue, struct live_request *request)
{
    must(queue->count > 0);
    if (request->previous_waiting)
        request->previous_waiting->next_waiting = request->next_waiting;
    else
        queue->first = request->next_waiting;
    if (request->next_waiting)
        request->next_waiting->previous_waiting = request->previous_waiting;
    else
        queue->last = request->previous_waiting;
    request->previous_waiting = NULL;
    request->next_waiting = NULL;
    queue->count--;
}
