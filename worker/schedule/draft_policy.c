/*
 * A draft gives a token if it and all drafts before it are accepted: its survival is the product of
 * their acceptances. Drafts are added in descending order of survival, whatever stream they belong
 * to, and the number of drafts with the most expected tokens per time is taken:
 *
 *     (streams + sum of survivals) / time of a step of (streams + drafts) rows
 *
 * Times grow in stairs, so all numbers are compared, not only up to the first that is worse.
 *
 * Streams without drafts only wait longer for the others' drafts. So if there are any, the step may
 * take at most a quarter longer than without drafts; with several streams it must also stay within
 * the target for inter-token latency.
 *
 * A draft model's proposals cost time before they are known, so the number of its rounds is chosen
 * first, from the share of its tokens that was accepted before:
 *
 *     (streams + sum over candidates and rounds r of acceptance^r) / (time of the step + rounds)
 *
 * A drafter of blocks proposes r tokens by one round of 1 + r rows.
 */
#include "worker/schedule/draft_policy.h"

#include "proto/must.h"
#include "worker/draft/draft_model.h"

#define MIN_GAIN       1.03 /* of expected tokens per time; measurements are not exact */
#define MAX_DELAY      1.25 /* of a step, if it has streams without drafts */
#define ACCEPTANCE_MAX 0.99

static double least(double a, double b)
{
    return a < b ? a : b;
}

double draft_policy_acceptance(const struct draft_pace *pace, uint8_t class, double trust)
{
    if (class == DRAFT_CLASS_CERTAIN)
        return 1.0;
    double acceptance = draft_pace_acceptance(pace, class) * trust;
    return acceptance < ACCEPTANCE_MAX ? acceptance : ACCEPTANCE_MAX;
}

/* A draft of one candidate that is considered next. */
struct draft_front {
    uint32_t count;  /* drafts taken */
    double survival; /* of the next one; 0: it has no more */
};

/* Survival of the candidate's next draft, after one that survives with `before`. */
static double next_survival(const struct draft_pace *pace, const struct draft_candidate *candidate,
                            uint32_t count, double before)
{
    const struct draft_proposal *proposal = candidate->proposal;
    if (count == proposal->count)
        return 0.0;
    return before * draft_policy_acceptance(pace, proposal->classes[count], candidate->trust);
}

/* The likelier one first; of equal ones, that of the stream with fewer drafts. */
static bool is_better(const struct draft_front *one, const struct draft_front *other)
{
    return one->survival > other->survival ||
           (one->survival >= other->survival && one->count < other->count);
}

uint32_t draft_policy_choose(const struct draft_pace *pace, const struct draft_request *request,
                             uint32_t *counts)
{
    struct draft_front fronts[LIMIT_SEQUENCES];
    uint32_t order[DRAFT_PACE_ROWS];
    must(request->streams > 0 && request->candidate_count <= LIMIT_SEQUENCES);
    for (uint32_t i = 0; i < request->candidate_count; i++) {
        counts[i] = 0;
        fronts[i] = (struct draft_front){0, next_survival(pace, &request->candidates[i], 0, 1.0)};
    }
    uint32_t streams = request->streams, drafting = 0, best = 0;
    if (streams >= DRAFT_PACE_ROWS)
        return 0;
    double plain_us = draft_pace_step_us(pace, streams);
    if (plain_us <= 0.0 || (draft_pace_is_paused(pace) && !request->has_rounds))
        return 0;
    double tokens = streams, best_rate = MIN_GAIN * streams / plain_us;
    for (uint32_t taken = 0; taken < request->most_drafts && streams + taken < DRAFT_PACE_ROWS;) {
        uint32_t next = 0;
        for (uint32_t i = 1; i < request->candidate_count; i++)
            if (is_better(&fronts[i], &fronts[next]))
                next = i;
        if (request->candidate_count == 0 || fronts[next].survival <= 0.0)
            break;
        tokens += fronts[next].survival;
        drafting += fronts[next].count == 0;
        fronts[next].count++;
        fronts[next].survival = next_survival(pace, &request->candidates[next], fronts[next].count,
                                              fronts[next].survival);
        order[taken++] = next;
        double step_us = draft_pace_step_us(pace, streams + taken);
        bool delays = (drafting < streams && step_us > MAX_DELAY * plain_us) ||
                      (streams > 1 && step_us > plain_us && step_us > request->target_us);
        if (!delays && tokens / step_us > best_rate) {
            best = taken;
            best_rate = tokens / step_us;
        }
    }
    for (uint32_t i = 0; i < best; i++)
        counts[order[i]]++;
    return best;
}

uint32_t draft_policy_depth(const struct draft_pace *pace,
                            const struct draft_depth_request *request)
{
    uint32_t streams = request->streams, count = request->candidate_count;
    must(streams > 0 && count > 0 && count <= streams);
    must(request->most_tokens <= DRAFT_BLOCK_TOKENS);
    if (streams + count > DRAFT_PACE_ROWS)
        return 0;
    double plain_us = draft_pace_step_us(pace, streams);
    if (plain_us <= 0.0)
        return 0;
    double tokens = streams, best_rate = MIN_GAIN * streams / plain_us, rounds_us = 0.0;
    double acceptance = draft_pace_model_acceptance(pace);
    uint32_t best = 0;
    for (uint32_t depth = 1; depth <= request->most_tokens; depth++) {
        uint32_t rows = streams + depth * count;
        uint32_t round_rows = request->is_block ? count * (1 + depth)
                              : depth == 1      ? request->first_rows
                                                : count;
        if (rows > DRAFT_PACE_ROWS || (request->is_block && round_rows > DRAFT_PACE_ROWS))
            break;
        for (uint32_t i = 0; i < count; i++) {
            double each = least(acceptance * request->trusts[i], ACCEPTANCE_MAX), survival = 1.0;
            for (uint32_t token = 0; token < depth; token++)
                survival *= each;
            tokens += survival;
        }
        rounds_us =
            (request->is_block ? 0.0 : rounds_us) +
            draft_pace_round_us(pace, round_rows < DRAFT_PACE_ROWS ? round_rows : DRAFT_PACE_ROWS);
        double step_us = draft_pace_step_us(pace, rows) + rounds_us;
        bool delays = (count < streams && step_us > MAX_DELAY * plain_us) ||
                      (streams > 1 && step_us > plain_us && step_us > request->target_us);
        if (!delays && tokens / step_us > best_rate) {
            best = depth;
            best_rate = tokens / step_us;
        }
    }
    return best == 0 && pace->probes > 0 && request->most_tokens > 0 ? 1 : best;
}
