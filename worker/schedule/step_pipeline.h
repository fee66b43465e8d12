/*
 * The steps under way: launched on the backend, in order, and not yet waited for. At most as many
 * as the backend takes (backend.h); with a depth of 1 each is waited for before the next one.
 *
 * For each one it keeps what must outlive the launch: the batch with its owners, and since when the
 * device can be at it. The roster names the requests of all of them.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_PIPELINE_H
#define SHOAL_WORKER_SCHEDULE_STEP_PIPELINE_H

#include "worker/backend/host/backend.h"
#include "worker/schedule/frontend_link.h"
#include "worker/schedule/step_batch_builder.h"
#include "worker/schedule/worker_fault.h"

struct step_pipeline_options {
    struct frontend_link *link; /* outlives the pipeline, as the backend does */
    struct backend *backend;    /* loaded */
    struct worker_fault fault;
    uint32_t max_rows;
    uint32_t max_sequences;
    uint32_t group_count;
    const struct model_vision *vision; /* NULL: no sequence has pictures */
};

struct step_under_way {
    struct step_batch_builder *builder;
    uint32_t prompt_rows;
    uint64_t patch_work;
    uint64_t patch_us;
    uint64_t began_us; /* when what belongs to it could be under way at the earliest */
};

struct step_pipeline {
    struct step_pipeline_options options;
    uint32_t depth;
    uint32_t under_way;
    uint32_t oldest;                             /* index into steps, a ring */
    struct step_under_way steps[STEP_DEPTH_MAX]; /* [depth] */
    struct sampled_token *results;               /* [max_sequences] of the step waited for last */
    uint64_t ended_us;                           /* when that was */
    uint64_t launches;                           /* in this life */
};

void step_pipeline_init(struct step_pipeline *pipeline,
                        const struct step_pipeline_options *options);
/* Steps under way are forgotten: the backend ends them. */
void step_pipeline_fini(struct step_pipeline *pipeline);

bool step_pipeline_is_empty(const struct step_pipeline *pipeline);
bool step_pipeline_is_full(const struct step_pipeline *pipeline);

/* An empty batch for the next step, to be built and launched; there is room for it. What the
 * backend is given from here on counts as the step's time. */
struct step_batch_builder *step_pipeline_begin(struct step_pipeline *pipeline);
/* Launches what was built. `prompt_rows`: how many of its rows are prompts'; `patch_work`: what was
 * encoded of pictures since the step before was launched, and `patch_us`: in what time, where that
 * is known (step_pace.h). */
enum result step_pipeline_launch(struct step_pipeline *pipeline, uint32_t prompt_rows,
                                 uint64_t patch_work, uint64_t patch_us,
                                 struct error_text *error) RESULT_CHECKED;

struct step_done {
    struct step_batch_builder *builder;  /* until the next begin */
    const struct sampled_token *results; /* [logit rows of its batch] until the next wait */
    uint32_t prompt_rows;
    uint64_t patch_work;
    uint64_t patch_us;
    uint64_t time_us; /* that the device had for it: since the step before was done */
};
/* Waits for the oldest step under way. */
enum result step_pipeline_wait(struct step_pipeline *pipeline, struct step_done *done,
                               struct error_text *error) RESULT_CHECKED;

/* Since the last begin, which nothing was launched for yet. */
uint64_t step_pipeline_lone_us(const struct step_pipeline *pipeline);

/* Makes the roster say whose rows are under way, and nothing else. */
void step_pipeline_publish_roster(const struct step_pipeline *pipeline);

#endif
