/*
 * Applies the decisions of the policies, which see snapshots (engine_snapshot.h).
 *
 * While a step is under way, the next one is planned from what is certain: streams whose last token
 * is being drawn get no row, all others advance by one. Two cases wait until the step is read:
 *
 *   preemption        the tokens may end streams and so free the missing blocks
 *   dependent draws   a row's sampling needs the unread token on the host: penalties on a backend
 *                     that does not count by itself, filters that the backend leaves to the host, a
 *                     token that may spend a thinking budget
 *
 * In the second case all rows wait. Leaving out only those rows would split the streams into two
 * halves that alternate, and each step would read all weights for half of the rows. Where several
 * devices share the layers, streams do alternate (step_snapshot.h), and none has to wait.
 */
#include "worker/schedule/step_planner.h"

#include "worker/schedule/engine_snapshot.h"
#include "worker/schedule/gauge_board.h"
#include "worker/schedule/model_drafts.h"
#include "worker/schedule/preemption_policy.h"
#include "worker/schedule/sequence_prefix.h"
#include "worker/schedule/step_drafts.h"
#include "worker/schedule/step_policy.h"

/* Whether the head of the queue may start. The blocks it would share are looked up only if they
 * matter. */
static bool admits(struct worker_engine *engine, struct sequence *head,
                   struct admission_snapshot *snapshot)
{
    engine_snapshot_want(engine, head, 0, snapshot);
    if (admission_policy_admits(snapshot))
        return true;
    if (snapshot->running_sequences == snapshot->max_sequences)
        return false;
    engine_snapshot_want(engine, head, sequence_prefix_shared(head, &engine->pools), snapshot);
    return admission_policy_admits(snapshot);
}

void step_planner_admit(struct worker_engine *engine)
{
    struct sequence *head = sequence_table_head(engine->table);
    if (!head)
        return;
    struct admission_snapshot snapshot = engine_snapshot_admission(engine);
    for (; head; head = sequence_table_head(engine->table)) {
        if (!admits(engine, head, &snapshot))
            return;
        if (sequence_table_admit(engine->table, &engine->pools) != RESULT_OK) {
            frontend_link_emit_failed(engine->parts.link, head->request.id, RESULT_OUT_OF_MEMORY);
            sequence_table_remove(engine->table, head, &engine->pools);
            return;
        }
        gauge_board_add_lookup(engine->gauges, head->known_tokens, head->computed_tokens);
        snapshot.running_sequences++;
        for (uint32_t group = 0; group < snapshot.group_count; group++)
            snapshot.promised_blocks[group] += snapshot.wanted_blocks[group];
    }
}

/* Streams that get a row in this step or the next one. */
static uint32_t count_decodes(const struct worker_engine *engine)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sequence_table_running(engine->table); i++) {
        const struct sequence *sequence = sequence_table_running_at(engine->table, i);
        count += sequence->state == SEQUENCE_DECODE && !sequence_draws_last(sequence);
    }
    return count;
}

bool step_planner_must_read(const struct worker_engine *engine)
{
    if (step_pipeline_is_empty(&engine->pipeline))
        return false;
    const struct backend *backend = engine->parts.backend;
    bool others_decode = engine->parts.halves && count_decodes(engine) > 1;
    for (uint32_t i = 0; i < sequence_table_running(engine->table); i++) {
        const struct sequence *sequence = sequence_table_running_at(engine->table, i);
        if (sequence->drawn_tokens == 0 || sequence_draws_last(sequence) || others_decode)
            continue;
        struct row_sampling sampling;
        if (sequence_next_draw(sequence, &sampling) == SEQUENCE_DRAW_UNKNOWN ||
            !backend->interface->draws_ahead(backend, &sampling))
            return true;
    }
    return false;
}

/* Whether the next prompt has images and its rows got no time because of encoding. */
static bool image_rows_deferred(const struct step_snapshot *snapshot, const uint32_t *rows)
{
    uint32_t next = 0;
    while (next < snapshot->candidate_count && snapshot->candidates[next].decoding)
        next++;
    return next < snapshot->candidate_count && snapshot->candidates[next].has_images &&
           snapshot->candidates[next].max_rows > 0 && rows[next] == 0 &&
           snapshot->image_prefill_tokens == 0;
}

/* Gives a draft model its rows of sequences, and begins drafts if the step has decoding streams
 * alone. */
static enum result plan_drafts(struct worker_engine *engine, const struct step_snapshot *snapshot,
                               uint32_t prompt_rows, struct error_text *error)
{
    enum result result = RESULT_OK;
    bool drafts = engine->parts.draft_model != NULL;
    bool is_ahead = drafts && model_drafts_is_ahead(engine);
    bool is_block = drafts && model_drafts_is_block(engine);
    if (drafts)
        model_drafts_settle(engine);
    if (drafts && !is_ahead)
        result = model_drafts_feed(engine, engine->model_drafts.prompt_rows, error);
    if (is_block)
        result = model_drafts_feed_ahead(engine, true, error);
    if (result == RESULT_OK && engine->parts.drafter && prompt_rows == 0 && engine->patch_work == 0)
        result = step_drafts_begin(engine, snapshot, error);
    if (result == RESULT_OK && is_ahead && !is_block)
        result = model_drafts_feed_ahead(engine, true, error);
    return result;
}

enum result step_planner_plan(struct worker_engine *engine, struct step_batch_builder *builder,
                              uint32_t *prompt_rows, struct error_text *error)
{
    *prompt_rows = 0;
    bool ahead = !step_pipeline_is_empty(&engine->pipeline);
    struct step_snapshot snapshot = engine_snapshot_step(engine);
    /* Blocks shared between preempted and surviving sequences do not become free, so the policy is
     * asked again. */
    for (uint32_t survivors = preemption_policy_survivors(&snapshot);
         survivors < snapshot.candidate_count; survivors = preemption_policy_survivors(&snapshot)) {
        if (ahead)
            return RESULT_OK;
        while (sequence_table_running(engine->table) > survivors) {
            sequence_table_preempt(engine->table, &engine->pools);
            gauge_board_add_preemption(engine->gauges);
        }
        snapshot = engine_snapshot_step(engine);
    }
    step_policy_compose(&snapshot, engine->rows);
    engine->image_rows_deferred = image_rows_deferred(&snapshot, engine->rows);
    for (uint32_t i = 0; i < snapshot.candidate_count; i++)
        *prompt_rows += snapshot.candidates[i].decoding ? 0 : engine->rows[i];
    enum result result = plan_drafts(engine, &snapshot, *prompt_rows, error);
    if (result != RESULT_OK)
        return result;
    for (uint32_t i = 0; i < snapshot.candidate_count; i++) {
        if (engine->rows[i] == 0)
            continue;
        struct sequence *sequence = sequence_table_running_at(engine->table, i);
        sequence_take_blocks(sequence, &engine->pools, engine->rows[i] + sequence->draft.count);
        step_batch_builder_add(builder, sequence, &engine->pools, engine->rows[i]);
    }
    return RESULT_OK;
}
