/*
 * The matcher knows tokens and bytes; the rules of an answer are here: where the grammar begins,
 * which other rules bar a token, and when the answer is complete.
 *
 * If the grammar begins after thinking but the prompt has not opened it, the answer's first token
 * may be the one that starts thinking, beside what the grammar allows. Any other first token is the
 * grammar's. Once it holds, marks of thinking inside the grammar's text have no meaning.
 */
#include "worker/schedule/sequence_grammar.h"

#include <stdlib.h>

#include "proto/keyed_hash.h"
#include "proto/must.h"

static enum result result_of(enum grammar_result result)
{
    switch (result) {
    case GRAMMAR_OK: return RESULT_OK;
    case GRAMMAR_FUEL: return RESULT_GRAMMAR_FUEL;
    case GRAMMAR_MEMORY: return RESULT_OUT_OF_MEMORY;
    case GRAMMAR_REFUSED: break;
    }
    return RESULT_GRAMMAR_DEAD_END;
}

enum result sequence_grammar_open(struct sequence_grammar *grammar,
                                  struct grammar_vocabulary *vocabulary, const void *blob,
                                  const struct run_params *run, struct error_text *error)
{
    static const struct keyed_hash_key key = {{0}}; /* equal hashes only cost concurrency */
    enum grammar_result why = GRAMMAR_OK;
    if (!vocabulary)
        return error_set(error, RESULT_CORRUPT, "a grammar came before the vocabulary");
    *grammar = (struct sequence_grammar){
        .words = (uint32_t)grammar_vocabulary_mask_words(vocabulary),
        .family = keyed_hash(&key, blob, run->grammar_bytes),
        .waits_for_thinking = (run->flags & SUBMIT_FLAG_GRAMMAR_AFTER_THINKING) != 0,
    };
    grammar->matcher = grammar_matcher_open(vocabulary, blob, run->grammar_bytes, &why);
    grammar->mask = calloc(grammar->words, sizeof *grammar->mask);
    if (grammar->matcher && grammar->mask)
        return RESULT_OK;
    bool corrupt = !grammar->matcher && why == GRAMMAR_REFUSED;
    enum result result = grammar->matcher || why == GRAMMAR_OK ? RESULT_OUT_OF_MEMORY
                         : corrupt                             ? RESULT_CORRUPT
                                                               : result_of(why);
    sequence_grammar_close(grammar);
    return error_set(error, result, "its grammar cannot be used");
}

void sequence_grammar_close(struct sequence_grammar *grammar)
{
    if (grammar->matcher)
        grammar_matcher_close(grammar->matcher);
    free(grammar->mask);
    *grammar = (struct sequence_grammar){0};
}

static bool prefix_is_left(const struct token_forcer *forcer)
{
    return forcer->prefix_next < forcer->rules.prefix_count;
}

/* Whether the next token may also be the one that starts thinking. */
static bool may_think_first(const struct sequence_grammar *grammar,
                            const struct token_forcer *forcer)
{
    return !grammar->holds && grammar->waits_for_thinking && forcer->followed == 0 &&
           !forcer->is_thinking && forcer->rules.think_start_count == 1 &&
           forcer->rules.think_end_count > 0;
}

/* Whether the grammar governs the next token, which is `token` or another than the start of
 * thinking. */
static bool begins(const struct sequence_grammar *grammar, const struct token_forcer *forcer)
{
    return grammar->holds ||
           (!prefix_is_left(forcer) && !(grammar->waits_for_thinking && forcer->is_thinking));
}

enum result sequence_grammar_follow(struct sequence_grammar *grammar,
                                    const struct token_forcer *forcer, uint32_t token)
{
    if (!grammar->matcher)
        return RESULT_OK;
    grammar->has_mask = false;
    if (!begins(grammar, forcer) ||
        (may_think_first(grammar, forcer) && token == forcer->rules.think_start[0]))
        return RESULT_OK;
    grammar->holds = true;
    return result_of(grammar_matcher_follow(grammar->matcher, &token, 1));
}

bool sequence_grammar_masks(const struct sequence_grammar *grammar,
                            const struct token_forcer *forcer, uint32_t unread)
{
    if (!grammar->matcher)
        return false;
    if (begins(grammar, forcer))
        return true;
    if (unread == 0)
        return false;
    if (prefix_is_left(forcer))
        return forcer->prefix_due && forcer->prefix_next + 1 == forcer->rules.prefix_count;
    return forcer->end_matched + 1 >= forcer->rules.think_end_count;
}

static bool has_token(const uint32_t *mask, uint32_t token)
{
    return (mask[token / 32] >> token % 32 & 1) != 0;
}

/* Applies the rules beside the grammar to a fresh mask; returns how many of its tokens end the
 * answer. */
static uint32_t adjust(struct sequence_grammar *grammar, const struct token_forcer *forcer,
                       const struct grammar_stops *stops)
{
    uint32_t ends = 0;
    for (uint32_t i = 0; i < stops->count; i++) {
        bool repeated = false;
        for (uint32_t before = 0; before < i; before++)
            repeated = repeated || stops->ids[before] == stops->ids[i];
        ends += !repeated && has_token(grammar->mask, stops->ids[i]);
    }
    if (may_think_first(grammar, forcer) && !token_forcer_next(forcer, 0).bars_start) {
        uint32_t start = forcer->rules.think_start[0];
        grammar->allowed += !has_token(grammar->mask, start);
        grammar->mask[start / 32] |= 1u << start % 32;
    }
    if (!stops->barred || grammar->allowed == ends)
        return ends;
    for (uint32_t i = 0; i < stops->count; i++)
        grammar->mask[stops->ids[i] / 32] &= ~(1u << stops->ids[i] % 32);
    grammar->allowed -= ends;
    return 0;
}

void sequence_grammar_compute(struct sequence_grammar *grammar, const struct token_forcer *forcer,
                              const struct grammar_stops *stops)
{
    if (grammar->has_mask)
        return;
    size_t allowed = 0;
    grammar->has_mask = true;
    grammar->verdict = GRAMMAR_HAS_FAILED;
    grammar->failure = result_of(grammar_matcher_mask(grammar->matcher, grammar->mask, &allowed));
    if (grammar->failure != RESULT_OK)
        return;
    grammar->allowed = (uint32_t)allowed;
    uint32_t ends = adjust(grammar, forcer, stops);
    if (grammar->allowed > ends)
        grammar->verdict = GRAMMAR_GOES_ON;
    else if (grammar_matcher_may_end(grammar->matcher))
        grammar->verdict = GRAMMAR_IS_COMPLETE;
    else
        grammar->failure = RESULT_GRAMMAR_DEAD_END;
}

uint32_t sequence_grammar_only(const uint32_t *mask)
{
    uint32_t word = 0;
    while (mask[word] == 0)
        word++;
    return 32 * word + (uint32_t)__builtin_ctz(mask[word]);
}
