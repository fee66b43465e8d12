/*
 * A turn launches one step of all running sequences and finishes one: the same one on a backend
 * with one step under way at a time, else the one before it. While the host publishes tokens and
 * takes commands, the device computes the next step; requests that arrive meanwhile are in the one
 * after. Each stage is a function; step_planner.c decides what a step contains.
 *
 * A turn first publishes events that the event ring had no room for. Until that succeeds, nothing
 * is taken in and no step is launched or finished, so a frontend that does not read costs a fixed
 * amount of memory. An idle worker sleeps on its doorbell and its heartbeat stands still.
 *
 * A backend's error or a corrupt ring ends the worker: a restart by the supervisor is the only
 * recovery that is known to work.
 */
#include "worker/schedule/step_loop.h"

#include "worker/cache/prefix_cache.h"
#include "worker/schedule/gauge_board.h"
#include "worker/schedule/grammar_masks.h"
#include "worker/schedule/model_drafts.h"
#include "worker/schedule/step_drafts.h"
#include "worker/schedule/step_planner.h"
#include "worker/schedule/step_publisher.h"
#include "worker/schedule/submit_intake.h"

#define ROOM_WAIT_MS 2 /* the event ring's reader rings no bell after making room */

static void publish_gauges(struct worker_engine *engine)
{
    struct prefix_cache_figures prefixes = {0};
    if (engine->pools.prefixes)
        prefixes = prefix_cache_figures(engine->pools.prefixes);
    gauge_board_set_sequences(
        engine->gauges,
        &(struct gauge_load){.running_sequences = sequence_table_running(engine->table),
                             .waiting_sequences = sequence_table_waiting(engine->table),
                             .kv_blocks_used = kv_pools_used(&engine->pools),
                             .kv_blocks_cached = kv_pools_cached(&engine->pools),
                             .prefix_places = prefixes.places,
                             .prefix_evictions = prefixes.evictions});
    trace_board_show_cells(&engine->trace, &engine->pools);
    if (engine->parts.vision) {
        struct feature_cache_figures figures = feature_cache_figures(engine->pools.features);
        gauge_board_set_features(engine->gauges, &figures, engine->parts.feature_row_bytes);
    }
}

/* Counts the rows of the launched step as computed and the tokens after them as drawn; drafted rows
 * count once their tokens are accepted. */
static void advance(struct worker_engine *engine, const struct step_batch_builder *builder)
{
    const struct step_batch *batch = step_batch_builder_batch(builder);
    if (engine->parts.draft_model)
        model_drafts_note_step(engine, builder);
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        struct sequence *sequence = step_batch_builder_sequence(builder, i);
        sequence_advance(sequence, &engine->pools,
                         batch->sequences[i].row_count - sequence->draft.count);
        uint32_t draw = step_batch_builder_result(builder, i);
        if (draw != UINT32_MAX)
            sequence_draw(sequence, draw);
    }
}

/* Encodes a part of the images that are needed next; features completed by it are available to the
 * next planned step. If the previous step deferred rows of images, this step is theirs and nothing
 * is encoded. *encoded: a part was launched, or more is left to encode. */
static enum result encode(struct worker_engine *engine, bool *encoded, struct error_text *error)
{
    uint64_t patch_work;
    *encoded = engine->image_rows_deferred;
    if (engine->image_rows_deferred) {
        engine->image_rows_deferred = false;
        return RESULT_OK;
    }
    enum result result = image_encoder_advance(&engine->encoder, &engine->pace, &patch_work, error);
    *encoded = patch_work > 0 || image_encoder_is_busy(&engine->encoder);
    engine->patch_work += patch_work;
    if (*encoded && engine->pipeline.depth == 1) /* the backend has encoded it within the call */
        engine->patch_us = 1 + step_pipeline_unlaunched_us(&engine->pipeline);
    return result;
}

/* Records the encoding time of a backend that works within the call, if no step follows to count it
 * with. */
static void note_patches_without_step(struct worker_engine *engine)
{
    if (engine->patch_us == 0)
        return;
    step_pace_note(&engine->pace, &(struct step_cost){.patch_work = engine->patch_work,
                                                      .patch_us = engine->patch_us,
                                                      .time_us = engine->patch_us});
    engine->patch_work = engine->patch_us = 0;
}

/* Computes the missing masks while the device computes the step just launched, and begins its draws
 * if they await masks. *masks: how many. */
static enum result follow_with_masks(struct worker_engine *engine,
                                     struct step_batch_builder *builder, uint32_t *masks,
                                     struct error_text *error)
{
    *masks = grammar_masks_compute(engine);
    if (!step_batch_builder_batch(builder)->awaits_masks)
        return RESULT_OK;
    step_batch_builder_add_masks(builder);
    return step_pipeline_draw(&engine->pipeline, error);
}

/* Launches the planned step, which has rows. `masks_follow`: some of its masks may be missing.
 * *ended: a sequence was. */
static enum result launch(struct worker_engine *engine, struct step_batch_builder *builder,
                          uint32_t prompt_rows, bool masks_follow, bool *ended,
                          struct error_text *error)
{
    uint32_t masks = 0;
    enum result result = step_pipeline_launch(&engine->pipeline, prompt_rows, engine->patch_work,
                                              engine->patch_us, error);
    engine->patch_work = engine->patch_us = 0;
    if (result == RESULT_OK && masks_follow)
        result = follow_with_masks(engine, builder, &masks, error);
    if (result != RESULT_OK)
        return result;
    advance(engine, builder);
    *ended = grammar_masks_end(engine, masks) || *ended;
    return RESULT_OK;
}

/* Plans the next step and launches it unless it is empty. *worked: it encoded, or ended a sequence.
 * Drafts follow from masks, so with a drafter all masks come first. */
static enum result launch_step(struct worker_engine *engine, bool *launched, bool *worked,
                               struct error_text *error)
{
    bool masks_follow = step_pipeline_masks_follow(&engine->pipeline) && !engine->parts.drafter;
    bool ended = false;
    if (step_planner_must_read(engine) || engine->adapter_due)
        return RESULT_OK;
    if (!masks_follow)
        ended = grammar_masks_end(engine, grammar_masks_compute(engine));
    struct step_batch_builder *builder = step_pipeline_begin(&engine->pipeline);
    enum result result = encode(engine, worked, error);
    if (result != RESULT_OK)
        return result;
    uint32_t prompt_rows;
    result = step_planner_plan(engine, builder, &prompt_rows, error);
    if (result != RESULT_OK)
        return result;
    *launched = step_batch_builder_batch(builder)->row_count > 0;
    if (*launched)
        result = launch(engine, builder, prompt_rows, masks_follow, &ended, error);
    else
        note_patches_without_step(engine);
    *worked = *worked || ended;
    return result;
}

/* Gives an ahead layer the rows of prompts that the finished step computed. */
static enum result feed_prompts(struct worker_engine *engine, struct error_text *error)
{
    if (!engine->parts.draft_model || !model_drafts_is_ahead(engine))
        return RESULT_OK;
    model_drafts_settle(engine);
    return model_drafts_feed_ahead(engine, false, error);
}

/* Waits for the oldest step under way and publishes its results. */
static enum result finish_step(struct worker_engine *engine, struct error_text *error)
{
    struct step_done done;
    enum result result = step_pipeline_wait(&engine->pipeline, &done, error);
    if (result != RESULT_OK)
        return result;
    const struct step_batch *batch = step_batch_builder_batch(done.builder);
    uint32_t decode_rows = batch->row_count - done.prompt_rows;
    /* Steps with drafts are no measure of streams. */
    if (done.prompt_rows > 0 || decode_rows == batch->sequence_count)
        step_pace_note(&engine->pace, &(struct step_cost){.prompt_rows = done.prompt_rows,
                                                          .decode_rows = decode_rows,
                                                          .patch_work = done.patch_work,
                                                          .patch_us = done.patch_us,
                                                          .time_us = done.time_us});
    uint32_t generated = step_publisher_apply(engine, &done);
    step_drafts_note_step(engine, &done, generated);
    gauge_board_add_step(engine->gauges, &(struct gauge_step){.prompt_rows = done.prompt_rows,
                                                              .generated_tokens = generated,
                                                              .step_time_us = done.time_us});
    const struct model_vision *vision = engine->parts.vision;
    uint64_t patch_rows = vision ? done.patch_work / vision->stages : 0;
    step_trace_add(engine->trace.trace, &(struct traced_step){.decode_rows = decode_rows,
                                                              .prompt_rows = done.prompt_rows,
                                                              .patch_rows = (uint32_t)patch_rows,
                                                              .time_us = done.time_us});
    return feed_prompts(engine, error);
}

/* Launches one step, and finishes one unless another can be launched before. */
static enum result launch_and_finish(struct worker_engine *engine, enum step_outcome *outcome,
                                     struct error_text *error)
{
    bool launched = false;
    bool worked = false;
    enum result result = launch_step(engine, &launched, &worked, error);
    if (result != RESULT_OK)
        return result;
    if (worked)
        *outcome = STEP_WORKED;
    if (step_pipeline_is_empty(&engine->pipeline))
        return RESULT_OK;
    *outcome = STEP_WORKED;
    if (launched && !step_pipeline_is_full(&engine->pipeline))
        return RESULT_OK;
    return finish_step(engine, error);
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
        step_planner_admit(engine);
        result = launch_and_finish(engine, outcome, error);
        if (result != RESULT_OK)
            return result;
        result = frontend_link_flush(engine->parts.link);
        if (result == RESULT_OK && *outcome == STEP_IDLE && engine->draining)
            *outcome = STEP_DRAINED;
    }
    worker_engine_publish_roster(engine);
    publish_gauges(engine);
    if (*outcome != STEP_IDLE)
        gauge_board_beat(engine->gauges);
    if (result == RESULT_CORRUPT)
        return error_set(error, result, "a ring to the frontend is corrupt");
    return RESULT_OK; /* RESULT_FULL: the rest is published in the next turn */
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
            return error_set(error, RESULT_PEER_GONE, "the frontend has exited");
    }
}
