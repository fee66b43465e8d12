/*
 * A snapshot costs one walk over the running sequences, and policies hold no pointer into anything
 * that changes. Every copied sequence is also checked, so a violated invariant is found in the next
 * step.
 */
#include "worker/schedule/engine_snapshot.h"

#include "worker/schedule/sequence_prefix.h"
#include "worker/schedule/sequence_score.h"

static uint32_t peak_blocks(const struct worker_engine *engine, uint32_t group, uint32_t tokens)
{
    return kv_layout_blocks_needed(engine->parts.layout, group, tokens, engine->parts.step_tokens);
}

/* Whether a sequence at `position` needs no more blocks of the group. */
static bool has_passed(const struct worker_engine *engine, uint32_t group, uint32_t position)
{
    const struct kv_group *shape = &engine->parts.layout->groups[group];
    return shape->kind == KV_OPENING && position >= shape->opening;
}

struct admission_snapshot engine_snapshot_admission(const struct worker_engine *engine)
{
    struct admission_snapshot snapshot = {
        .running_sequences = sequence_table_running(engine->table),
        .max_sequences = engine->parts.max_sequences,
        .group_count = engine->parts.layout->group_count,
    };
    for (uint32_t group = 0; group < snapshot.group_count; group++)
        snapshot.free_blocks[group] = kv_pools_available(&engine->pools, group);
    for (uint32_t i = 0; i < snapshot.running_sequences; i++) {
        const struct sequence *sequence = sequence_table_running_at(engine->table, i);
        if (sequence->state == SEQUENCE_DECODE) {
            snapshot.decoding_sequences++;
            continue;
        }
        for (uint32_t group = 0; group < snapshot.group_count; group++) {
            if (has_passed(engine, group, sequence->computed_tokens))
                continue;
            uint32_t peak = peak_blocks(engine, group, sequence->known_tokens);
            uint32_t held = block_table_held(&sequence->tables[group]);
            snapshot.promised_blocks[group] += peak > held ? peak - held : 0;
        }
    }
    return snapshot;
}

void engine_snapshot_want(const struct worker_engine *engine, const struct sequence *sequence,
                          uint32_t shared_blocks, struct admission_snapshot *snapshot)
{
    for (uint32_t group = 0; group < snapshot->group_count; group++) {
        bool shares = engine->parts.layout->groups[group].kind == KV_FULL;
        snapshot->wanted_blocks[group] =
            peak_blocks(engine, group, sequence->known_tokens) - (shares ? shared_blocks : 0);
    }
}

/* Sets how many rows the sequence may have in one step. */
static void add_bounds(const struct worker_engine *engine, const struct sequence *sequence,
                       uint32_t index, struct step_candidate *candidate)
{
    const struct sequence_images *images = &sequence->request.images;
    bool whole = images->count > 0 && engine->parts.vision->spans_whole;
    uint32_t ready =
        sequence_images_ready_tokens(images, engine->pools.features, sequence->computed_tokens);
    uint32_t due = sequence_prefix_rows(sequence, &engine->pools);
    candidate->max_rows = ready < due ? ready : due;
    candidate->whole_tiles = whole ? images->tiles : NULL;
    candidate->whole_tile_count = whole ? images->tile_count : 0;
    if (!engine->parts.encoder)
        return;
    engine->whole_prompts[index] = (struct image_tile){.token_count = candidate->known_tokens};
    candidate->whole_tiles = &engine->whole_prompts[index];
    candidate->whole_tile_count = 1;
}

/* Limits the rows of a sequence that scores its prompt. Every running sequence has one logit row;
 * `*spare` counts the others, of which the oldest such sequences get all that they can use. */
static void add_score_bound(const struct sequence *sequence, struct step_candidate *candidate,
                            uint32_t *spare)
{
    if (candidate->decoding || candidate->max_rows == 0)
        return;
    uint32_t most = sequence_score_most_rows(sequence, 1 + *spare);
    if (candidate->max_rows > most)
        candidate->max_rows = most;
    uint32_t first;
    uint32_t rows = sequence_rows_left(sequence);
    uint32_t scored = sequence_score_rows(sequence, rows < most ? rows : most, &first);
    *spare -= scored < *spare ? scored : *spare;
}

/* Limits of prompt rows beside streams. */
static void add_mixed_limits(const struct worker_engine *engine, struct step_snapshot *snapshot)
{
    uint32_t wanted = engine->parts.mixed_prefill_tokens;
    struct chunk_request request = {.fixed = wanted > 0,
                                    .target_us = engine->parts.itl_target_ms * 1000.0};
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        const struct step_candidate *candidate = &snapshot->candidates[i];
        const struct sequence *sequence = sequence_table_running_at(engine->table, i);
        request.prompt_tokens += sequence->request.run.prompt_tokens - sequence->cached_tokens;
        request.draws += chunk_pace_expected_draws(
            &engine->pace.chunks, sequence->tokens_max - sequence->request.run.prompt_tokens);
        if (candidate->decoding) {
            request.decode_rows += !candidate->ends;
        } else {
            request.backlog_rows += candidate->known_tokens - candidate->computed_tokens;
            request.waiting++;
        }
    }
    request.most_rows = snapshot->step_tokens - request.decode_rows;
    if (wanted > 0 && wanted < request.most_rows)
        request.most_rows = wanted;
    snapshot->mixed_prefill_tokens = chunk_pace_rows(&engine->pace.chunks, &request);
    /* A step either encodes or has image rows, never both. */
    snapshot->image_prefill_tokens =
        engine->patch_work > 0
            ? 0
            : step_pace_image_rows(&engine->pace, snapshot->mixed_prefill_tokens);
}

struct step_snapshot engine_snapshot_step(struct worker_engine *engine)
{
    struct step_snapshot snapshot = {
        .group_count = engine->parts.layout->group_count,
        .halves = engine->parts.halves,
        .step_tokens = engine->parts.step_tokens,
        .prefill_only_tokens =
            step_pace_prefill_only_rows(&engine->pace, engine->parts.step_tokens),
        .candidate_count = sequence_table_running(engine->table),
        .candidates = engine->candidates,
    };
    for (uint32_t group = 0; group < snapshot.group_count; group++) {
        snapshot.free_blocks[group] = kv_pools_available(&engine->pools, group);
        snapshot.opening_tokens[group] = engine->parts.layout->groups[group].opening;
    }
    uint32_t spare = engine->parts.logit_rows - snapshot.candidate_count;
    for (uint32_t i = 0; i < snapshot.candidate_count; i++) {
        const struct sequence *sequence = sequence_table_running_at(engine->table, i);
        sequence_check(sequence, &engine->pools);
        struct step_candidate *candidate = &engine->candidates[i];
        candidate->decoding = sequence->state == SEQUENCE_DECODE;
        candidate->resumes =
            sequence->state == SEQUENCE_PREFILL && sequence_generated_tokens(sequence) > 0;
        candidate->ends = sequence_draws_last(sequence);
        candidate->is_unread = candidate->decoding && sequence->drawn_tokens > 0;
        candidate->has_images = sequence->request.images.count > 0 &&
                                sequence->state == SEQUENCE_PREFILL && !candidate->resumes;
        candidate->known_tokens = sequence->computed_tokens + sequence_rows_left(sequence);
        candidate->computed_tokens = sequence->computed_tokens;
        add_bounds(engine, sequence, i, candidate);
        add_score_bound(sequence, candidate, &spare);
        for (uint32_t group = 0; group < snapshot.group_count; group++)
            candidate->held_blocks[group] = block_table_held(&sequence->tables[group]);
    }
    add_mixed_limits(engine, &snapshot);
    return snapshot;
}
