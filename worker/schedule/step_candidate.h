/*
 * What can be said of one candidate of a step: how many rows make sense, and what they take.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_CANDIDATE_H
#define SHOAL_WORKER_SCHEDULE_STEP_CANDIDATE_H

#include "worker/schedule/step_snapshot.h"

/* Rows of one step that it takes at most; 0: none now. */
uint32_t step_candidate_most_rows(const struct step_candidate *candidate);
/* The fewest rows that may be computed at once: one, or the rest of a tile that is not cut. */
uint32_t step_candidate_fewest_rows(const struct step_candidate *candidate);
/* At most `rows`, so that no tile is cut that must not be; 0 when that leaves none. */
uint32_t step_candidate_uncut_rows(const struct step_candidate *candidate, uint32_t rows);
/* New blocks of a group that `rows` more rows take, and how many rows `blocks` new ones are enough
 * for; `opening`: opening_tokens of the group. */
uint32_t step_candidate_blocks(const struct step_candidate *candidate, uint32_t opening,
                               uint32_t rows);
uint32_t step_candidate_rows(const struct step_candidate *candidate, uint32_t opening,
                             uint32_t blocks);

#endif
