/*
 * Decodes first, then prompts in chunks.
 *
 * A running stream waits one step for its next token, so what else goes into that step is its
 * inter-token latency. Every decode gets its row; prompt chunks fill the rest, but beside decodes
 * only up to mixed_prefill_tokens, because a prompt row costs as much as a stream's row and there
 * are many. A stream whose worker died, or that was preempted, waits just so while its tokens are
 * computed again, and the first of them waits for nobody else's rows: after a worker's death
 * nothing moves until it does, so there the one with least to compute is the first. Without either
 * a chunk may be as large as the step's time allows (step_pace.h). Prompts with pictures have
 * waited for the encoding, which went at the streams' pace, and go on at such a pace: theirs are
 * smaller.
 *
 * But for that one, chunks go to prompts strictly by arrival: the first one that cannot have all
 * its rows ends the list, so a short prompt never overtakes a long one's blocks. One that waits for
 * features of a picture has no rows to have, and others go on meanwhile. Refuses to look at
 * tokens, time or priorities; the numbers that come out depend on the snapshot alone.
 */
#include "worker/schedule/step_policy.h"

#include <string.h>

#include "proto/must.h"
#include "worker/schedule/step_candidate.h"

/* A stream draws a token a step, beside which an older prompt gets half a block of rows or more. */
#define ROWS_A_BLOCK_LASTS (KV_BLOCK_TOKENS * KV_BLOCK_TOKENS / 2)

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t rows_left(const struct step_candidate *candidate)
{
    return candidate->known_tokens - candidate->computed_tokens;
}

/* Rows that `candidate` can have without taking more than is free of any group. */
static uint32_t rows_that_fit(const struct step_snapshot *snapshot,
                              const struct step_candidate *candidate, const uint32_t *free_blocks)
{
    uint32_t rows = step_candidate_most_rows(candidate);
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

static uint32_t compose_decodes(const struct step_snapshot *snapshot, uint32_t *free_blocks,
                                uint32_t *rows)
{
    uint32_t decodes = 0;
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        rows[i] = 0;
        if (!snapshot->candidates[i].decoding || snapshot->candidates[i].ends)
            continue;
        rows[i] = 1;
        decodes++;
        take_blocks(snapshot, &snapshot->candidates[i], 1, free_blocks);
    }
    must(decodes <= snapshot->step_tokens);
    return decodes;
}

/* All of them end, or wait for features of pictures. */
static bool none_can_move(const struct step_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        if (!snapshot->candidates[i].ends && snapshot->candidates[i].most_rows > 0)
            return false;
    }
    return true;
}

static bool any_resumes(const struct step_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        if (snapshot->candidates[i].resumes)
            return true;
    }
    return false;
}

/* All that anybody still has to compute fits, and what a stream that is back draws meanwhile. */
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
 * Where nobody holds anything, as after a death, and memory is no concern, the stream to be back
 * first: the one with the fewest rows, the oldest among equals, and once begun the one that was
 * begun. Else NULL: the oldest moves, as always.
 */
static const struct step_candidate *first_back(const struct step_snapshot *snapshot,
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

/* What is left for prompts. */
struct chunk_room {
    uint32_t budget;    /* rows */
    uint32_t shown;     /* of them, those of prompts with pictures */
    uint32_t step_rows; /* of the whole step: for a tile that is not cut, if nobody had any yet */
    uint32_t *free_blocks; /* [group_count] */
    bool used;
};

/* Takes the candidate's chunk out of the room. A tile that must not be cut goes beyond the budget
 * where it is the first of a step: it would fit no other step either. */
static uint32_t take_chunk(const struct step_snapshot *snapshot,
                           const struct step_candidate *candidate, struct chunk_room *room)
{
    uint32_t fit = rows_that_fit(snapshot, candidate, room->free_blocks);
    uint32_t budget = candidate->shows ? least(room->shown, room->budget) : room->budget;
    uint32_t rows = step_candidate_uncut_rows(candidate, least(budget, fit));
    uint32_t fewest = step_candidate_fewest_rows(candidate);
    if (rows == 0 && budget > 0 && !room->used && fewest <= fit && fewest <= room->step_rows)
        rows = fewest;
    take_blocks(snapshot, candidate, rows, room->free_blocks);
    room->budget -= least(room->budget, rows);
    room->shown -= candidate->shows ? least(room->shown, rows) : 0;
    room->used |= rows > 0;
    return rows;
}

uint32_t step_policy_compose(const struct step_snapshot *snapshot, uint32_t *rows)
{
    uint32_t free_blocks[KV_GROUPS_MAX];
    memcpy(free_blocks, snapshot->free_blocks, sizeof free_blocks);
    uint32_t decodes = compose_decodes(snapshot, free_blocks, rows);
    bool resumes = any_resumes(snapshot);
    bool awaited = decodes > 0 || resumes;
    uint32_t budget = snapshot->step_tokens - decodes;
    budget =
        least(budget, awaited ? snapshot->mixed_prefill_tokens : snapshot->lone_prefill_tokens);
    /* Where encoding has taken all time something must move nevertheless. */
    bool paced = decodes > 0 || (resumes && snapshot->shown_prefill_tokens > 0);
    struct chunk_room room = {.budget = budget,
                              .shown = paced ? snapshot->shown_prefill_tokens : budget,
                              .step_rows = snapshot->step_tokens - decodes,
                              .free_blocks = free_blocks};
    const struct step_candidate *first = first_back(snapshot, free_blocks);
    uint32_t alone = first ? take_chunk(snapshot, first, &room) : 0;
    if (alone > 0) {
        rows[first - snapshot->candidates] = alone;
        return alone;
    }
    uint32_t total = decodes;
    for (uint32_t i = 0; i < snapshot->candidate_count && room.budget > 0; i++) {
        const struct step_candidate *candidate = &snapshot->candidates[i];
        uint32_t wanted = step_candidate_most_rows(candidate);
        if (candidate->decoding || wanted == 0)
            continue;
        rows[i] = take_chunk(snapshot, candidate, &room);
        total += rows[i];
        if (rows[i] < wanted || (resumes && decodes == 0))
            break;
    }
    must(total > 0 || none_can_move(snapshot));
    return total;
}
