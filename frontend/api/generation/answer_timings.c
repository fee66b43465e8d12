/*
 * Prompt time runs from the first step with rows of the prompt to the first token; token time from
 * there to the last token. Rates over no time are 0.
 */
#include "frontend/api/generation/answer_timings.h"

void answer_timings_note(struct answer_timings *timings, const struct reply_token *token)
{
    if (timings->tokens++ == 0) {
        timings->first_us = token->now_us;
        timings->scheduled_us = token->scheduled_us > 0 ? token->scheduled_us : token->now_us;
    }
    timings->last_us = token->now_us;
    timings->draft_tokens += token->draft_tokens;
    timings->accepted_drafts += token->is_drafted;
}

/* <name>_n, <name>_ms, <name>_per_token_ms, <name>_per_second */
static void part_write(const char *name, uint32_t tokens, int64_t took_us, struct text_buffer *out)
{
    double ms = (double)took_us / 1000;
    text_buffer_append_format(out,
                              "\"%s_n\":%u,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.3f,"
                              "\"%s_per_second\":%.3f",
                              name, tokens, name, ms, name, tokens > 0 ? ms / tokens : 0, name,
                              ms > 0 ? 1000 * tokens / ms : 0);
}

void answer_timings_write(const struct answer_timings *timings, uint32_t prompt_tokens,
                          uint32_t cached_tokens, struct text_buffer *out)
{
    text_buffer_append_format(out, "{\"cache_n\":%u,", cached_tokens);
    part_write("prompt", prompt_tokens - cached_tokens, timings->first_us - timings->scheduled_us,
               out);
    text_buffer_append_text(out, ",");
    part_write("predicted", timings->tokens, timings->last_us - timings->first_us, out);
    answer_timings_write_drafts(timings, out);
    text_buffer_append_text(out, "}");
}

void answer_timings_write_drafts(const struct answer_timings *timings, struct text_buffer *out)
{
    if (timings->draft_tokens > 0)
        text_buffer_append_format(out, ",\"draft_n\":%u,\"draft_n_accepted\":%u",
                                  timings->draft_tokens, timings->accepted_drafts);
}

void answer_timings_write_progress(const struct reply_progress *progress, struct text_buffer *out)
{
    text_buffer_append_format(out, "{\"total\":%u,\"cache\":%u,\"processed\":%u,\"time_ms\":%lld}",
                              progress->prompt_tokens, progress->cached_tokens,
                              progress->computed_tokens,
                              (long long)((progress->now_us - progress->scheduled_us) / 1000));
}
