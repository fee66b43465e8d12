/*
 * Memory is decided before it is used.
 *
 * A request's size is judged when it arrives: what can never fit is refused at once with its
 * reason, and an answer that could outgrow context or pools is capped, so that a sequence alone can
 * always be finished and preemption always has an end. When a sequence asks to begin, its whole
 * prompt must fit beside what running prefills were promised, with one block to spare for every
 * stream that decodes; otherwise it would begin only to be preempted.
 *
 * How long answers become is not known, so they are not reserved: running out of blocks later is
 * preemption_policy.h's case. Refuses to let a small request overtake the head of the queue.
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
    /* The last token is told, never computed: it needs no position. */
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
