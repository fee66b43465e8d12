/*
 * Chooses how many of its proposed tokens each decoding stream drafts in a step: as many as raise
 * the expected tokens of the step per unit of time. None is an ordinary outcome.
 */
#ifndef SHOAL_WORKER_SCHEDULE_DRAFT_POLICY_H
#define SHOAL_WORKER_SCHEDULE_DRAFT_POLICY_H

#include <stdbool.h>

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
    bool has_rounds;      /* proposals of a draft model are among them, which are paid for */
};

/* counts: [candidate_count] drafts of each candidate. Returns their sum. */
uint32_t draft_policy_choose(const struct draft_pace *pace, const struct draft_request *request,
                             uint32_t *counts);

struct draft_depth_request {
    uint32_t streams;         /* decoding streams of the step */
    uint32_t candidate_count; /* of them, those that the draft model can propose for; > 0 */
    const double *trusts;     /* [candidate_count] as in struct draft_candidate */
    uint32_t most_tokens;     /* per candidate, <= DRAFT_BLOCK_TOKENS */
    bool is_block;       /* one round of 1 + tokens rows a candidate proposes all of its tokens */
    uint32_t first_rows; /* rows of the first round: those it has not computed yet */
    double target_us;
};
/* How many rounds of the draft model, each proposing one more token of all candidates, give the most
 * expected tokens per time. One at least while trials are left after a pause. */
uint32_t draft_policy_depth(const struct draft_pace *pace,
                            const struct draft_depth_request *request);
/* Probability that a draft of the class is accepted in a stream with this trust. */
double draft_policy_acceptance(const struct draft_pace *pace, uint8_t class, double trust);

#endif
