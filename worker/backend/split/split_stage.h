/*
 * The stages of a split model: a thread for each device, which computes its layers of one step after
 * the other and passes the step on.
 */
#ifndef SHOAL_WORKER_BACKEND_SPLIT_SPLIT_STAGE_H
#define SHOAL_WORKER_BACKEND_SPLIT_SPLIT_STAGE_H

#include <pthread.h>

#include "worker/backend/host/backend.h"
#include "worker/backend/split/split_step.h"

struct split_stage {
    struct split_pipeline *pipeline;
    uint32_t index;
    struct backend *backend;      /* owned */
    struct plan *plan;            /* its part; owned */
    struct backend_stage options; /* its device and layers */
    struct backend_share share;
    uint64_t done; /* steps that it has computed; under the lock */
    pthread_t thread;
    bool has_thread;
};

/* A step under way. */
struct split_place {
    struct split_step step;
    uint32_t drawn_count;
    struct sampled_token *drawn; /* [max_logit_rows] */
    /* By each stage for the next one: its plan's `passed` tensors, in its backend's memory. */
    const float *passed[LIMIT_SPLIT_DEVICES][PLAN_PASSED_MAX];
};

struct split_pipeline {
    uint32_t stage_count;
    struct split_stage stages[LIMIT_SPLIT_DEVICES];
    struct split_place places[STEP_DEPTH_MAX]; /* step s has place s % STEP_DEPTH_MAX */
    pthread_mutex_t lock;                      /* of the fields below, and of each stage's `done` */
    pthread_cond_t changed;
    bool is_ending;
    uint64_t launched;
    uint64_t waited;
    enum result failure; /* of the first stage that failed; no stage computes after it */
    struct error_text failure_text;
};

/* The stages' backends are loaded. RESULT_OUT_OF_MEMORY. */
enum result split_pipeline_start(struct split_pipeline *pipeline,
                                 const struct backend_options *options,
                                 struct error_text *error) RESULT_CHECKED;
/* Ends the threads; a stage finishes the step that it computes. A zeroed pipeline is allowed. */
void split_pipeline_stop(struct split_pipeline *pipeline);

/* As in backend.h; at most STEP_DEPTH_MAX steps are under way. */
enum result split_pipeline_launch(struct split_pipeline *pipeline, const struct step_batch *batch,
                                  const struct plan *plan, struct error_text *error) RESULT_CHECKED;
enum result split_pipeline_wait(struct split_pipeline *pipeline, struct sampled_token *results,
                                struct error_text *error) RESULT_CHECKED;
/* Waits until stage `index` has computed all launched steps: until the next launch the caller may
 * drive its backend. */
enum result split_pipeline_settle(struct split_pipeline *pipeline, uint32_t index,
                                  struct error_text *error) RESULT_CHECKED;

#endif
