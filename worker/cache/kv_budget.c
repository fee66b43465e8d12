/*
 * Divides the KV memory between recurrent state and cache groups, in this order:
 *
 *   recurrent state        at most half; if it holds less than max_sequences, fewer run
 *   state checkpoints      at most an eighth of the rest, possibly none
 *   sliding-window groups  at most half of the rest: a window for each sequence and one step's rows
 *   full groups            the rest, at most max_sequences whole contexts
 *
 * State comes first because a sequence cannot run without it and it has the same size for short and
 * long sequences. A sliding-window group comes before the full ones because its need does not grow
 * with the context length. The full-precision beginning of quantized sequences is bounded in the
 * same way as the windows. Memory beyond the need is not taken.
 *
 * Bytes are exact (the layout gives the block size) and division rounds down, so the sum never
 * exceeds the limit. A limit that does not hold a single sequence with one step's rows is an error.
 */
#include "worker/cache/kv_budget.h"

#include "proto/limits.h"
#include "proto/must.h"

#define CHECKPOINT_SHARE         8u  /* reciprocal share of the memory left after running states */
#define CHECKPOINTS_PER_SEQUENCE 4u  /* prompt end, answer end and two in between */
#define SEQUENCES_STEP           64u /* the chosen number of sequences is a multiple */
#define SEQUENCE_TOKENS          2048u /* of each, as far as memory decides */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Bytes of a block of the group, with those of a draft model. */
static uint64_t block_bytes(const struct kv_layout *layout, uint32_t group,
                            const struct kv_budget_request *request)
{
    uint32_t first_full = 0;
    while (first_full < layout->group_count && layout->groups[first_full].kind != KV_FULL)
        first_full++;
    return kv_layout_block_bytes(layout, group, request->element_bytes) +
           (group == first_full ? request->draft_block_bytes : 0);
}

/* Blocks for max_sequences sequences of the maximum length. */
static uint64_t blocks_wanted(const struct kv_layout *layout, uint32_t group,
                              const struct kv_budget_request *request)
{
    uint64_t one = kv_layout_blocks_needed(layout, group, request->context_tokens, 1);
    if (layout->groups[group].kind != KV_SLIDING)
        return one * request->max_sequences;
    uint64_t wide =
        kv_layout_blocks_needed(layout, group, request->context_tokens, request->step_tokens);
    return one * (request->max_sequences - 1u) + wide + request->max_sequences;
}

uint32_t kv_budget_sequences(const struct kv_layout *layout,
                             const struct kv_budget_request *request)
{
    uint32_t tokens = (uint32_t)least(SEQUENCE_TOKENS, request->context_tokens);
    uint64_t bytes = 2 * request->state_slot_bytes; /* states get at most half of the memory */
    for (uint32_t group = 0; group < layout->group_count; group++)
        bytes += (uint64_t)kv_layout_blocks_needed(layout, group, tokens, 1) *
                 block_bytes(layout, group, request);
    must(bytes > 0);
    uint64_t steps = request->limit_bytes / bytes / SEQUENCES_STEP;
    uint64_t sequences = least(steps > 0 ? steps : 1, LIMIT_SEQUENCES) * SEQUENCES_STEP;
    return (uint32_t)least(sequences, request->max_sequences);
}

uint32_t kv_budget_longest(const struct kv_layout *layout, const uint32_t blocks[KV_GROUPS_MAX],
                           uint32_t tokens, uint32_t step_tokens)
{
    uint32_t fits = 0;
    uint32_t too_long = tokens + 1;
    while (too_long - fits > 1) {
        uint32_t middle = fits + (too_long - fits) / 2;
        uint32_t group = 0;
        while (group < layout->group_count &&
               kv_layout_blocks_needed(layout, group, middle, step_tokens) <= blocks[group])
            group++;
        if (group == layout->group_count)
            fits = middle;
        else
            too_long = middle;
    }
    return fits;
}

/* Gives the full groups (or all others) their maximum or, if `share_bytes` does not hold that,
 * equal numbers of tokens. Returns the bytes used. */
static uint64_t divide(const struct kv_layout *layout, const struct kv_budget_request *request,
                       bool full, uint64_t share_bytes, struct kv_budget *budget)
{
    uint64_t wanted_bytes = 0;
    for (uint32_t group = 0; group < layout->group_count; group++) {
        if ((layout->groups[group].kind == KV_FULL) == full)
            wanted_bytes +=
                blocks_wanted(layout, group, request) * block_bytes(layout, group, request);
    }
    uint64_t used_bytes = 0;
    for (uint32_t group = 0; group < layout->group_count; group++) {
        if ((layout->groups[group].kind == KV_FULL) != full)
            continue;
        uint64_t wanted = blocks_wanted(layout, group, request);
        uint64_t bytes = block_bytes(layout, group, request);
        if (wanted_bytes > share_bytes) {
            double fraction = (double)share_bytes / (double)wanted_bytes;
            wanted = (uint64_t)((double)wanted * fraction);
        }
        budget->blocks[group] = (uint32_t)least(wanted, UINT32_MAX - 1u);
        used_bytes += budget->blocks[group] * bytes;
    }
    return used_bytes;
}

/* The full-precision start must fit once, else it would limit every sequence's length. */
static enum result check_openings(const struct kv_layout *layout,
                                  const struct kv_budget_request *request,
                                  const struct kv_budget *budget, struct error_text *error)
{
    for (uint32_t group = 0; group < layout->group_count; group++) {
        uint64_t one = kv_layout_blocks_needed(layout, group, request->context_tokens, 1);
        if (layout->groups[group].kind != KV_OPENING || one <= budget->blocks[group])
            continue;
        return error_set(
            error, RESULT_TOO_LARGE,
            "--quantized-kv-start %u: one sequence's tokens up to there take %llu "
            "bytes in full precision; the half of a KV cache of %llu bytes that is "
            "for them has %llu",
            layout->groups[group].opening,
            (unsigned long long)(one * block_bytes(layout, group, request)),
            (unsigned long long)request->limit_bytes,
            (unsigned long long)(budget->blocks[group] * block_bytes(layout, group, request)));
    }
    return RESULT_OK;
}

static enum result plan_blocks(const struct kv_layout *layout,
                               const struct kv_budget_request *request, struct kv_budget *budget,
                               struct error_text *error)
{
    uint64_t bounded_share = request->limit_bytes;
    for (uint32_t group = 0; group < layout->group_count; group++) {
        if (layout->groups[group].kind == KV_FULL)
            bounded_share = request->limit_bytes / 2;
    }
    budget->wanted_bytes = budget->state_bytes + budget->checkpoint_bytes;
    for (uint32_t group = 0; group < layout->group_count; group++)
        budget->wanted_bytes +=
            blocks_wanted(layout, group, request) * block_bytes(layout, group, request);
    budget->bytes = divide(layout, request, false, bounded_share, budget);
    budget->bytes += divide(layout, request, true, request->limit_bytes - budget->bytes, budget);
    enum result result = check_openings(layout, request, budget, error);
    if (result != RESULT_OK)
        return result;
    budget->context_tokens =
        kv_budget_longest(layout, budget->blocks, request->context_tokens, request->step_tokens);

    uint32_t least_tokens = (uint32_t)least(request->step_tokens, request->context_tokens);
    if (budget->context_tokens >= least_tokens)
        return RESULT_OK;
    uint64_t needed_bytes = 0;
    for (uint32_t group = 0; group < layout->group_count; group++)
        needed_bytes += kv_layout_blocks_needed(layout, group, least_tokens, request->step_tokens) *
                        block_bytes(layout, group, request);
    return error_set(error, RESULT_TOO_LARGE,
                     "a KV cache of %llu bytes holds %u tokens of one sequence; a step of %u "
                     "tokens needs %llu bytes or more",
                     (unsigned long long)request->limit_bytes, budget->context_tokens, least_tokens,
                     (unsigned long long)needed_bytes);
}

/* Subtracts recurrent states and checkpoints from the request's memory. */
static enum result set_state_aside(struct kv_budget_request *request, struct kv_budget *budget,
                                   struct error_text *error)
{
    budget->max_sequences = request->max_sequences;
    if (request->state_slot_bytes == 0)
        return RESULT_OK;
    uint64_t fit = request->limit_bytes / 2 / request->state_slot_bytes;
    if (fit == 0)
        return error_set(
            error, RESULT_TOO_LARGE,
            "half of a KV cache of %llu bytes does not hold the recurrent state of one "
            "sequence, %llu bytes",
            (unsigned long long)request->limit_bytes,
            (unsigned long long)request->state_slot_bytes);
    request->max_sequences = (uint32_t)least(fit, request->max_sequences);
    budget->max_sequences = request->max_sequences;
    budget->state_bytes = request->max_sequences * request->state_slot_bytes;
    request->limit_bytes -= budget->state_bytes;
    if (!request->keeps_checkpoints)
        return RESULT_OK;
    uint64_t most = request->limit_bytes / CHECKPOINT_SHARE / request->state_slot_bytes;
    budget->checkpoint_slots =
        (uint32_t)least(most, (uint64_t)CHECKPOINTS_PER_SEQUENCE * budget->max_sequences);
    budget->checkpoint_bytes = budget->checkpoint_slots * request->state_slot_bytes;
    request->limit_bytes -= budget->checkpoint_bytes;
    return RESULT_OK;
}

enum result kv_budget_plan(const struct kv_layout *layout, const struct kv_budget_request *wanted,
                           struct kv_budget *budget, struct error_text *error)
{
    must(layout->group_count > 0 && wanted->max_sequences > 0 && wanted->step_tokens > 0);
    *budget = (struct kv_budget){0};
    struct kv_budget_request left = *wanted;
    enum result result = set_state_aside(&left, budget, error);
    return result == RESULT_OK ? plan_blocks(layout, &left, budget, error) : result;
}
