/*
 * Decodes first, then prompts in chunks.
 *
 * A running stream waits one step for its next token, so what else goes into that step is its
 * inter-token latency. Every decode gets its row; prompt chunks fill the rest, but beside decodes
 * only up to mixed_prefill_tokens, because a prompt row costs as much as a stream's row and there
 * are many. A stream whose worker died, or that was preempted, waits just so while its tokens are
 * computed again. While none is back, after a worker's death, nothing moves: then the one with
 * least to compute goes first and waits for nobody else's rows. Without either a chunk may be as
 * large as the step's time allows (step_pace.h).
 *
 * But for that one, chunks go to prompts strictly by arrival: the first one that cannot have all
 * its rows ends the list, so a short prompt never overtakes a long one's blocks. Refuses to look at
 * tokens, time or priorities; the numbers that come out depend on the snapshot alone.
 */
#include "worker/schedule/step_policy.h"

#include "proto/must.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t rows_left(const struct step_candidate *candidate)
{
    return candidate->known_tokens - candidate->computed_tokens;
}

/* Rows that `candidate` can have without taking more than `free_blocks` in any group. */
static uint32_t rows_that_fit(const struct step_candidate *candidate, uint32_t free_blocks)
{
    uint32_t in_last_block = candidate->computed_tokens % KV_BLOCK_TOKENS;
    uint32_t slack = in_last_block ? KV_BLOCK_TOKENS - in_last_block : 0;
    uint64_t rows = (uint64_t)free_blocks * KV_BLOCK_TOKENS + slack;
    uint32_t left = rows_left(candidate);
    return rows < left ? (uint32_t)rows : left;
}

static uint32_t blocks_taken(const struct step_candidate *candidate, uint32_t rows)
{
    uint32_t before = (candidate->computed_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    return (candidate->computed_tokens + rows + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS - before;
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
        uint32_t taken = blocks_taken(&snapshot->candidates[i], 1);
        must(taken <= *free_blocks);
        *free_blocks -= taken;
    }
    must(decodes <= snapshot->step_tokens);
    return decodes;
}

static bool all_end(const struct step_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        if (!snapshot->candidates[i].ends)
            return false;
    }
    return true;
}

/* Of the streams that are computed again, the one to be back first: one that was begun goes on (so
 * none is overtaken twice), else the one with the fewest rows, the oldest among equals. NULL when
 * there is none. */
static const struct step_candidate *first_to_resume(const struct step_snapshot *snapshot)
{
    const struct step_candidate *first = NULL;
    for (uint32_t i = 0; i < snapshot->candidate_count; i++) {
        const struct step_candidate *candidate = &snapshot->candidates[i];
        if (!candidate->resumes)
            continue;
        if (candidate->computed_tokens > 0)
            return candidate;
        if (!first || rows_left(candidate) < rows_left(first))
            first = candidate;
    }
    return first;
}

uint32_t step_policy_compose(const struct step_snapshot *snapshot, uint32_t *rows)
{
    /* A row takes the same number of new blocks in every group: the scarcest one decides. */
    uint32_t free_blocks = UINT32_MAX;
    for (uint32_t group = 0; group < snapshot->group_count; group++)
        free_blocks = least(free_blocks, snapshot->free_blocks[group]);

    uint32_t decodes = compose_decodes(snapshot, &free_blocks, rows);
    const struct step_candidate *first = first_to_resume(snapshot);
    bool awaited = decodes > 0 || first;
    uint32_t budget = snapshot->step_tokens - decodes;
    budget =
        least(budget, awaited ? snapshot->mixed_prefill_tokens : snapshot->lone_prefill_tokens);
    if (first && decodes == 0) {
        uint32_t alone = least(budget, rows_that_fit(first, free_blocks));
        rows[first - snapshot->candidates] = alone;
        if (alone > 0)
            return alone; /* else somebody older may finish within the blocks it holds */
    }
    uint32_t total = decodes;
    for (uint32_t i = 0; i < snapshot->candidate_count && budget > 0; i++) {
        const struct step_candidate *candidate = &snapshot->candidates[i];
        if (candidate->decoding)
            continue;
        rows[i] = least(budget, rows_that_fit(candidate, free_blocks));
        free_blocks -= blocks_taken(candidate, rows[i]);
        budget -= rows[i];
        total += rows[i];
        if (rows[i] < rows_left(candidate))
            break;
    }
    must(total > 0 || all_end(snapshot));
    return total;
}
