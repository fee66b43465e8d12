/*
 * Rows that are still unpublished are scored each time they are computed. If a preemption comes
 * between launch and publication, the results are computed twice; the publisher passes over those
 * that it has published (step_publisher.c).
 */
#include "worker/schedule/sequence_score.h"

#include "proto/must.h"

/* Place of the first token that is not of the prompt. */
static uint32_t prompt_end(const struct sequence *sequence)
{
    return sequence->request.run.prompt_tokens - sequence->request.run.generated_tokens;
}

bool sequence_score_is_open(const struct sequence *sequence)
{
    return sequence->next_score < prompt_end(sequence);
}

uint32_t sequence_score_rows(const struct sequence *sequence, uint32_t rows, uint32_t *first)
{
    uint32_t begin = sequence->computed_tokens;
    uint32_t end = begin + rows;
    uint32_t last = prompt_end(sequence) - 1; /* its row draws */
    *first = begin;
    if (!sequence_score_is_open(sequence))
        return 0;
    if (begin < sequence->next_score - 1)
        begin = sequence->next_score - 1;
    if (end > last)
        end = last;
    *first = begin;
    return end > begin ? end - begin : 0;
}

uint32_t sequence_score_most_rows(const struct sequence *sequence, uint32_t logit_rows)
{
    must(logit_rows > 0);
    if (!sequence_score_is_open(sequence))
        return UINT32_MAX;
    uint32_t first = sequence->next_score - 1;
    uint32_t before = first > sequence->computed_tokens ? first - sequence->computed_tokens : 0;
    return before + logit_rows;
}

struct row_sampling sequence_score_draw(const struct sequence *sequence, uint32_t position)
{
    static const struct sampling_params greedy = {
        .top_p = 1.0f, .typical_p = 1.0f, .repetition_penalty = 1.0f};
    must(position > 0 && position < prompt_end(sequence));
    return (struct row_sampling){.params = &greedy,
                                 .position = position,
                                 .first_generated = prompt_end(sequence),
                                 .is_forced = true,
                                 .forced_token = sequence->request.tokens[position],
                                 .wants_logprob = true,
                                 .top_logprobs = sequence->request.run.score_top};
}
