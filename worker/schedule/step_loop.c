/*
 * One turn is one step of all running sequences together. Each stage is a function; decisions are
 * the policies', made on snapshots that are copied out here, and applied here.
 *
 * A turn first sends off what the event ring had no room for. Until that is done nothing is taken
 * in and no step is run, so that a frontend that does not read costs a fixed amount of memory. An
 * idle worker sleeps on its doorbell, and its heartbeat stands still: nobody waits for it.
 *
 * Refuses to go on after a backend's error or a corrupt ring: the supervisor starts a fresh worker,
 * which is the one repair that is known to work.
 */
#include "worker/schedule/step_loop.h"

#include <time.h>

#include "proto/must.h"
#include "worker/schedule/engine_snapshot.h"
#include "worker/schedule/gauge_board.h"
#include "worker/schedule/preemption_policy.h"
#include "worker/schedule/step_policy.h"
#include "worker/schedule/step_publisher.h"
#include "worker/schedule/submit_intake.h"

#define ROOM_WAIT_MS 2 /* the event ring's reader rings no bell when it has made room */

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void admit(struct worker_engine *engine)
{
    struct sequence *head = sequence_table_head(engine->table);
    if (!head)
        return;
    struct admission_snapshot snapshot = engine_snapshot_admission(engine);
    for (; head; head = sequence_table_head(engine->table)) {
        engine_snapshot_want(engine, head, &snapshot);
        if (!admission_policy_admits(&snapshot))
            return;
        if (sequence_table_admit(engine->table, snapshot.group_count) != RESULT_OK) {
            frontend_link_emit_failed(engine->parts.link, head->request.id, RESULT_OUT_OF_MEMORY);
            sequence_table_remove(engine->table, head, &engine->pools);
            return;
        }
        snapshot.running_sequences++;
        for (uint32_t group = 0; group < snapshot.group_count; group++)
            snapshot.promised_blocks[group] += snapshot.wanted_blocks[group];
    }
}

/* Preempts, composes and builds the step. Returns its prompt rows; none at all leaves it empty. */
static uint32_t plan(struct worker_engine *engine)
{
    step_batch_builder_clear(engine->builder);
    struct step_snapshot snapshot = engine_snapshot_step(engine);
    uint32_t survivors = preemption_policy_survivors(&snapshot);
    if (survivors < snapshot.candidate_count) {
        while (sequence_table_running(engine->table) > survivors) {
            sequence_table_preempt(engine->table, &engine->pools);
            gauge_board_add_preemption(engine->gauges);
        }
        snapshot = engine_snapshot_step(engine);
    }
    step_policy_compose(&snapshot, engine->rows);
    uint32_t prompt_rows = 0;
    for (uint32_t i = 0; i < snapshot.candidate_count; i++) {
        if (engine->rows[i] == 0)
            continue;
        struct sequence *sequence = sequence_table_running_at(engine->table, i);
        sequence_take_blocks(sequence, &engine->pools, engine->rows[i]);
        step_batch_builder_add(engine->builder, sequence, engine->rows[i]);
        prompt_rows += snapshot.candidates[i].decoding ? 0 : engine->rows[i];
    }
    return prompt_rows;
}

static void show(struct worker_engine *engine)
{
    gauge_board_set_sequences(
        engine->gauges,
        &(struct gauge_load){.running_sequences = sequence_table_running(engine->table),
                             .waiting_sequences = sequence_table_waiting(engine->table),
                             .kv_blocks_used = kv_pools_used(&engine->pools)});
}

/* Says whose rows are in the step, until its events are out. */
static void call_roll(struct worker_engine *engine)
{
    const struct step_batch *batch = step_batch_builder_batch(engine->builder);
    for (uint32_t i = 0; i < batch->sequence_count; i++)
        frontend_link_roster_add(engine->parts.link,
                                 step_batch_builder_sequence(engine->builder, i)->request.id.slot);
}

/* Runs the built step and tells its results. */
static enum result run_step(struct worker_engine *engine, uint32_t prompt_rows,
                            struct error_text *error)
{
    uint64_t began_us = now_us();
    call_roll(engine);
    worker_fault_step(&engine->parts.fault, engine->steps++,
                      step_batch_builder_batch(engine->builder));
    struct backend *backend = engine->parts.backend;
    enum result result = backend_step_run(backend, step_batch_builder_batch(engine->builder),
                                          engine->results, error);
    if (result != RESULT_OK)
        return result;
    uint64_t step_time_us = now_us() - began_us;
    uint32_t rows = step_batch_builder_batch(engine->builder)->row_count;
    step_pace_note(&engine->pace, prompt_rows, rows - prompt_rows, step_time_us);
    uint32_t generated = step_publisher_apply(engine, step_time_us);
    gauge_board_add_step(engine->gauges, &(struct gauge_step){.prompt_rows = prompt_rows,
                                                              .generated_tokens = generated,
                                                              .step_time_us = step_time_us});
    return RESULT_OK;
}

enum result step_loop_turn(struct worker_engine *engine, enum step_outcome *outcome,
                           struct error_text *error)
{
    *outcome = STEP_BLOCKED;
    enum result result = frontend_link_flush(engine->parts.link);
    if (result == RESULT_OK) {
        *outcome = STEP_IDLE;
        result = submit_intake_drain(engine);
    }
    if (result == RESULT_OK) {
        admit(engine);
        uint32_t prompt_rows = plan(engine);
        if (step_batch_builder_batch(engine->builder)->row_count > 0) {
            *outcome = STEP_WORKED;
            result = run_step(engine, prompt_rows, error);
            if (result != RESULT_OK)
                return result;
        }
        result = frontend_link_flush(engine->parts.link);
        if (result == RESULT_OK && *outcome == STEP_IDLE && engine->draining)
            *outcome = STEP_DRAINED;
    }
    frontend_link_roster_clear(engine->parts.link);
    show(engine);
    if (*outcome != STEP_IDLE)
        gauge_board_beat(engine->gauges);
    if (result == RESULT_CORRUPT)
        return error_set(error, result, "the frontend broke a ring's rules");
    return RESULT_OK; /* RESULT_FULL: the rest goes out at the next turn */
}

enum result step_loop_run(struct worker_engine *engine, struct error_text *error)
{
    for (;;) {
        enum step_outcome outcome;
        enum result result = step_loop_turn(engine, &outcome, error);
        if (result != RESULT_OK)
            return result;
        bool gone = false;
        if (outcome == STEP_DRAINED)
            return RESULT_OK;
        if (outcome == STEP_IDLE)
            gone = frontend_link_sleep(engine->parts.link);
        else if (outcome == STEP_BLOCKED)
            gone = frontend_link_sleep_for_room(engine->parts.link, ROOM_WAIT_MS);
        if (gone)
            return error_set(error, RESULT_PEER_GONE, "the frontend is gone");
    }
}
