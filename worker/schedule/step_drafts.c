/*
 * Only a step without prompt rows has drafts: prompts fill a step better than drafts do, and the
 * learned prices of prompt rows stay comparable. Drafts use logit rows and blocks that the step's
 * other rows leave, so they preempt no sequence.
 *
 * Every proposal is judged by the next token, drafted or not, so the reliability of proposals is
 * known before any of them costs time.
 *
 * A draft is judged by the token before it, so a step with drafts is read before the next one is
 * planned: drafting needs a backend with one step under way.
 */
#include "worker/schedule/step_drafts.h"

#include "proto/must.h"
#include "worker/schedule/draft_policy.h"
#include "worker/schedule/gauge_board.h"
#include "worker/schedule/sequence_draft.h"
#include "worker/schedule/step_candidate.h"

#define TRUST_PRIOR 4.0  /* drafts, as expected, that a stream begins with */
#define TRUST_KEPT  32.0 /* expected drafts; older ones fade */
#define TRUST_MAX   1.2

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static double trust_of(const struct sequence *sequence)
{
    const struct sequence_draft *draft = &sequence->draft;
    double trust = (draft->accepted + TRUST_PRIOR) / (draft->expected + TRUST_PRIOR);
    return trust < TRUST_MAX ? trust : TRUST_MAX;
}

/* Maximum number of drafts of one stream within the free blocks, beside its certain row. */
static uint32_t drafts_that_fit(const struct step_snapshot *snapshot,
                                const struct step_candidate *candidate, uint32_t drafts,
                                uint32_t free_blocks[KV_GROUPS_MAX])
{
    for (uint32_t group = 0; group < snapshot->group_count; group++) {
        uint32_t opening = snapshot->opening_tokens[group];
        uint32_t own = step_candidate_blocks(candidate, opening, 1);
        while (drafts > 0 &&
               step_candidate_blocks(candidate, opening, 1 + drafts) - own > free_blocks[group])
            drafts--;
    }
    for (uint32_t group = 0; group < snapshot->group_count; group++) {
        uint32_t opening = snapshot->opening_tokens[group];
        free_blocks[group] -= step_candidate_blocks(candidate, opening, 1 + drafts) -
                              step_candidate_blocks(candidate, opening, 1);
    }
    return drafts;
}

/* Free blocks that the certain rows leave. */
static void spare_blocks(const struct worker_engine *engine, const struct step_snapshot *snapshot,
                         uint32_t free_blocks[KV_GROUPS_MAX])
{
    for (uint32_t group = 0; group < snapshot->group_count; group++) {
        free_blocks[group] = snapshot->free_blocks[group];
        for (uint32_t i = 0; i < snapshot->candidate_count; i++)
            if (engine->rows[i] > 0)
                free_blocks[group] -= step_candidate_blocks(
                    &snapshot->candidates[i], snapshot->opening_tokens[group], engine->rows[i]);
    }
}

/* Adds the masks that were computed for the sequence's drafts to the gauges. */
static void count_masks(struct worker_engine *engine, struct sequence *sequence)
{
    struct sequence_draft *draft = &sequence->draft;
    if (draft->masks_computed > 0)
        gauge_board_add_masks(engine->gauges, draft->masks_computed, draft->masks_us);
    draft->masks_computed = 0;
    draft->masks_us = 0;
}

/* Collects the proposals; returns the number of decoding streams. */
static uint32_t collect(struct worker_engine *engine, const struct step_snapshot *snapshot,
                        struct draft_request *request)
{
    struct step_drafts *drafts = &engine->drafts;
    uint32_t streams = 0;
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        struct sequence *sequence = sequence_table_running_at(engine->table, i);
        if (engine->rows[i] == 0)
            continue;
        streams++;
        uint32_t most = sequence_draft_most(sequence);
        uint32_t at = request->candidate_count;
        if (most == 0)
            continue;
        sequence_draft_propose(sequence, engine->parts.drafter, most, &drafts->proposals[at]);
        count_masks(engine, sequence);
        if (drafts->proposals[at].count == 0)
            continue;
        drafts->candidates[at] = (struct draft_candidate){.proposal = &drafts->proposals[at],
                                                          .trust = trust_of(sequence)};
        drafts->running[at] = i;
        request->candidate_count++;
    }
    return streams;
}

/* Notes the first token of a proposal that is not drafted. */
static void foresee(struct sequence *sequence, const struct draft_proposal *proposal)
{
    struct sequence_draft *draft = &sequence->draft;
    draft->foresees = proposal->classes[0] != DRAFT_CLASS_CERTAIN;
    draft->foreseen_class = proposal->classes[0];
    draft->foreseen_token = proposal->tokens[0];
}

void step_drafts_begin(struct worker_engine *engine, const struct step_snapshot *snapshot)
{
    struct step_drafts *drafts = &engine->drafts;
    must(step_pipeline_is_empty(&engine->pipeline) && !engine->pools.state);
    struct draft_request request = {.candidates = drafts->candidates,
                                    .target_us = engine->parts.itl_target_ms * 1000.0};
    request.streams = collect(engine, snapshot, &request);
    if (request.candidate_count == 0)
        return;
    request.most_drafts =
        least(engine->parts.step_tokens, engine->parts.logit_rows) - request.streams;
    (void)draft_policy_choose(&drafts->pace, &request, drafts->counts);
    uint32_t free_blocks[KV_GROUPS_MAX];
    spare_blocks(engine, snapshot, free_blocks);
    for (uint32_t i = 0; i < request.candidate_count; i++) {
        uint32_t at = drafts->running[i];
        struct sequence *sequence = sequence_table_running_at(engine->table, at);
        uint32_t count =
            drafts_that_fit(snapshot, &snapshot->candidates[at], drafts->counts[i], free_blocks);
        sequence_draft_begin(sequence, &drafts->proposals[i], count);
        count_masks(engine, sequence);
        if (sequence->draft.count == 0)
            foresee(sequence, &drafts->proposals[i]);
    }
}

static void note(struct worker_engine *engine, struct sequence *sequence, uint8_t class, bool right)
{
    struct draft_pace *pace = &engine->drafts.pace;
    struct sequence_draft *draft = &sequence->draft;
    if (class == DRAFT_CLASS_CERTAIN)
        return;
    draft->accepted += right;
    draft->expected += draft_pace_acceptance(pace, class);
    if (draft->expected > TRUST_KEPT) {
        draft->accepted /= 2.0;
        draft->expected /= 2.0;
    }
    draft_pace_note_draft(pace, class, right);
}

bool step_drafts_judge(struct worker_engine *engine, struct sequence *sequence, uint32_t drafted,
                       uint32_t token)
{
    struct sequence_draft *draft = &sequence->draft;
    if (draft->count > 0) {
        bool right = token == sequence_draft_token(sequence);
        note(engine, sequence, draft->classes[drafted], right);
        return right;
    }
    if (draft->foresees)
        note(engine, sequence, draft->foreseen_class, token == draft->foreseen_token);
    draft->foresees = false;
    return false;
}

void step_drafts_note_step(struct worker_engine *engine, const struct step_done *done,
                           uint32_t generated_tokens)
{
    const struct step_batch *batch = step_batch_builder_batch(done->builder);
    if (!engine->parts.drafter || done->prompt_rows > 0 || done->patch_work > 0)
        return;
    draft_pace_note_step(&engine->drafts.pace,
                         &(struct draft_step){.streams = batch->sequence_count,
                                              .rows = batch->row_count,
                                              .generated_tokens = generated_tokens,
                                              .time_us = (double)done->time_us});
}
