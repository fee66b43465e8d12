/*
 * Sequences with the same grammar share caches, so they are computed one after the other; families
 * of equal grammars are dealt to the threads. A mask stays valid until its sequence has another
 * token: a sequence that waits for its prompt to be computed costs nothing.
 */
#include "worker/schedule/grammar_masks.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "worker/backend/host/thread_pool.h"
#include "worker/schedule/gauge_board.h"
#include "worker/schedule/step_clock.h"

/* Sequences sorted by family. */
struct mask_job {
    struct sequence **sequences; /* [count] */
    uint32_t count;
    _Atomic uint32_t next; /* first sequence of the next family */
};

static int compare_families(const void *a, const void *b)
{
    uint64_t left = (*(struct sequence *const *)a)->request.grammar.family;
    uint64_t right = (*(struct sequence *const *)b)->request.grammar.family;
    return left < right ? -1 : left > right;
}

/* The end of the family that begins at `first`. */
static uint32_t family_end(const struct mask_job *job, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < job->count && compare_families(&job->sequences[first], &job->sequences[end]) == 0)
        end++;
    return end;
}

static void compute_families(void *context, uint32_t thread)
{
    (void)thread;
    struct mask_job *job = context;
    uint32_t first = atomic_load_explicit(&job->next, memory_order_relaxed);
    while (first < job->count) {
        uint32_t end = family_end(job, first);
        if (!atomic_compare_exchange_weak_explicit(&job->next, &first, end, memory_order_relaxed,
                                                   memory_order_relaxed))
            continue;
        for (uint32_t i = first; i < end; i++)
            sequence_compute_mask(job->sequences[i]);
        first = atomic_load_explicit(&job->next, memory_order_relaxed);
    }
}

static void compute(struct worker_engine *engine, struct mask_job *job)
{
    uint64_t began_us = step_clock_us();
    qsort(job->sequences, job->count, sizeof(struct sequence *), compare_families);
    if (engine->parts.helpers && family_end(job, 0) < job->count)
        thread_pool_run(engine->parts.helpers, compute_families, job);
    else
        compute_families(job, 0);
    gauge_board_add_masks(engine->gauges, job->count, step_clock_us() - began_us);
}

static void end(struct worker_engine *engine, struct sequence *sequence)
{
    struct request_id id = sequence->request.id;
    const struct sequence_grammar grammar = sequence->request.grammar;
    sequence_table_remove(engine->table, sequence, &engine->pools);
    if (grammar.verdict == GRAMMAR_IS_COMPLETE) {
        frontend_link_emit_finished(engine->parts.link, id, FINISH_GRAMMAR);
        return;
    }
    gauge_board_add_grammar_failure(engine->gauges);
    frontend_link_emit_failed(engine->parts.link, id, grammar.failure);
}

uint32_t grammar_masks_compute(struct worker_engine *engine)
{
    struct mask_job job = {.sequences = engine->masked};
    for (uint32_t i = 0; i < sequence_table_running(engine->table); i++) {
        struct sequence *sequence = sequence_table_running_at(engine->table, i);
        if (sequence_wants_mask(sequence) && !sequence->request.grammar.has_mask)
            job.sequences[job.count++] = sequence;
    }
    if (job.count > 0)
        compute(engine, &job);
    return job.count;
}

bool grammar_masks_end(struct worker_engine *engine, uint32_t count)
{
    bool ended = false;
    for (uint32_t i = 0; i < count; i++) {
        if (engine->masked[i]->request.grammar.verdict == GRAMMAR_GOES_ON)
            continue;
        end(engine, engine->masked[i]);
        ended = true;
    }
    return ended;
}

bool grammar_masks_is_complete(struct worker_engine *engine, struct sequence *sequence)
{
    if (!sequence_wants_mask(sequence))
        return false;
    struct sequence *one[1] = {sequence};
    if (!sequence->request.grammar.has_mask)
        compute(engine, &(struct mask_job){.sequences = one, .count = 1});
    return sequence->request.grammar.verdict == GRAMMAR_IS_COMPLETE;
}
