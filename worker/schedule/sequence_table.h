/*
 * All sequences of a worker: one slot for each slot of the frontend's table, a queue of waiting
 * sequences and a list of running ones.
 *
 * Both are in order of arrival, and every running sequence is older than every waiting one:
 * admission takes the head of the queue, and preemption moves the youngest running sequence back to
 * the head. This gives first in, first out without starvation.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_TABLE_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_TABLE_H

#include "worker/schedule/sequence.h"

struct sequence_table;

struct sequence_table *sequence_table_create(uint32_t max_running);
/* Finishes the remaining sequences. */
void sequence_table_destroy(struct sequence_table *table, struct kv_pools *pools);

/* The live sequence of this request; NULL if there is none or its generation has ended. */
struct sequence *sequence_table_find(struct sequence_table *table, struct request_id id);

/* Queues a request at the end and takes ownership of it, also if it fails. RESULT_STALE if its slot
 * is still in use, RESULT_FULL beyond LIMIT_QUEUED_TOKENS or LIMIT_QUEUED_IMAGE_BYTES,
 * RESULT_OUT_OF_MEMORY. */
enum result sequence_table_add(struct sequence_table *table, struct sequence_request *request,
                               uint32_t tokens_max) RESULT_CHECKED;
/* The oldest waiting sequence, or NULL. */
struct sequence *sequence_table_head(const struct sequence_table *table);
/* Moves the head to the running list; after RESULT_OUT_OF_MEMORY it stays the head. */
enum result sequence_table_admit(struct sequence_table *table,
                                 struct kv_pools *pools) RESULT_CHECKED;
/* Moves the youngest running sequence back to the head of the queue. */
void sequence_table_preempt(struct sequence_table *table, struct kv_pools *pools);
/* Ends a waiting or running sequence and frees its slot. */
void sequence_table_remove(struct sequence_table *table, struct sequence *sequence,
                           struct kv_pools *pools);

uint32_t sequence_table_waiting(const struct sequence_table *table);
uint32_t sequence_table_running(const struct sequence_table *table);
/* index 0 is the oldest. */
struct sequence *sequence_table_running_at(const struct sequence_table *table, uint32_t index);

/* Asserts orders, counts and sequence_check() of all running sequences. */
void sequence_table_check(const struct sequence_table *table, const struct kv_pools *pools);

#endif
