/*
 * Follows tokens through the rows of the parser, with a mark after each token, and fills masks. The
 * program is shared by matchers of one grammar, so its lock is held while it is used. When its
 * automaton is full, a matcher goes on with another program, on which it follows its tokens again.
 */
#include "worker/sample/grammar_matcher.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/sample/grammar_mask.h"
#include "worker/sample/grammar_rows.h"
#include "worker/sample/grammar_trie.h"

#define ENDED             0x80000000u /* in a mark: the token was an end token */
#define FORCED_TOKENS_MAX 64u         /* tokens in the mask of a forced text, about one a byte */

struct grammar_matcher {
    struct grammar_vocabulary *vocabulary;
    struct grammar_program *program;
    struct grammar_rows rows;
    uint32_t *marks;  /* [mark_count] rows after each token, with ENDED */
    uint32_t *tokens; /* [mark_count] */
    size_t mark_count;
    size_t mark_capacity;
};

struct grammar_matcher *grammar_matcher_open(struct grammar_vocabulary *vocabulary,
                                             const void *blob, size_t bytes,
                                             enum grammar_result *result)
{
    *result = GRAMMAR_MEMORY;
    struct grammar_matcher *matcher = calloc(1, sizeof *matcher);
    if (matcher == NULL)
        return NULL;
    matcher->vocabulary = vocabulary;
    matcher->program = grammar_vocabulary_take_program(vocabulary, blob, bytes, result);
    if (matcher->program == NULL) {
        free(matcher);
        return NULL;
    }
    *result = GRAMMAR_MEMORY;
    if (grammar_rows_init(&matcher->rows, matcher->program)) {
        pthread_mutex_lock(&matcher->program->lock);
        *result = grammar_rows_start(&matcher->rows) ? GRAMMAR_OK : matcher->rows.failure;
        pthread_mutex_unlock(&matcher->program->lock);
    }
    if (*result == GRAMMAR_OK)
        return matcher;
    grammar_matcher_close(matcher);
    return NULL;
}

void grammar_matcher_close(struct grammar_matcher *matcher)
{
    if (matcher == NULL)
        return;
    grammar_vocabulary_give_program(matcher->vocabulary, matcher->program);
    grammar_rows_fini(&matcher->rows);
    free(matcher->marks);
    free(matcher->tokens);
    free(matcher);
}

static void refill(struct grammar_matcher *matcher)
{
    grammar_rows_refill(&matcher->rows);
    grammar_automaton_refill(&matcher->program->automaton);
}

/* Pushes the rows of a token; false: refused or failed, rows may be pushed. */
static enum grammar_result push_token(struct grammar_matcher *matcher, uint32_t token)
{
    const struct grammar_vocabulary *vocabulary = matcher->vocabulary;
    struct grammar_rows *rows = &matcher->rows;
    uint32_t base = rows->row_count;
    bool has_text = token < vocabulary->token_count;
    uint32_t at = has_text ? vocabulary->offsets[token] : 0;
    uint32_t end = has_text ? vocabulary->offsets[token + 1] : 0;
    for (; at < end; at++) {
        uint8_t byte_class = matcher->program->automaton.classes.class_of[vocabulary->bytes[at]];
        uint32_t last = rows->row_count - 1;
        bool good = at + 1 < end
                        ? grammar_rows_push_byte(rows, last, byte_class)
                        : grammar_rows_push_last_byte(rows, last, byte_class, base - 1, token);
        if (!good)
            return rows->failure;
        if (!grammar_row_is_alive(&rows->rows[rows->row_count - 1]))
            break;
    }
    if (at < end || rows->row_count == base) { /* the token itself, if the grammar names it */
        grammar_rows_cut(rows, base);
        if (!grammar_rows_push_token(rows, base - 1, token))
            return rows->failure;
    }
    return grammar_row_is_alive(&rows->rows[rows->row_count - 1]) ? GRAMMAR_OK : GRAMMAR_REFUSED;
}

static enum grammar_result follow_token(struct grammar_matcher *matcher, uint32_t token)
{
    if (token >= matcher->vocabulary->logit_count || grammar_matcher_has_ended(matcher))
        return GRAMMAR_REFUSED;
    if (matcher->mark_count == matcher->mark_capacity) {
        size_t wider = matcher->mark_capacity == 0 ? 64 : matcher->mark_capacity * 2;
        uint32_t *marks = realloc(matcher->marks, wider * sizeof *marks);
        matcher->marks = marks != NULL ? marks : matcher->marks;
        uint32_t *kept = realloc(matcher->tokens, wider * sizeof *kept);
        matcher->tokens = kept != NULL ? kept : matcher->tokens;
        if (marks == NULL || kept == NULL)
            return GRAMMAR_MEMORY;
        matcher->mark_capacity = wider;
    }
    refill(matcher);
    uint32_t base = matcher->rows.row_count, ended = 0;
    enum grammar_result result = push_token(matcher, token);
    if (result != GRAMMAR_OK)
        grammar_rows_cut(&matcher->rows, base);
    if (result == GRAMMAR_REFUSED && matcher->vocabulary->is_end[token] &&
        grammar_matcher_may_end(matcher)) {
        result = GRAMMAR_OK;
        ended = ENDED;
    }
    if (result == GRAMMAR_OK) {
        matcher->tokens[matcher->mark_count] = token;
        matcher->marks[matcher->mark_count++] = matcher->rows.row_count | ended;
    }
    return result;
}

static enum grammar_result follow_tokens(struct grammar_matcher *matcher, const uint32_t *tokens,
                                         size_t count)
{
    size_t before = matcher->mark_count;
    enum grammar_result result = GRAMMAR_OK;
    pthread_mutex_lock(&matcher->program->lock);
    for (size_t i = 0; i < count && result == GRAMMAR_OK; i++)
        result = follow_token(matcher, tokens[i]);
    pthread_mutex_unlock(&matcher->program->lock);
    if (result != GRAMMAR_OK)
        grammar_matcher_cut(matcher, before);
    return result;
}

static bool is_full(struct grammar_matcher *matcher)
{
    pthread_mutex_lock(&matcher->program->lock);
    bool full = grammar_automaton_is_full(&matcher->program->automaton);
    pthread_mutex_unlock(&matcher->program->lock);
    return full;
}

/* Goes on with another program. False: the matcher is as it was. */
static bool renew(struct grammar_matcher *matcher)
{
    enum grammar_result result;
    struct grammar_program *program =
        grammar_vocabulary_renew_program(matcher->vocabulary, matcher->program, &result);
    if (program == NULL)
        return false;
    struct grammar_matcher old = *matcher;
    *matcher = (struct grammar_matcher){.vocabulary = old.vocabulary, .program = program};
    bool good = grammar_rows_init(&matcher->rows, program);
    pthread_mutex_lock(&program->lock);
    good = good && grammar_rows_start(&matcher->rows);
    pthread_mutex_unlock(&program->lock);
    good = good && follow_tokens(matcher, old.tokens, old.mark_count) == GRAMMAR_OK;
    if (!good) { /* keep the old one */
        struct grammar_matcher fresh = *matcher;
        *matcher = old;
        old = fresh;
    }
    grammar_vocabulary_give_program(old.vocabulary, old.program);
    grammar_rows_fini(&old.rows);
    free(old.marks);
    free(old.tokens);
    return good;
}

enum grammar_result grammar_matcher_follow(struct grammar_matcher *matcher, const uint32_t *tokens,
                                           size_t count)
{
    enum grammar_result result = follow_tokens(matcher, tokens, count);
    if (result != GRAMMAR_OK && result != GRAMMAR_REFUSED && is_full(matcher) && renew(matcher))
        result = follow_tokens(matcher, tokens, count);
    return result;
}

size_t grammar_matcher_followed(const struct grammar_matcher *matcher)
{
    return matcher->mark_count;
}

void grammar_matcher_cut(struct grammar_matcher *matcher, size_t tokens)
{
    must(tokens <= matcher->mark_count);
    matcher->mark_count = tokens;
    grammar_rows_cut(&matcher->rows, tokens == 0 ? 1 : matcher->marks[tokens - 1] & ~ENDED);
}

static enum grammar_result fill_mask(struct grammar_matcher *matcher, uint32_t *words)
{
    memset(words, 0, grammar_vocabulary_mask_words(matcher->vocabulary) * sizeof *words);
    pthread_mutex_lock(&matcher->program->lock);
    refill(matcher);
    enum grammar_result result = grammar_mask_fill(matcher->vocabulary, &matcher->rows, words);
    pthread_mutex_unlock(&matcher->program->lock);
    return result;
}

/* Without an instruction for it, which the build does not require, __builtin_popcount() is a call; this
 * adds four words at a time. */
static size_t count_bits(const uint32_t *words, size_t count)
{
    const uint64_t pairs = 0x5555555555555555u, fours = 0x3333333333333333u;
    const uint64_t bytes = 0x0F0F0F0F0F0F0F0Fu, ones = 0x0101010101010101u;
    size_t total = 0, i = 0;
    for (; i + 4 <= count; i += 4) {
        uint64_t x = (uint64_t)words[i] << 32 | words[i + 1];
        uint64_t y = (uint64_t)words[i + 2] << 32 | words[i + 3];
        x -= x >> 1 & pairs;
        y -= y >> 1 & pairs;
        x = (x & fours) + (x >> 2 & fours) + (y & fours) + (y >> 2 & fours); /* digits up to 8 */
        x = (x & bytes) + (x >> 4 & bytes);
        total += x * ones >> 56;
    }
    for (; i < count; i++)
        total += (size_t)__builtin_popcount(words[i]);
    return total;
}

enum grammar_result grammar_matcher_mask(struct grammar_matcher *matcher, uint32_t *words,
                                         size_t *allowed)
{
    size_t count = grammar_vocabulary_mask_words(matcher->vocabulary);
    *allowed = 0;
    if (grammar_matcher_has_ended(matcher)) {
        memset(words, 0, count * sizeof *words);
        return GRAMMAR_OK;
    }
    enum grammar_result result = fill_mask(matcher, words);
    if (result != GRAMMAR_OK && is_full(matcher) && renew(matcher))
        result = fill_mask(matcher, words);
    *allowed = count_bits(words, count);
    return result;
}

/* Replaces *longest by the token if it continues it; false: neither continues the other. */
static bool join_text(const struct grammar_vocabulary *vocabulary, uint32_t token,
                      uint32_t *longest)
{
    if (token >= vocabulary->token_count || *longest >= vocabulary->token_count)
        return false;
    const uint32_t *offsets = vocabulary->offsets;
    uint32_t bytes = offsets[token + 1] - offsets[token];
    uint32_t most = offsets[*longest + 1] - offsets[*longest];
    uint32_t shared = bytes < most ? bytes : most;
    if (shared == 0 || memcmp(vocabulary->bytes + offsets[token],
                              vocabulary->bytes + offsets[*longest], shared) != 0)
        return false;
    if (bytes > most)
        *longest = token;
    return true;
}

bool grammar_matcher_forced_text(const struct grammar_matcher *matcher, const uint32_t *words,
                                 size_t allowed, uint32_t *token)
{
    size_t seen = 0;
    if (allowed == 0 || allowed > FORCED_TOKENS_MAX)
        return false;
    for (uint32_t word = 0; seen < allowed; word++)
        for (uint32_t left = words[word]; left != 0; left &= left - 1) {
            uint32_t next = 32 * word + (uint32_t)__builtin_ctz(left);
            if (seen++ == 0)
                *token = next;
            else if (!join_text(matcher->vocabulary, next, token))
                return false;
        }
    return true;
}

bool grammar_matcher_may_end(const struct grammar_matcher *matcher)
{
    return !grammar_matcher_has_ended(matcher) &&
           matcher->rows.rows[matcher->rows.row_count - 1].may_end;
}

bool grammar_matcher_has_ended(const struct grammar_matcher *matcher)
{
    return matcher->mark_count > 0 && (matcher->marks[matcher->mark_count - 1] & ENDED) != 0;
}
