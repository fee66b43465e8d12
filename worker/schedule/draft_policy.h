/*
 * Chooses how many of its proposed tokens each decoding stream drafts in a step: as many as raise
 * the expected tokens of the step per unit of time. None is an ordinary outcome.
 */
#ifndef SHOAL_WORKER_SCHEDULE_DRAFT_POLICY_H
#define SHOAL_WORKER_SCHEDULE_DRAFT_POLICY_H

#include "worker/schedule/draft_pace.h"

struct draft_candidate {
    const struct draft_proposal *proposal;
    double trust; /* how often its drafts were accepted, relative to the expected share */
};

struct draft_request {
    uint32_t streams; /* decoding streams of the step, candidates or not; > 0 */
    uint32_t candidate_count;
    const struct draft_candidate *candidates;
    uint32_t most_drafts; /* of the step */
    double target_us;     /* beside other streams, time of the step at most */
};

/* counts: [candidate_count] drafts of each candidate. Returns their sum. */
uint32_t draft_policy_choose(const struct draft_pace *pace, const struct draft_request *request,
                             uint32_t *counts);
/* Probability that a draft of the class is accepted in a stream with this trust. */
double draft_policy_acceptance(const struct draft_pace *pace, uint8_t class, double trust);

#endif
