/*
 * Log-probabilities of prompt tokens ("Scores" in proto/run_params.h).
 *
 * The row at position p gives the log-probability of token p + 1, as a draw that is forced to this
 * token. So a scored row costs a logit row of its step, and a prompt's chunk is bounded by the logit
 * rows that no other sequence may need. A score is published once: a preempted sequence computes its
 * rows again and publishes what is missing.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_SCORE_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_SCORE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/schedule/sequence_facts.h"

/* Whether prompt tokens are still without their log-probability. */
bool sequence_score_is_open(const struct sequence *sequence);
/* The first row of the rows [computed_tokens, computed_tokens + rows) that is scored, and their
 * number: consecutive ones; 0: none. */
uint32_t sequence_score_rows(const struct sequence *sequence, uint32_t rows, uint32_t *first);
/* Maximum rows of its next chunk if `logit_rows` logit rows are left for it, > 0; UINT32_MAX: no limit. */
uint32_t sequence_score_most_rows(const struct sequence *sequence, uint32_t logit_rows);
/* The draw that gives the log-probability of the prompt token at `position`. */
struct row_sampling sequence_score_draw(const struct sequence *sequence, uint32_t position);

#endif
