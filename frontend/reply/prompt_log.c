/*
 * All entries are in one array; `places` says where those of each token end. A token's own entry comes
 * first, then its alternatives. Bounded by LIMIT_PROMPT_SCORES.
 */
#include "frontend/reply/prompt_log.h"

#include <stdbool.h>
#include <stdlib.h>

#include "frontend/reply/token_log.h"
#include "proto/must.h"

struct place {
    uint32_t end; /* of its pairs */
    uint32_t rank;
};

struct prompt_log {
    const struct tokenizer *tokenizer;
    struct token_logprob *pairs; /* [pair_capacity] */
    uint32_t pair_count;
    uint32_t pair_capacity;
    struct place *places; /* [capacity] */
    uint32_t count;
    uint32_t capacity;
};

static void pair_add(struct prompt_log *log, struct token_logprob pair)
{
    if (log->pair_count == log->pair_capacity) {
        log->pair_capacity = log->pair_capacity > 0 ? 2 * log->pair_capacity : 64;
        log->pairs = realloc(log->pairs, log->pair_capacity * sizeof *log->pairs);
        must(log->pairs != NULL);
    }
    log->pairs[log->pair_count++] = pair;
}

struct prompt_log *prompt_log_create(const struct tokenizer *tokenizer, uint32_t first_token)
{
    struct prompt_log *log = must_alloc(1, sizeof *log);
    log->tokenizer = tokenizer;
    prompt_log_push(log, (struct token_logprob){.token = first_token}, 0, NULL, 0);
    return log;
}

void prompt_log_destroy(struct prompt_log *log)
{
    if (!log)
        return;
    free(log->pairs);
    free(log->places);
    free(log);
}

void prompt_log_push(struct prompt_log *log, struct token_logprob own, uint32_t rank,
                     const struct token_logprob *alternatives, uint32_t alternative_count)
{
    if (log->count == log->capacity) {
        log->capacity = log->capacity > 0 ? 2 * log->capacity : 64;
        log->places = realloc(log->places, log->capacity * sizeof *log->places);
        must(log->places != NULL);
    }
    pair_add(log, own);
    for (uint32_t i = 0; i < alternative_count; i++)
        pair_add(log, alternatives[i]);
    log->places[log->count++] = (struct place){.end = log->pair_count, .rank = rank};
}

uint32_t prompt_log_count(const struct prompt_log *log)
{
    return log->count;
}

struct prompt_log_entry prompt_log_at(const struct prompt_log *log, uint32_t index)
{
    must(index < log->count);
    uint32_t first = index > 0 ? log->places[index - 1].end : 0;
    return (struct prompt_log_entry){.own = log->pairs[first],
                                     .rank = log->places[index].rank,
                                     .alternatives = log->pairs + first + 1,
                                     .alternative_count = log->places[index].end - first - 1};
}

static void pair_write(const struct prompt_log *log, struct token_logprob pair, uint32_t rank,
                       struct text_buffer *out)
{
    text_buffer_append_format(out, "\"%u\":{\"logprob\":", pair.token);
    token_log_write_logprob(pair.logprob, out);
    text_buffer_append_text(out, ",\"rank\":");
    text_buffer_append_whole(out, rank, 1);
    text_buffer_append_text(out, ",\"decoded_token\":");
    token_log_write_text(log->tokenizer, pair.token, out);
    text_buffer_append_text(out, "}");
}

void prompt_log_write(const struct prompt_log *log, uint32_t top, struct text_buffer *out)
{
    text_buffer_append_text(out, "[null");
    for (uint32_t i = 1; i < log->count; i++) {
        struct prompt_log_entry entry = prompt_log_at(log, i);
        uint32_t shown = entry.alternative_count < top ? entry.alternative_count : top;
        bool own_is_shown = false;
        text_buffer_append_text(out, ",{");
        for (uint32_t at = 0; at < shown; at++) {
            text_buffer_append_text(out, at > 0 ? "," : "");
            pair_write(log, entry.alternatives[at], at + 1, out);
            own_is_shown = own_is_shown || entry.alternatives[at].token == entry.own.token;
        }
        if (!own_is_shown) {
            text_buffer_append_text(out, shown > 0 ? "," : "");
            pair_write(log, entry.own, entry.rank, out);
        }
        text_buffer_append_text(out, "}");
    }
    text_buffer_append_text(out, "]");
}
