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
 *
 * In a model with recurrent state drafted rows are deferred (struct step_sequence): those that were
 * accepted advance the state in the stream's next row. Every decoding stream has a row in every
 * step, so places are free again two steps later, and two halves of them are used in turn.
 */
#include "worker/schedule/step_drafts.h"

#include "proto/must.h"
#include "worker/schedule/draft_policy.h"
#include "worker/schedule/gauge_board.h"
#include "worker/schedule/model_drafts.h"
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

/* Asks the drafter for each decoding stream that may have drafts; returns the number of decoding
 * streams. */
static uint32_t ask(struct worker_engine *engine, const struct step_snapshot *snapshot,
                    uint32_t *asked)
{
    struct step_drafts *drafts = &engine->drafts;
    uint32_t streams = 0;
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        struct sequence *sequence = sequence_table_running_at(engine->table, i);
        if (engine->rows[i] == 0)
            continue;
        streams++;
        uint32_t most = sequence_draft_most(sequence);
        if (most == 0)
            continue;
        sequence_draft_ask(sequence, engine->parts.drafter, most, &drafts->proposals[*asked]);
        drafts->running[(*asked)++] = i;
    }
    return streams;
}

/* Picks the streams for which the draft model is likelier to be right than the drafter. Returns
 * their number and the rows that they have in the first round. */
static uint32_t pick(struct worker_engine *engine, const struct step_snapshot *snapshot,
                     uint32_t asked, uint32_t *first_rows)
{
    struct step_drafts *drafts = &engine->drafts;
    struct model_drafts *model = &engine->model_drafts;
    double acceptance = draft_pace_model_acceptance(&drafts->pace);
    uint32_t free_blocks[KV_GROUPS_MAX], count = 0;
    spare_blocks(engine, snapshot, free_blocks);
    *first_rows = 0;
    for (uint32_t i = 0; i < asked; i++) {
        uint32_t at = drafts->running[i];
        struct sequence *sequence = sequence_table_running_at(engine->table, at);
        struct draft_proposal *proposal = &drafts->proposals[i];
        if (!model_drafts_is_ready(engine, sequence) ||
            (proposal->count > 0 &&
             draft_pace_acceptance(&drafts->pace, proposal->classes[0]) >= acceptance))
            continue;
        uint32_t most = least(sequence_draft_most(sequence), model_drafts_most(engine));
        most = drafts_that_fit(snapshot, &snapshot->candidates[at], most, free_blocks);
        if (most == 0)
            continue;
        model->trusts[count] = trust_of(sequence);
        model->picks[count] = (struct model_pick){.sequence = sequence,
                                                  .most = most,
                                                  .trust = model->trusts[count],
                                                  .proposal = proposal};
        *first_rows += model_drafts_first_rows(engine, sequence);
        count++;
    }
    return count;
}

/* Replaces proposals by those of the draft model. Returns the number of streams concerned. */
static enum result ask_model(struct worker_engine *engine, const struct step_snapshot *snapshot,
                             uint32_t streams, uint32_t asked, uint32_t *picked,
                             struct error_text *error)
{
    struct draft_pace *pace = &engine->drafts.pace;
    *picked = 0;
    if (!engine->parts.draft_model || draft_pace_model_is_paused(pace) ||
        draft_pace_step_us(pace, least(streams, DRAFT_PACE_ROWS)) <= 0.0)
        return RESULT_OK;
    struct draft_depth_request request = {.streams = streams,
                                          .trusts = engine->model_drafts.trusts,
                                          .most_tokens = model_drafts_most(engine),
                                          .is_block = model_drafts_is_block(engine),
                                          .target_us = engine->parts.itl_target_ms * 1000.0};
    request.candidate_count = pick(engine, snapshot, asked, &request.first_rows);
    if (request.candidate_count == 0)
        return RESULT_OK;
    uint32_t rounds = draft_policy_depth(pace, &request);
    if (rounds == 0) {
        draft_pace_rest(pace);
        return RESULT_OK;
    }
    *picked = request.candidate_count;
    return model_drafts_propose(engine, engine->model_drafts.picks, *picked, rounds, error);
}

/* Completes the proposals and leaves out empty ones. */
static void complete(struct worker_engine *engine, uint32_t asked, struct draft_request *request)
{
    struct step_drafts *drafts = &engine->drafts;
    for (uint32_t i = 0; i < asked; i++) {
        uint32_t running = drafts->running[i], at = request->candidate_count;
        struct sequence *sequence = sequence_table_running_at(engine->table, running);
        sequence_draft_complete(sequence, sequence_draft_most(sequence), &drafts->proposals[i]);
        count_masks(engine, sequence);
        if (drafts->proposals[i].count == 0)
            continue;
        drafts->candidates[at] = (struct draft_candidate){.proposal = &drafts->proposals[i],
                                                          .trust = trust_of(sequence)};
        drafts->running[at] = running;
        request->candidate_count++;
    }
}

/* Notes the first token of a proposal that is not drafted. */
static void foresee(struct sequence *sequence, const struct draft_proposal *proposal)
{
    struct sequence_draft *draft = &sequence->draft;
    draft->foresees = proposal->classes[0] != DRAFT_CLASS_CERTAIN;
    draft->foreseen_class = proposal->classes[0];
    draft->foreseen_token = proposal->tokens[0];
}

/* Drafts what the policy chooses of the proposals. */
static void draft(struct worker_engine *engine, const struct step_snapshot *snapshot,
                  struct draft_request *request)
{
    struct step_drafts *drafts = &engine->drafts;
    request->most_drafts =
        least(engine->parts.step_tokens, engine->parts.logit_rows) - request->streams;
    uint32_t place = 0;
    if (engine->pools.state) {
        request->most_drafts = least(request->most_drafts, STEP_DRAFTS_DEFERRED);
        drafts->half = 1 - drafts->half;
        place = drafts->half * STEP_DRAFTS_DEFERRED;
    }
    (void)draft_policy_choose(&drafts->pace, request, drafts->counts);
    uint32_t free_blocks[KV_GROUPS_MAX];
    spare_blocks(engine, snapshot, free_blocks);
    for (uint32_t i = 0; i < request->candidate_count; i++) {
        const struct draft_proposal *proposal = request->candidates[i].proposal;
        uint32_t at = drafts->running[i];
        struct sequence *sequence = sequence_table_running_at(engine->table, at);
        uint32_t count =
            drafts_that_fit(snapshot, &snapshot->candidates[at], drafts->counts[i], free_blocks);
        sequence_draft_begin(sequence, proposal, count);
        sequence->draft.place = place;
        place += sequence->draft.count;
        count_masks(engine, sequence);
        if (sequence->draft.count == 0)
            foresee(sequence, proposal);
    }
}

enum result step_drafts_begin(struct worker_engine *engine, const struct step_snapshot *snapshot,
                              struct error_text *error)
{
    must(step_pipeline_is_empty(&engine->pipeline));
    struct draft_request request = {.candidates = engine->drafts.candidates,
                                    .target_us = engine->parts.itl_target_ms * 1000.0};
    uint32_t asked = 0, picked;
    request.streams = ask(engine, snapshot, &asked);
    enum result result = ask_model(engine, snapshot, request.streams, asked, &picked, error);
    if (result != RESULT_OK)
        return result;
    request.has_rounds = picked > 0;
    complete(engine, asked, &request);
    if (request.candidate_count > 0)
        draft(engine, snapshot, &request);
    for (uint32_t i = 0; i < picked; i++)
        model_drafts_trim(engine, engine->model_drafts.picks[i].sequence);
    return RESULT_OK;
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
    uint64_t rounds_us = engine->model_drafts.rounds_us;
    uint64_t gap_us = done->gap_us > rounds_us ? done->gap_us - rounds_us : 0;
    engine->model_drafts.rounds_us = 0;
    engine->model_drafts.prompt_rows = done->prompt_rows;
    if (!engine->parts.drafter || done->prompt_rows > 0 || done->patch_work > 0)
        return;
    draft_pace_note_step(&engine->drafts.pace,
                         &(struct draft_step){.streams = batch->sequence_count,
                                              .rows = batch->row_count,
                                              .generated_tokens = generated_tokens,
                                              .time_us = (double)done->time_us,
                                              .gap_us = (double)gap_us,
                                              .rounds_us = (double)rounds_us});
}
