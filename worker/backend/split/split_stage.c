/*
 * A stage begins step s when the stage before has computed its part of s. The first stage begins it
 * when it is launched, and if tokens of s are drawn by the step before, when the last stage has drawn
 * them; until then the devices take turns. Otherwise the first stage computes step s + 1 while the
 * last one computes step s.
 *
 * Tensors are passed through the memory of the backend that computed them. It keeps them until it has
 * begun two more steps, and step s + 2 is launched after s was waited for, so they need no copy.
 *
 * A stage's backend computes one step at a time. Its thread waits for the device, as the scheduler's
 * thread does where there is one device, and beats the heartbeat meanwhile.
 */
#include "worker/backend/split/split_stage.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

static struct split_place *place_of(struct split_pipeline *pipeline, uint64_t step)
{
    return &pipeline->places[step % STEP_DEPTH_MAX];
}

static struct split_stage *last_stage(struct split_pipeline *pipeline)
{
    return &pipeline->stages[pipeline->stage_count - 1];
}

/* Under the lock: whether the stage can begin step `step`. */
static bool may_begin(const struct split_stage *stage, uint64_t step)
{
    struct split_pipeline *pipeline = stage->pipeline;
    if (pipeline->launched <= step || pipeline->failure != RESULT_OK)
        return false;
    if (stage->index > 0)
        return pipeline->stages[stage->index - 1].done > step;
    return !place_of(pipeline, step)->step.needs_draws || last_stage(pipeline)->done >= step;
}

/* Computes the stage's part of the step. */
static enum result compute(struct split_stage *stage, uint64_t step, struct error_text *error)
{
    struct split_pipeline *pipeline = stage->pipeline;
    struct split_place *place = place_of(pipeline, step);
    const struct backend_interface *interface = stage->backend->interface;
    bool is_last = stage->index + 1 == pipeline->stage_count;
    if (stage->index == 0 && place->step.needs_draws) {
        const struct split_place *before = place_of(pipeline, step + 1);
        split_step_resolve(&place->step, before->drawn, before->drawn_count);
    }
    struct step_batch batch = place->step.batch;
    if (stage->index > 0) {
        batch.taken = place->passed[stage->index - 1];
        batch.feature_rows = NULL; /* the first stage has added the features */
    }
    enum result result = interface->step_launch(stage->backend, &batch, error);
    if (result == RESULT_OK)
        result = interface->step_wait(stage->backend, is_last ? place->drawn : NULL, error);
    if (is_last)
        place->drawn_count = batch.logit_row_count;
    for (uint32_t i = 0; i < stage->plan->passed_count && result == RESULT_OK; i++)
        place->passed[stage->index][i] = interface->last_passed(stage->backend, i);
    return result;
}

static void *run_stage(void *context)
{
    struct split_stage *stage = context;
    struct split_pipeline *pipeline = stage->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    for (;;) {
        while (!pipeline->is_ending && !may_begin(stage, stage->done))
            pthread_cond_wait(&pipeline->changed, &pipeline->lock);
        if (pipeline->is_ending)
            break;
        uint64_t step = stage->done;
        pthread_mutex_unlock(&pipeline->lock);
        struct error_text error = {""};
        enum result result = compute(stage, step, &error);
        pthread_mutex_lock(&pipeline->lock);
        if (result == RESULT_OK) {
            stage->done++;
        } else if (pipeline->failure == RESULT_OK) {
            pipeline->failure = result;
            pipeline->failure_text = error;
        }
        pthread_cond_broadcast(&pipeline->changed);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return NULL;
}

enum result split_pipeline_start(struct split_pipeline *pipeline,
                                 const struct backend_options *options, struct error_text *error)
{
    for (uint32_t i = 0; i < STEP_DEPTH_MAX; i++) {
        split_step_init(&pipeline->places[i].step, options);
        pipeline->places[i].drawn =
            must_alloc(options->max_logit_rows, sizeof *pipeline->places[i].drawn);
    }
    pthread_mutex_init(&pipeline->lock, NULL);
    pthread_cond_init(&pipeline->changed, NULL);
    for (uint32_t i = 0; i < pipeline->stage_count; i++) {
        struct split_stage *stage = &pipeline->stages[i];
        stage->pipeline = pipeline;
        stage->index = i;
        if (pthread_create(&stage->thread, NULL, run_stage, stage) != 0)
            return error_set(error, RESULT_OUT_OF_MEMORY, "no thread for device %u", i);
        stage->has_thread = true;
    }
    return RESULT_OK;
}

void split_pipeline_stop(struct split_pipeline *pipeline)
{
    if (!pipeline->places[0].drawn)
        return;
    pthread_mutex_lock(&pipeline->lock);
    pipeline->is_ending = true;
    pthread_cond_broadcast(&pipeline->changed);
    pthread_mutex_unlock(&pipeline->lock);
    for (uint32_t i = 0; i < pipeline->stage_count; i++)
        if (pipeline->stages[i].has_thread)
            pthread_join(pipeline->stages[i].thread, NULL);
    pthread_cond_destroy(&pipeline->changed);
    pthread_mutex_destroy(&pipeline->lock);
    for (uint32_t i = 0; i < STEP_DEPTH_MAX; i++) {
        split_step_fini(&pipeline->places[i].step);
        free(pipeline->places[i].drawn);
        pipeline->places[i].drawn = NULL;
    }
}

enum result split_pipeline_launch(struct split_pipeline *pipeline, const struct step_batch *batch,
                                  const struct plan *plan, struct error_text *error)
{
    must(pipeline->launched - pipeline->waited < STEP_DEPTH_MAX);
    struct split_place *place = place_of(pipeline, pipeline->launched);
    enum result result = split_step_copy(&place->step, batch, plan, error);
    if (result != RESULT_OK)
        return result;
    pthread_mutex_lock(&pipeline->lock);
    pipeline->launched++;
    pthread_cond_broadcast(&pipeline->changed);
    pthread_mutex_unlock(&pipeline->lock);
    return RESULT_OK;
}

/* Waits until the stage has computed `steps` steps. */
static enum result wait_for(struct split_pipeline *pipeline, const struct split_stage *stage,
                            uint64_t steps, struct error_text *error)
{
    pthread_mutex_lock(&pipeline->lock);
    while (stage->done < steps && pipeline->failure == RESULT_OK)
        pthread_cond_wait(&pipeline->changed, &pipeline->lock);
    enum result result = stage->done < steps ? pipeline->failure : RESULT_OK;
    if (result != RESULT_OK)
        result = error_set(error, result, "%s", pipeline->failure_text.text);
    pthread_mutex_unlock(&pipeline->lock);
    return result;
}

enum result split_pipeline_wait(struct split_pipeline *pipeline, struct sampled_token *results,
                                struct error_text *error)
{
    must(pipeline->launched > pipeline->waited);
    const struct split_place *place = place_of(pipeline, pipeline->waited);
    enum result result = wait_for(pipeline, last_stage(pipeline), pipeline->waited + 1, error);
    if (result != RESULT_OK)
        return result;
    pipeline->waited++;
    if (place->drawn_count > 0) /* `results` may be NULL otherwise */
        memcpy(results, place->drawn, place->drawn_count * sizeof *results);
    return RESULT_OK;
}

enum result split_pipeline_settle(struct split_pipeline *pipeline, uint32_t index,
                                  struct error_text *error)
{
    must(index < pipeline->stage_count);
    return wait_for(pipeline, &pipeline->stages[index], pipeline->launched, error);
}
