/*
 * Preempting the youngest loses the least work, and the order of arrival is kept: the oldest
 * sequence always makes progress, and every other one becomes the oldest eventually.
 *
 * The oldest sequence, if it prefills, needs the minimum number of rows that can be computed at
 * once. Another prefill that lacks blocks for its next chunk preempts no sequence: it waits with
 * the blocks it has. A sequence whose last token is being drawn needs nothing more.
 */
#include "worker/schedule/preemption_policy.h"

#include "proto/must.h"
#include "worker/schedule/step_candidate.h"

static void need_blocks(const struct step_snapshot *snapshot,
                        const struct step_candidate *candidate, uint32_t rows,
                        uint32_t needed_blocks[KV_GROUPS_MAX])
{
    for (uint32_t group = 0; group < snapshot->group_count; group++)
        needed_blocks[group] +=
            step_candidate_blocks(candidate, snapshot->opening_tokens[group], rows);
}

static bool can_move(const struct step_snapshot *snapshot, uint32_t survivors,
                     const uint32_t free_blocks[KV_GROUPS_MAX])
{
    uint32_t decoding = 0;
    uint32_t needed_blocks[KV_GROUPS_MAX] = {0};
    const struct step_candidate *oldest = NULL;
    for (uint32_t i = 0; i < survivors; i++) {
        if (snapshot->candidates[i].ends)
            continue;
        if (!oldest)
            oldest = &snapshot->candidates[i];
        if (snapshot->candidates[i].decoding) {
            decoding++;
            need_blocks(snapshot, &snapshot->candidates[i], 1, needed_blocks);
        }
    }
    /* While it waits for the features of an image, younger sequences may already decode. */
    if (oldest && !oldest->decoding && (decoding == 0 || step_candidate_max_rows(oldest) > 0))
        need_blocks(snapshot, oldest, step_candidate_min_rows(oldest), needed_blocks);
    for (uint32_t group = 0; group < snapshot->group_count; group++) {
        if (needed_blocks[group] > free_blocks[group])
            return false;
    }
    return true;
}

uint32_t preemption_policy_survivors(const struct step_snapshot *snapshot)
{
    uint32_t free_blocks[KV_GROUPS_MAX];
    for (uint32_t group = 0; group < snapshot->group_count; group++)
        free_blocks[group] = snapshot->free_blocks[group];
    uint32_t survivors = snapshot->candidate_count;
    while (survivors > 0 && !can_move(snapshot, survivors, free_blocks)) {
        must(survivors > 1);
        survivors--;
        for (uint32_t group = 0; group < snapshot->group_count; group++)
            free_blocks[group] += snapshot->candidates[survivors].held_blocks[group];
    }
    return survivors;
}
