/*
 * Teacher forcing: each recorded sequence is fed in chunks, every row's logits are compared with
 * what the reference said at that position. As the worker's numbers do not depend on chunking
 * (tests/model/chunk_independence_test.c), this is what decoding would give, at prefill's speed.
 *
 * Sequences called "greedy…" are the reference's own continuations; the others (a text) give a
 * perplexity.
 */
#include "tests/support/reference_agreement.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/llama_cpp_reference.h"
#include "tests/support/model_runner.h"

#define CHUNK_TOKENS    64u
#define SEQUENCE_TOKENS 2048u

struct tally {
    uint32_t positions;
    uint32_t disagreements;
    double widest_lead; /* the reference's, at a disagreement */
    double difference;  /* sum of |logprob - reference's| of the chosen token */
    double largest_difference;
    double logprob;           /* sum, ours */
    double reference_logprob; /* sum */
};

static uint32_t best_of(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static double logprob_of(const float *logits, uint32_t count, uint32_t best, uint32_t token)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += exp((double)logits[i] - (double)logits[best]);
    return (double)logits[token] - (double)logits[best] - log(sum);
}

static void add_row(struct tally *tally, const char *name, const float *logits, uint32_t vocab,
                    const struct reference_token *expected)
{
    uint32_t best = best_of(logits, vocab);
    double logprob = logprob_of(logits, vocab, best, expected->id);
    double difference = fabs(logprob - (double)expected->logprob);
    tally->positions++;
    tally->difference += difference;
    tally->largest_difference = fmax(tally->largest_difference, difference);
    tally->logprob += logprob;
    tally->reference_logprob += (double)expected->logprob;
    if (best == expected->best)
        return;
    double lead = (double)expected->best_logprob - (double)expected->second_logprob;
    tally->disagreements++;
    tally->widest_lead = fmax(tally->widest_lead, lead);
    print_message("  %s, scored position %u: best token %u, reference's %u, whose lead was %.4f\n",
                  name, tally->positions, best, expected->best, lead);
}

static void score(struct model_runner *runner, const struct reference_sequence *sequence,
                  struct tally *tally)
{
    uint32_t vocab = model_runner_plan(runner)->config.vocab_tokens;
    uint32_t first_scored = sequence->prompt_tokens - 1;
    uint32_t end = first_scored + sequence->tokens; /* nothing follows the last token */
    uint32_t scored = 0;
    model_runner_reset(runner, 0);
    for (uint32_t from = 0; from < end; from += CHUNK_TOKENS) {
        uint32_t count = end - from < CHUNK_TOKENS ? end - from : CHUNK_TOKENS;
        uint32_t skip = first_scored > from ? first_scored - from : 0;
        struct model_runner_part part = {.tokens = sequence->ids + from,
                                         .count = count,
                                         .logit_from = skip < count ? skip : count};
        const float *logits = model_runner_step(runner, &part, 1);
        for (uint32_t row = part.logit_from; row < count; row++, logits += vocab)
            add_row(tally, sequence->name, logits, vocab, &sequence->next[scored++]);
    }
    assert_int_equal(scored, sequence->tokens);
}

static void print_tally(const char *what, const struct tally *tally)
{
    print_message(
        "  %s: %u positions, best token agrees at %.3f %%, the reference's widest lead "
        "where not %.4f, mean logprob difference %.5f, largest %.4f, perplexity %.4f, "
        "reference's %.4f\n",
        what, tally->positions, 100.0 * (1.0 - (double)tally->disagreements / tally->positions),
        tally->widest_lead, tally->difference / tally->positions, tally->largest_difference,
        exp(-tally->logprob / tally->positions), exp(-tally->reference_logprob / tally->positions));
}

static void check_bounds(const struct agreement_case *c, const struct tally *greedy,
                         const struct tally *text)
{
    double positions = greedy->positions;
    assert_true(greedy->positions > 0);
    assert_true(1.0 - greedy->disagreements / positions >= c->best_agrees_least);
    assert_true(greedy->widest_lead <= c->disagreement_lead_most);
    assert_true(greedy->difference / positions <= c->logprob_difference_most);
    assert_true(text->positions > 0);
    double ratio = exp((text->reference_logprob - text->logprob) / text->positions);
    assert_true(fabs(ratio - 1.0) <= c->perplexity_ratio_most);
}

void reference_agreement_check(const struct agreement_case *c)
{
    struct llama_cpp_reference *reference = llama_cpp_reference_open(c->reference);
    struct model_runner_options options = {.kv_type = c->kv_type,
                                           .sequences = 1,
                                           .sequence_tokens = SEQUENCE_TOKENS,
                                           .step_rows = CHUNK_TOKENS};
    struct model_runner *runner = model_runner_create(c->model, &options);
    struct tally greedy = {0}, text = {0};
    print_message("%s on %s, %s KV cache, against %s\n", c->model, model_runner_description(runner),
                  kv_cache_type_name(c->kv_type), c->reference);
    for (uint32_t i = 0; i < reference->sequence_count; i++) {
        const struct reference_sequence *sequence = &reference->sequences[i];
        bool is_greedy = strncmp(sequence->name, "greedy", 6) == 0;
        score(runner, sequence, is_greedy ? &greedy : &text);
    }
    print_tally("greedy", &greedy);
    print_tally("text", &text);
    model_runner_destroy(runner);
    llama_cpp_reference_close(reference);
    check_bounds(c, &greedy, &text);
}
