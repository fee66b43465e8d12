/*
 * A request is named by a slot of the frontend's table, so the worker keeps one sequence for each
 * slot and finds it by index; the generation distinguishes the slot's present request from earlier
 * ones. Waiting sequences are a linked list, because a cancelled one leaves from the middle.
 * Running ones are a small array in order of arrival, which every step walks.
 *
 * The prompt ids and image bytes of all sequences together are bounded, so that a queue of long
 * prompts cannot exhaust the machine's memory. Policies decide which sequence is admitted or
 * preempted.
 */
#include "worker/schedule/sequence_table.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

struct sequence_table {
    uint64_t next_arrival;
    uint64_t queued_tokens;      /* prompt ids of all sequences */
    uint64_t queued_image_bytes; /* likewise */
    struct sequence *head;
    struct sequence *tail;
    uint32_t waiting;
    uint32_t running_count;
    uint32_t max_running;
    struct sequence **running; /* [max_running] by arrival */
    struct sequence slots[LIMIT_LIVE_REQUESTS];
};

struct sequence_table *sequence_table_create(uint32_t max_running)
{
    must(max_running > 0 && max_running <= LIMIT_SEQUENCES);
    struct sequence_table *table = must_alloc(1, sizeof *table);
    table->max_running = max_running;
    table->running = must_alloc(max_running, sizeof(struct sequence *));
    return table;
}

void sequence_table_destroy(struct sequence_table *table, struct kv_pools *pools)
{
    if (!table)
        return;
    for (uint32_t slot = 0; slot < LIMIT_LIVE_REQUESTS; slot++) {
        if (table->slots[slot].state != SEQUENCE_FREE)
            sequence_table_remove(table, &table->slots[slot], pools);
    }
    free(table->running);
    free(table);
}

struct sequence *sequence_table_find(struct sequence_table *table, struct request_id id)
{
    must(id.slot < LIMIT_LIVE_REQUESTS);
    struct sequence *sequence = &table->slots[id.slot];
    if (sequence->state == SEQUENCE_FREE || sequence->request.id.generation != id.generation)
        return NULL;
    return sequence;
}

static void queue_append(struct sequence_table *table, struct sequence *sequence)
{
    sequence->previous = table->tail;
    if (table->tail)
        table->tail->next = sequence;
    else
        table->head = sequence;
    table->tail = sequence;
    table->waiting++;
}

static void queue_prepend(struct sequence_table *table, struct sequence *sequence)
{
    must(!table->head || table->head->arrival > sequence->arrival);
    sequence->next = table->head;
    if (table->head)
        table->head->previous = sequence;
    else
        table->tail = sequence;
    table->head = sequence;
    table->waiting++;
}

static void queue_remove(struct sequence_table *table, struct sequence *sequence)
{
    if (sequence->previous)
        sequence->previous->next = sequence->next;
    else
        table->head = sequence->next;
    if (sequence->next)
        sequence->next->previous = sequence->previous;
    else
        table->tail = sequence->previous;
    sequence->previous = NULL;
    sequence->next = NULL;
    table->waiting--;
}

enum result sequence_table_add(struct sequence_table *table, struct sequence_request *request,
                               uint32_t tokens_max)
{
    must(request->id.slot < LIMIT_LIVE_REQUESTS);
    struct sequence *sequence = &table->slots[request->id.slot];
    enum result result = RESULT_OK;
    if (sequence->state != SEQUENCE_FREE)
        result = RESULT_STALE;
    else if (table->queued_tokens + request->run.prompt_tokens > LIMIT_QUEUED_TOKENS ||
             table->queued_image_bytes + request->images.part_bytes > LIMIT_QUEUED_IMAGE_BYTES)
        result = RESULT_FULL;
    if (result != RESULT_OK) {
        sequence_request_fini(request);
        return result;
    }
    result = sequence_begin(sequence, request, table->next_arrival++, tokens_max);
    if (result != RESULT_OK)
        return result;
    table->queued_tokens += sequence->request.run.prompt_tokens;
    table->queued_image_bytes += sequence->request.images.part_bytes;
    queue_append(table, sequence);
    return RESULT_OK;
}

struct sequence *sequence_table_head(const struct sequence_table *table)
{
    return table->head;
}

enum result sequence_table_admit(struct sequence_table *table, struct kv_pools *pools)
{
    struct sequence *sequence = table->head;
    must(sequence && table->running_count < table->max_running);
    enum result result = sequence_admit(sequence, pools);
    if (result != RESULT_OK)
        return result;
    queue_remove(table, sequence);
    table->running[table->running_count++] = sequence;
    return RESULT_OK;
}

void sequence_table_preempt(struct sequence_table *table, struct kv_pools *pools)
{
    must(table->running_count > 0);
    struct sequence *sequence = table->running[--table->running_count];
    sequence_preempt(sequence, pools);
    queue_prepend(table, sequence);
}

static void running_remove(struct sequence_table *table, const struct sequence *sequence)
{
    uint32_t at = 0;
    while (at < table->running_count && table->running[at] != sequence)
        at++;
    must(at < table->running_count);
    table->running_count--;
    memmove(&table->running[at], &table->running[at + 1],
            (table->running_count - at) * sizeof(struct sequence *));
}

void sequence_table_remove(struct sequence_table *table, struct sequence *sequence,
                           struct kv_pools *pools)
{
    if (sequence_is_running(sequence))
        running_remove(table, sequence);
    else
        queue_remove(table, sequence);
    table->queued_tokens -= sequence->request.run.prompt_tokens;
    table->queued_image_bytes -= sequence->request.images.part_bytes;
    sequence_finish(sequence, pools);
}

uint32_t sequence_table_waiting(const struct sequence_table *table)
{
    return table->waiting;
}

uint32_t sequence_table_running(const struct sequence_table *table)
{
    return table->running_count;
}

struct sequence *sequence_table_running_at(const struct sequence_table *table, uint32_t index)
{
    must(index < table->running_count);
    return table->running[index];
}

void sequence_table_check(const struct sequence_table *table, const struct kv_pools *pools)
{
    uint64_t oldest_allowed = 0;
    for (uint32_t i = 0; i < table->running_count; i++) {
        must(sequence_is_running(table->running[i]));
        must(table->running[i]->arrival >= oldest_allowed);
        oldest_allowed = table->running[i]->arrival + 1;
        sequence_check(table->running[i], pools);
    }
    uint32_t waiting = 0;
    for (const struct sequence *at = table->head; at; at = at->next) {
        must(!sequence_is_running(at) && at->state != SEQUENCE_FREE);
        must(at->arrival >= oldest_allowed);
        oldest_allowed = at->arrival + 1;
        sequence_check(at, pools);
        waiting++;
    }
    must(waiting == table->waiting);
}
