/*
 * Timings of an answer under llama.cpp's names: cache_n, prompt_n, prompt_ms, predicted_n,
 * predicted_ms and derived values; draft_n and draft_n_accepted if tokens were drafted. For several answers to one request: the prompt once, and the
 * tokens of all, from the arrival of the first to the last.
 */
#ifndef SHOAL_FRONTEND_API_GENERATION_ANSWER_TIMINGS_H
#define SHOAL_FRONTEND_API_GENERATION_ANSWER_TIMINGS_H

#include "frontend/api/generation/api_format.h"

/* Zeroed before the first token. */
struct answer_timings {
    int64_t scheduled_us; /* when a worker began with the prompt */
    int64_t first_us;     /* when the first token arrived */
    int64_t last_us;
    uint32_t tokens;
    uint32_t draft_tokens;    /* drafted tokens that were verified */
    uint32_t accepted_drafts; /* of these, tokens of the answer */
};

void answer_timings_note(struct answer_timings *timings, const struct reply_token *token);
/* {"cache_n":…,…} */
void answer_timings_write(const struct answer_timings *timings, uint32_t prompt_tokens,
                          uint32_t cached_tokens, struct text_buffer *out);
/* ,"draft_n":…,"draft_n_accepted":… if tokens were drafted. */
void answer_timings_write_drafts(const struct answer_timings *timings, struct text_buffer *out);
/* {"total":…,"cache":…,"processed":…,"time_ms":…}: progress of a prompt. */
void answer_timings_write_progress(const struct reply_progress *progress, struct text_buffer *out);

#endif
