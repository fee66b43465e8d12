/*
 * Decodes first, then prompts in chunks, by arrival.
 *
 *   decodes             one row for every decoding stream; everything else in the step adds to its
 *                       inter-token latency. Where devices share the layers, half of the streams
 *   resumed streams     were preempted or lost their worker. Their readers wait for tokens, so the
 *                       limits are those of a step with decodes, and without decodes the first of
 *                       them has the step to itself (first_to_resume())
 *   prompts             up to mixed_prefill_tokens beside streams, else prefill_only_tokens
 *                       (step_pace.h)
 *   prompts with images up to image_prefill_tokens beside streams, which their encoding has
 *                       delayed already
 *
 * The first prompt that cannot have all its rows ends the list, so a short prompt never overtakes
 * the blocks of a long one. A prompt that waits for the features of an image is skipped. The result
 * depends on the snapshot alone, not on tokens, time or priorities.
 */
#include "worker/schedule/step_policy.h"

#include <string.h>

#include "proto/must.h"
#include "worker/schedule/step_candidate.h"

/* Prompt rows computed, at least, while a stream fills one block: KV_BLOCK_TOKENS steps with half a
 * block of rows each. */
#define ROWS_A_BLOCK_LASTS (KV_BLOCK_TOKENS * KV_BLOCK_TOKENS / 2)

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t rows_left(const struct step_candidate *candidate)
{
    return candidate->known_tokens - candidate->computed_tokens;
}

/* Maximum number of rows of `candidate` within the free blocks of all groups. */
static uint32_t rows_that_fit(const struct step_snapshot *snapshot,
                              const struct step_candidate *candidate, const uint32_t *free_blocks)
{
    uint32_t rows = step_candidate_max_rows(candidate);
    for (uint32_t group = 0; group < snapshot->group_count; group++)
        rows = least(rows, step_candidate_rows(candidate, snapshot->opening_tokens[group],
                                               free_blocks[group]));
    return rows;
}

static void take_blocks(const struct step_snapshot *snapshot,
                        const struct step_candidate *candidate, uint32_t rows,
                        uint32_t *free_blocks)
{
    for (uint32_t group = 0; group < snapshot->group_count; group++) {
        uint32_t taken = step_candidate_blocks(candidate, snapshot->opening_tokens[group], rows);
        must(taken <= free_blocks[group]);
        free_blocks[group] -= taken;
    }
}

/* Streams that decode, all of them. */
static uint32_t count_decodes(const struct step_snapshot *snapshot)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < snapshot->candidate_count; i++)
        count += snapshot->candidates[i].decoding && !snapshot->candidates[i].ends;
    return count;
}

/* Whether the stream is left to the step after the next one. A single stream gains nothing from that. */
static bool is_other_half(const struct step_snapshot *snapshot,
                          const struct step_candidate *candidate, uint32_t decodes)
{
    return snapshot->halves && candidate->is_unread && decodes > 1;
}

static uint32_t compose_decodes(const struct step_snapshot *snapshot, uint32_t *free_blocks,
                                uint32_t *rows)
{
    uint32_t decodes = 0, all = count_decodes(snapshot);
    uint32_t most = snapshot->halves ? (all + 1) / 2 : all;
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        rows[i] = 0;
        if (!snapshot->candidates[i].decoding || snapshot->candidates[i].ends || decodes == most ||
            is_other_half(snapshot, &snapshot->candidates[i], all))
            continue;
        rows[i] = 1;
        decodes++;
        take_blocks(snapshot, &snapshot->candidates[i], 1, free_blocks);
    }
    must(decodes <= snapshot->step_tokens);
    return decodes;
}

/* Whether all candidates end or wait for features of images, or the other half of the decodes is under
 * way, after which there is time for prompts again. */
static bool none_can_move(const struct step_snapshot *snapshot)
{
    uint32_t decodes = count_decodes(snapshot);
    bool all_wait = true;
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        const struct step_candidate *candidate = &snapshot->candidates[i];
        if (is_other_half(snapshot, candidate, decodes))
            return true;
        all_wait = all_wait && (candidate->ends || candidate->max_rows == 0);
    }
    return all_wait;
}

static bool any_resumes(const struct step_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        if (snapshot->candidates[i].resumes)
            return true;
    }
    return false;
}

/* Whether everything that is left to compute fits, together with what a resumed stream draws
 * meanwhile. */
static bool room_for_all(const struct step_snapshot *snapshot, const uint32_t *free_blocks)
{
    uint64_t blocks = 0;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        blocks += rows_left(&snapshot->candidates[i]) / KV_BLOCK_TOKENS + 2;
        rows += rows_left(&snapshot->candidates[i]);
    }
    for (uint32_t group = 0; group < snapshot->group_count; group++) {
        if (blocks + rows / ROWS_A_BLOCK_LASTS >= free_blocks[group])
            return false;
    }
    return true;
}

/*
 * The stream to resume alone after a worker's death, when no sequence holds blocks and there is
 * room for all: the one with the fewest rows, the oldest among equals, until it decodes. NULL: the
 * order of arrival applies.
 */
static const struct step_candidate *first_to_resume(const struct step_snapshot *snapshot,
                                                    const uint32_t *free_blocks)
{
    const struct step_candidate *begun = NULL;
    const struct step_candidate *shortest = NULL;
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        const struct step_candidate *candidate = &snapshot->candidates[i];
        if (candidate->decoding || (candidate->computed_tokens > 0 && begun))
            return NULL;
        if (candidate->computed_tokens > 0)
            begun = candidate;
        if (candidate->resumes && (!shortest || rows_left(candidate) < rows_left(shortest)))
            shortest = candidate;
    }
    if (!room_for_all(snapshot, free_blocks))
        return NULL;
    if (begun)
        return begun->resumes ? begun : NULL;
    return shortest;
}

/* What is left of the step for prompts. */
struct chunk_room {
    uint32_t budget;       /* rows */
    uint32_t image_rows;   /* of these, rows of prompts with images */
    uint32_t step_rows;    /* of the whole step: limit of a tile that must not be cut */
    uint32_t *free_blocks; /* [group_count] */
    bool used;
};

/* Takes the candidate's chunk from the room. A tile that must not be cut may exceed the budget if
 * it is the first chunk of the step, because it would fit no other step either. */
static uint32_t take_chunk(const struct step_snapshot *snapshot,
                           const struct step_candidate *candidate, struct chunk_room *room)
{
    uint32_t fit = rows_that_fit(snapshot, candidate, room->free_blocks);
    uint32_t budget = candidate->has_images ? least(room->image_rows, room->budget) : room->budget;
    uint32_t rows = step_candidate_uncut_rows(candidate, least(budget, fit));
    uint32_t fewest = step_candidate_min_rows(candidate);
    if (rows == 0 && budget > 0 && !room->used && fewest <= fit && fewest <= room->step_rows)
        rows = fewest;
    take_blocks(snapshot, candidate, rows, room->free_blocks);
    room->budget -= least(room->budget, rows);
    room->image_rows -= candidate->has_images ? least(room->image_rows, rows) : 0;
    room->used |= rows > 0;
    return rows;
}

uint32_t step_policy_compose(const struct step_snapshot *snapshot, uint32_t *rows)
{
    uint32_t free_blocks[KV_GROUPS_MAX];
    memcpy(free_blocks, snapshot->free_blocks, sizeof free_blocks);
    uint32_t decodes = compose_decodes(snapshot, free_blocks, rows);
    bool streams = count_decodes(snapshot) > 0;
    bool resumes = any_resumes(snapshot);
    bool awaited = streams || resumes;
    uint32_t budget = snapshot->step_tokens - decodes;
    budget =
        least(budget, awaited ? snapshot->mixed_prefill_tokens : snapshot->prefill_only_tokens);
    /* If encoding left no time for image rows, a resuming prompt must still make progress. */
    bool paced = streams || (resumes && snapshot->image_prefill_tokens > 0);
    struct chunk_room room = {.budget = budget,
                              .image_rows = paced ? snapshot->image_prefill_tokens : budget,
                              .step_rows = snapshot->step_tokens - decodes,
                              .free_blocks = free_blocks};
    const struct step_candidate *first = first_to_resume(snapshot, free_blocks);
    uint32_t alone = first ? take_chunk(snapshot, first, &room) : 0;
    if (alone > 0) {
        rows[first - snapshot->candidates] = alone;
        return alone;
    }
    uint32_t total = decodes;
    for (uint32_t i = 0; i < snapshot->candidate_count && room.budget > 0; i++) {
        const struct step_candidate *candidate = &snapshot->candidates[i];
        uint32_t wanted = step_candidate_max_rows(candidate);
        if (candidate->decoding || wanted == 0)
            continue;
        rows[i] = take_chunk(snapshot, candidate, &room);
        total += rows[i];
        if (rows[i] < wanted || (resumes && !streams))
            break;
    }
    must(total > 0 || none_can_move(snapshot));
    return total;
}
