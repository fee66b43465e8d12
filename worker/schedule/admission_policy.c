/*
 * A request's size is checked when it arrives. A prompt that can never fit is refused with its
 * reason, and an answer that could outgrow context or pools is limited, so a sequence that runs
 * alone can always finish and preemption always ends.
 *
 * A waiting sequence starts if its whole prompt fits beside the blocks promised to running
 * prefills, with one spare block for each decoding stream; with less it would soon be preempted.
 * The answer's length is unknown, so its blocks are not reserved: running out of them later is
 * handled by preemption_policy.h. A small request never overtakes the head of the queue.
 */
#include "worker/schedule/admission_policy.h"

enum result admission_policy_size(const struct admission_limits *limits, uint32_t prompt_tokens,
                                  uint32_t max_new_tokens, uint32_t *tokens_max)
{
    if (prompt_tokens >= limits->context_tokens)
        return RESULT_CONTEXT_EXCEEDED;
    if (prompt_tokens > limits->longest_positions)
        return RESULT_TOO_LARGE;
    uint64_t wanted = (uint64_t)prompt_tokens + max_new_tokens;
    if (wanted > limits->context_tokens)
        wanted = limits->context_tokens;
    /* The last token is sent but never computed, so it needs no position. */
    if (wanted > (uint64_t)limits->longest_positions + 1)
        wanted = (uint64_t)limits->longest_positions + 1;
    *tokens_max = (uint32_t)wanted;
    return RESULT_OK;
}

bool admission_policy_admits(const struct admission_snapshot *snapshot)
{
    if (snapshot->running_sequences >= snapshot->max_sequences)
        return false;
    if (snapshot->running_sequences == 0)
        return true;
    for (uint32_t group = 0; group < snapshot->group_count; group++) {
        uint64_t needed = snapshot->promised_blocks[group] + snapshot->wanted_blocks[group] +
                          snapshot->decoding_sequences;
        if (needed > snapshot->free_blocks[group])
            return false;
    }
    return true;
}
