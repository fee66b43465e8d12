/*
 * Checks a token event, which the frontend has copied out of the ring, before any field is used: a
 * token id indexes the vocabulary, a slot indexes the request table, an offset names a slab chunk.
 *
 * Rules that depend on a request's history (its generation, T3; whether `index` is the next one,
 * T5; the number of alternatives, T13) are checked by the request table; here `index` is only kept
 * below the longest context.
 *
 * A broken rule means that the worker is broken; the supervisor replaces it.
 */
#include "proto/token_event.h"

#include <math.h>
#include <stdbool.h>

#define PAYLOAD_ALIGN_BYTES 64u

static enum result check_rank(const struct token_event *event, uint32_t vocab_tokens,
                              struct error_text *error)
{
    if (event->rank < 1 || event->rank > vocab_tokens)
        return error_set(error, RESULT_CORRUPT, "T18: rank %u of %u", event->rank, vocab_tokens);
    return RESULT_OK;
}

static enum result check_token(const struct token_event *event, uint32_t vocab_tokens,
                               struct error_text *error)
{
    if (event->token >= vocab_tokens)
        return error_set(error, RESULT_CORRUPT, "T4: token %u of %u", event->token, vocab_tokens);
    if (event->index >= LIMIT_CONTEXT_TOKENS ||
        (event->kind == TOKEN_EVENT_PROMPT_TOKEN && event->index == 0))
        return error_set(error, RESULT_CORRUPT, "T5: index %u", event->index);
    if (!(event->logprob <= 0.0f)) /* also rejects NaN; -INFINITY is valid */
        return error_set(error, RESULT_CORRUPT, "T6: logprob %g", (double)event->logprob);
    if (event->cached_images > LIMIT_REQUEST_RECORDS)
        return error_set(error, RESULT_CORRUPT, "T14: cached_images %u", event->cached_images);
    if (event->draft_tokens > LIMIT_DRAFT_TOKENS)
        return error_set(error, RESULT_CORRUPT, "T15: draft_tokens %u", event->draft_tokens);
    if (event->kind == TOKEN_EVENT_PROMPT_TOKEN)
        return check_rank(event, vocab_tokens, error);
    if (event->draft_position > LIMIT_DRAFT_TOKENS)
        return error_set(error, RESULT_CORRUPT, "T16: draft_position %u", event->draft_position);
    if (!(fabsf(event->mirostat_mu) <= 1e9f))
        return error_set(error, RESULT_CORRUPT, "T17: mirostat_mu %g", (double)event->mirostat_mu);
    return RESULT_OK;
}

static enum result check_payload_done(const struct token_event *event, uint64_t slab_bytes,
                                      struct error_text *error)
{
    uint64_t offset = event->payload_offset;
    if (event->payload_generation == 0 || offset == 0 || offset % PAYLOAD_ALIGN_BYTES != 0 ||
        offset >= slab_bytes)
        return error_set(error, RESULT_CORRUPT, "T10: payload at %llu, generation %u, slab of %llu",
                         (unsigned long long)offset, event->payload_generation,
                         (unsigned long long)slab_bytes);
    return RESULT_OK;
}

/* T2, T7: the fields that say how a request ended are set on its last event and nowhere else. */
static enum result check_ending(const struct token_event *event, struct error_text *error)
{
    uint32_t finish = event->finish;
    if (event->kind == TOKEN_EVENT_FINISHED ? finish < FINISH_STOP_TOKEN || finish > FINISH_GRAMMAR
                                            : finish != FINISH_NONE)
        return error_set(error, RESULT_CORRUPT, "T2: finish %u in kind %u", finish, event->kind);
    uint32_t failure = event->failure;
    if (event->kind == TOKEN_EVENT_ADAPTER)
        return failure < RESULT_COUNT ? RESULT_OK
                                      : error_set(error, RESULT_CORRUPT, "T7: failure %u", failure);
    if (event->kind == TOKEN_EVENT_FAILED ? failure == RESULT_OK || failure >= RESULT_COUNT
                                          : failure != RESULT_OK)
        return error_set(error, RESULT_CORRUPT, "T7: failure %u in kind %u", failure, event->kind);
    return RESULT_OK;
}

/* T12. The request table checks T13. */
static enum result check_alternatives(const struct token_event *event, uint32_t vocab_tokens,
                                      struct error_text *error)
{
    uint32_t count = event->alternative_count;
    if (count < 1 || count > TOKEN_EVENT_ALTERNATIVES_MAX)
        return error_set(error, RESULT_CORRUPT, "T12: %u alternatives", count);
    float before = 0.0f;
    for (uint32_t i = 0; i < TOKEN_EVENT_ALTERNATIVES_MAX; i++) {
        struct token_logprob pair = event->alternatives[i];
        bool fits = i < count ? pair.token < vocab_tokens && pair.logprob <= before
                              : pair.token == 0 && pair.logprob == 0.0f;
        if (!fits)
            return error_set(error, RESULT_CORRUPT, "T12: alternative %u of %u: %u with %g", i,
                             count, pair.token, (double)pair.logprob);
        before = pair.logprob;
    }
    return RESULT_OK;
}

/* T17. The request table checks how many there are. */
static enum result check_values(const struct token_event *event, struct error_text *error)
{
    uint32_t count = event->value_count;
    if (count < 1 || count > TOKEN_EVENT_VALUES_MAX)
        return error_set(error, RESULT_CORRUPT, "T17: %u values", count);
    for (uint32_t i = 0; i < TOKEN_EVENT_VALUES_MAX; i++)
        if (i < count ? !isfinite(event->values[i]) : event->values[i] != 0.0f)
            return error_set(error, RESULT_CORRUPT, "T17: value %u of %u: %g", i, count,
                             (double)event->values[i]);
    return RESULT_OK;
}

enum result token_event_check(const struct token_event *event, uint32_t vocab_tokens,
                              uint64_t slab_bytes, struct error_text *error)
{
    if (event->kind < TOKEN_EVENT_TOKEN || event->kind > TOKEN_EVENT_ADAPTER)
        return error_set(error, RESULT_CORRUPT, "T1: kind %u", event->kind);
    if (event->kind == TOKEN_EVENT_ADAPTER && event->adapter.slot >= LIMIT_ADAPTERS)
        return error_set(error, RESULT_CORRUPT, "T19: adapter slot %u", event->adapter.slot);
    if (event->request.slot >= LIMIT_LIVE_REQUESTS)
        return error_set(error, RESULT_CORRUPT, "T3: slot %u", event->request.slot);
    if (event->kind == TOKEN_EVENT_ALTERNATIVES)
        return check_alternatives(event, vocab_tokens, error);
    if (event->kind == TOKEN_EVENT_VECTOR)
        return check_values(event, error);
    enum result result = check_ending(event, error);
    if (result == RESULT_OK &&
        (event->kind == TOKEN_EVENT_TOKEN || event->kind == TOKEN_EVENT_PROMPT_TOKEN))
        result = check_token(event, vocab_tokens, error);
    if (result == RESULT_OK && event->kind == TOKEN_EVENT_PAYLOAD_DONE)
        result = check_payload_done(event, slab_bytes, error);
    if (result != RESULT_OK)
        return result;

    if (event->kind == TOKEN_EVENT_PROGRESS &&
        (event->prompt_total > LIMIT_CONTEXT_TOKENS || event->prompt_done > event->prompt_total))
        return error_set(error, RESULT_CORRUPT, "T8: prompt %u of %u", event->prompt_done,
                         event->prompt_total);
    if (event->cached_tokens > LIMIT_CONTEXT_TOKENS)
        return error_set(error, RESULT_CORRUPT, "T9: cached_tokens %u", event->cached_tokens);
    if (event->kind != TOKEN_EVENT_PROGRESS && event->step_time_us != 0)
        return error_set(error, RESULT_CORRUPT, "T11: a step time in kind %u", event->kind);
    return RESULT_OK;
}
