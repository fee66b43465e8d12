/*
 * One step on the team of threads: the plan is walked in phases, and in each phase every thread
 * does its share of the phase's ops. A vision plan is walked in parts: some of its ops over some of
 * the patch rows of a batch of images.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_CPU_WALK_H
#define SHOAL_WORKER_BACKEND_CPU_CPU_WALK_H

#include "worker/backend/cpu/program/cpu_step.h"

/* Buffers for steps of this program. */
enum result cpu_walk_init(struct cpu_step *step, const struct cpu_program *program,
                          struct cpu_thread_pool *pool, struct error_text *error) RESULT_CHECKED;
void cpu_walk_fini(struct cpu_step *step);

/* Runs the plan over the batch and draws the wanted tokens: results [logit_row_count]. `before`
 * [before_count]: what the step before drew, for tokens that are STEP_TOKEN_SAMPLED. */
void cpu_walk_run(struct cpu_step *step, const struct step_batch *batch,
                  const struct sampled_token *before, uint32_t before_count,
                  struct sampled_token *results);

/* Runs ops [first_op, end_op) of a vision plan over a part of the patches. With op 0 the
 * part's rows of the tables of rotations are made. patch_attention is the first op that is run or
 * the only one: it reads other rows than the part's, which must be done, and their keys written. */
void cpu_walk_run_part(struct cpu_step *step, uint32_t first_op, uint32_t end_op,
                       const struct patch_part *part);

#endif
