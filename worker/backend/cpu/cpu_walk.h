/*
 * One step on the team of threads: the plan is walked in phases, and in each phase every thread
 * does its share of the phase's ops. A vision plan is walked in parts: some of its ops over some of
 * the patch rows of a batch of images.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_CPU_WALK_H
#define SHOAL_WORKER_BACKEND_CPU_CPU_WALK_H

#include "worker/backend/cpu/program/cpu_step.h"

/* Allocates buffers for steps of this program. */
enum result cpu_walk_init(struct cpu_step *step, const struct cpu_program *program,
                          struct thread_pool *pool, struct error_text *error) RESULT_CHECKED;
void cpu_walk_fini(struct cpu_step *step);

/* Runs the plan over the batch and samples tokens: results [logit_row_count]. `before`
 * [before_count]: tokens sampled by the previous step, for ids that are STEP_TOKEN_SAMPLED. */
void cpu_walk_run(struct cpu_step *step, const struct step_batch *batch,
                  const struct sampled_token *before, uint32_t before_count,
                  struct sampled_token *results);

/* Runs ops [first_op, end_op) of a vision plan over a part of the patches. If
 * first_op is 0, also fills the part's rows of the rope tables. patch_attention must be the first
 * op or the only one: it reads rows outside the part, which must be finished, keys included. */
void cpu_walk_run_part(struct cpu_step *step, uint32_t first_op, uint32_t end_op,
                       const struct patch_part *part);

#endif
