/*
 * Rows and blocks of one candidate of a step: arithmetic that the policies share.
 */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_CANDIDATE_H
#define SHOAL_WORKER_SCHEDULE_STEP_CANDIDATE_H

#include "worker/schedule/step_snapshot.h"

/* Maximum number of rows in one step; 0: none now. */
uint32_t step_candidate_max_rows(const struct step_candidate *candidate);
/* Minimum number of rows that can be computed at once: one, or the rest of a tile that must not be
 * cut. */
uint32_t step_candidate_min_rows(const struct step_candidate *candidate);
/* The largest number of rows, at most `rows`, that cuts no tile that must not be cut; 0 if there is
 * none. */
uint32_t step_candidate_uncut_rows(const struct step_candidate *candidate, uint32_t rows);
/* New blocks of a group for `rows` more rows, and the number of rows for which `blocks` new ones
 * suffice; `opening`: opening_tokens of the group. */
uint32_t step_candidate_blocks(const struct step_candidate *candidate, uint32_t opening,
                               uint32_t rows);
uint32_t step_candidate_rows(const struct step_candidate *candidate, uint32_t opening,
                             uint32_t blocks);

#endif
