/*
 * Drafts of a step: asks the drafter for every decoding stream, lets draft_policy.h choose, and
 * learns from the results.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_DRAFTS_H
#define SHOAL_WORKER_SCHEDULE_STEP_DRAFTS_H

#include "worker/schedule/worker_engine.h"

/* Begins the drafts of the sequences that have a row in the step that is being planned
 * (engine->rows). The step has no prompt rows. Errors: those of the draft model's backend. */
enum result step_drafts_begin(struct worker_engine *engine, const struct step_snapshot *snapshot,
                              struct error_text *error) RESULT_CHECKED;

/* The next draw of the sequence gave `token`, which is not appended yet. `drafted`: drafts of the
 * step before it, all accepted. True if the token equals its draft. */
bool step_drafts_judge(struct worker_engine *engine, struct sequence *sequence, uint32_t drafted,
                       uint32_t token);
/* Records a finished step of decoding streams alone. */
void step_drafts_note_step(struct worker_engine *engine, const struct step_done *done,
                           uint32_t generated_tokens);

#endif
