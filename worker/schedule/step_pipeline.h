/*
 * The steps under way: launched on the backend in order, and not yet waited for. At most as many as
 * the backend takes (backend.h); with a depth of 1 each step is waited for before the next one is
 * launched.
 *
 * Each step keeps what must outlive the launch: its batch with the owners, and the earliest time at
 * which the device could start it. The roster lists the requests of all steps under way.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_PIPELINE_H
#define SHOAL_WORKER_SCHEDULE_STEP_PIPELINE_H

#include "worker/backend/host/backend.h"
#include "worker/cache/feature_ledger.h"
#include "worker/cache/kv_ledger.h"
#include "worker/schedule/frontend_link.h"
#include "worker/schedule/step_batch_builder.h"
#include "worker/schedule/worker_fault.h"

struct step_pipeline_options {
    struct frontend_link *link; /* outlives the pipeline, like the backend */
    struct backend *backend;    /* loaded */
    struct worker_fault fault;
    uint32_t max_rows;
    uint32_t max_sequences;
    uint32_t max_logit_rows;
    uint32_t group_count;
    bool encoder;                      /* as in struct step_batch_limits */
    const struct model_vision *vision; /* NULL: no sequence has images */
    struct kv_ledger *ledger;          /* is told of each step; NULL: none */
    struct feature_ledger *features;   /* likewise */
    bool pools;                        /* the plan does; the backend has one step under way */
};

struct step_under_way {
    struct step_batch_builder *builder;
    uint32_t prompt_rows;
    uint64_t patch_work;
    uint64_t patch_us;
    uint64_t began_us; /* earliest time at which the device could start it */
};

struct step_pipeline {
    struct step_pipeline_options options;
    uint32_t depth;
    uint32_t under_way;
    uint32_t oldest;                             /* index into steps, which is a ring */
    struct step_under_way steps[STEP_DEPTH_MAX]; /* [depth] */
    struct sampled_token *results;               /* [max_logit_rows] of the last step waited for */
    uint64_t ended_us;                           /* when that wait ended */
    uint64_t launches;                           /* of this worker process */
};

void step_pipeline_init(struct step_pipeline *pipeline,
                        const struct step_pipeline_options *options);
/* Drops the steps under way; the backend ends them. */
void step_pipeline_fini(struct step_pipeline *pipeline);

bool step_pipeline_is_empty(const struct step_pipeline *pipeline);
bool step_pipeline_is_full(const struct step_pipeline *pipeline);

/* An empty batch for the next step; the pipeline must not be full. Work given to the backend from
 * here on counts as this step's time. */
struct step_batch_builder *step_pipeline_begin(struct step_pipeline *pipeline);
/* Launches the batch. `prompt_rows`: rows of prompts among its rows; `patch_work`: encoding
 * launched since the previous step, and `patch_us`: its time if known (step_pace.h). */
enum result step_pipeline_launch(struct step_pipeline *pipeline, uint32_t prompt_rows,
                                 uint64_t patch_work, uint64_t patch_us,
                                 struct error_text *error) RESULT_CHECKED;

/* Whether the backend begins the rows of a step before the masks of its draws are known. */
bool step_pipeline_masks_follow(const struct step_pipeline *pipeline);
/* Begins the draws of the step launched last, whose batch awaited masks and has them now. */
enum result step_pipeline_draw(struct step_pipeline *pipeline,
                               struct error_text *error) RESULT_CHECKED;

struct step_done {
    struct step_batch_builder *builder;  /* valid until the next begin */
    const struct sampled_token *results; /* [logit rows of its batch] valid until the next wait */
    const float *vectors; /* [logit rows, plan_logit_columns()] if the plan pools; likewise */
    uint32_t prompt_rows;
    uint64_t patch_work;
    uint64_t patch_us;
    uint64_t time_us; /* time the device had for it: since the previous step ended */
    uint64_t gap_us;  /* between the previous step's end and its launch; 0 if they overlap */
};
/* Waits for the oldest step under way. */
enum result step_pipeline_wait(struct step_pipeline *pipeline, struct step_done *done,
                               struct error_text *error) RESULT_CHECKED;

/* Time since the last begin, if nothing was launched for it yet. */
uint64_t step_pipeline_unlaunched_us(const struct step_pipeline *pipeline);

/* Replaces the roster by the requests whose rows are under way. */
void step_pipeline_publish_roster(const struct step_pipeline *pipeline);

#endif
