/*
 * A device that waits for the host between two steps is idle while the host reads tokens, publishes
 * them and plans. So the next step is launched first, based on what is certain about it (every
 * stream advances by one position, with the token that is being drawn), and only then is the
 * previous step waited for.
 *
 * At most one step is under way while another one is planned. An unknown token was therefore drawn
 * by the previous step, and a batch can refer to no other. The contents of steps and the meaning of
 * results are unknown here.
 */
#include "worker/schedule/step_pipeline.h"

#include <stdlib.h>

#include "proto/must.h"
#include "worker/schedule/step_clock.h"

void step_pipeline_init(struct step_pipeline *pipeline, const struct step_pipeline_options *options)
{
    *pipeline = (struct step_pipeline){.options = *options};
    pipeline->depth = options->backend->interface->step_depth(options->backend);
    must(pipeline->depth > 0 && pipeline->depth <= STEP_DEPTH_MAX);
    must(!options->pools || pipeline->depth == 1);
    for (uint32_t i = 0; i < pipeline->depth; i++)
        pipeline->steps[i].builder = step_batch_builder_create(
            &(struct step_batch_limits){.max_rows = options->max_rows,
                                        .max_sequences = options->max_sequences,
                                        .max_logit_rows = options->max_logit_rows,
                                        .group_count = options->group_count,
                                        .vision = options->vision,
                                        .encoder = options->encoder});
    pipeline->results = must_alloc(options->max_logit_rows, sizeof *pipeline->results);
}

void step_pipeline_fini(struct step_pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->depth; i++)
        step_batch_builder_destroy(pipeline->steps[i].builder);
    free(pipeline->results);
    *pipeline = (struct step_pipeline){0};
}

bool step_pipeline_is_empty(const struct step_pipeline *pipeline)
{
    return pipeline->under_way == 0;
}

bool step_pipeline_is_full(const struct step_pipeline *pipeline)
{
    return pipeline->under_way == pipeline->depth;
}

/* The entry after the newest step. */
static struct step_under_way *next_step(struct step_pipeline *pipeline)
{
    must(!step_pipeline_is_full(pipeline));
    return &pipeline->steps[(pipeline->oldest + pipeline->under_way) % pipeline->depth];
}

struct step_batch_builder *step_pipeline_begin(struct step_pipeline *pipeline)
{
    struct step_under_way *step = next_step(pipeline);
    step_batch_builder_clear(step->builder);
    step->began_us = step_clock_us();
    return step->builder;
}

static void add_to_roster(const struct step_pipeline *pipeline,
                          const struct step_batch_builder *builder)
{
    const struct step_batch *batch = step_batch_builder_batch(builder);
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const struct sequence *sequence = step_batch_builder_sequence(builder, i);
        if (sequence)
            frontend_link_roster_add(pipeline->options.link, sequence->request.id.slot);
    }
}

void step_pipeline_publish_roster(const struct step_pipeline *pipeline)
{
    frontend_link_roster_clear(pipeline->options.link);
    for (uint32_t i = 0; i < pipeline->under_way; i++)
        add_to_roster(pipeline, pipeline->steps[(pipeline->oldest + i) % pipeline->depth].builder);
}

enum result step_pipeline_launch(struct step_pipeline *pipeline, uint32_t prompt_rows,
                                 uint64_t patch_work, uint64_t patch_us, struct error_text *error)
{
    struct step_under_way *step = next_step(pipeline);
    const struct step_batch *batch = step_batch_builder_batch(step->builder);
    step->prompt_rows = prompt_rows;
    step->patch_work = patch_work;
    step->patch_us = patch_us;
    add_to_roster(pipeline, step->builder);
    must(!batch->awaits_masks || step_pipeline_masks_follow(pipeline));
    worker_fault_step(&pipeline->options.fault, pipeline->launches++, batch);
    pipeline->under_way++;
    struct backend *backend = pipeline->options.backend;
    if (pipeline->options.ledger)
        kv_ledger_launched(pipeline->options.ledger);
    if (pipeline->options.features)
        feature_ledger_launched(pipeline->options.features);
    return backend->interface->step_launch(backend, batch, error);
}

bool step_pipeline_masks_follow(const struct step_pipeline *pipeline)
{
    return pipeline->options.backend->interface->step_draw != NULL;
}

enum result step_pipeline_draw(struct step_pipeline *pipeline, struct error_text *error)
{
    must(!step_pipeline_is_empty(pipeline));
    uint32_t newest = (pipeline->oldest + pipeline->under_way - 1) % pipeline->depth;
    const struct step_batch *batch = step_batch_builder_batch(pipeline->steps[newest].builder);
    struct backend *backend = pipeline->options.backend;
    must(batch->awaits_masks);
    return backend->interface->step_draw(backend, batch->samplings, error);
}

enum result step_pipeline_wait(struct step_pipeline *pipeline, struct step_done *done,
                               struct error_text *error)
{
    must(!step_pipeline_is_empty(pipeline));
    const struct step_under_way *step = &pipeline->steps[pipeline->oldest];
    /* `results` still holds the results of the previous step. */
    worker_fault_drawn(&pipeline->options.fault, step_batch_builder_batch(step->builder),
                       pipeline->results);
    struct backend *backend = pipeline->options.backend;
    enum result result = backend->interface->step_wait(backend, pipeline->results, error);
    if (result != RESULT_OK)
        return result;
    if (pipeline->options.ledger)
        kv_ledger_finished(pipeline->options.ledger);
    if (pipeline->options.features)
        feature_ledger_finished(pipeline->options.features);
    uint64_t began_us = step->began_us > pipeline->ended_us ? step->began_us : pipeline->ended_us;
    uint64_t gap_us = pipeline->ended_us > 0 ? began_us - pipeline->ended_us : 0;
    pipeline->ended_us = step_clock_us();
    *done = (struct step_done){
        .builder = step->builder,
        .results = pipeline->results,
        .vectors = pipeline->options.pools ? backend->interface->last_logits(backend) : NULL,
        .prompt_rows = step->prompt_rows,
        .patch_work = step->patch_work,
        .patch_us = step->patch_us,
        .time_us = pipeline->ended_us - began_us,
        .gap_us = gap_us};
    pipeline->oldest = (pipeline->oldest + 1) % pipeline->depth;
    pipeline->under_way--;
    return RESULT_OK;
}

uint64_t step_pipeline_unlaunched_us(const struct step_pipeline *pipeline)
{
    uint32_t next = (pipeline->oldest + pipeline->under_way) % pipeline->depth;
    return step_clock_us() - pipeline->steps[next].began_us;
}
