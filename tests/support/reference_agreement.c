/*
 * Teacher forcing: each recorded sequence is fed in chunks, and the logits of every row are compared
 * with the reference at that position. Logits do not depend on chunking
 * (tests/model/chunk_independence_test.c), so the result equals that of decoding, at prefill speed.
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
#include "worker/sample/row_sampler.h"

#define CHUNK_TOKENS    64u
#define SEQUENCE_TOKENS 2048u

struct tally {
    uint32_t positions;
    uint32_t disagreements;
    double widest_lead; /* the reference's, at a disagreement */
    double difference;  /* sum of |logprob - reference's| of the chosen token */
    double largest_difference;
    double largest_alternative; /* |logprob - reference's| of its alternatives */
    double logprob;             /* sum, ours */
    double reference_logprob;   /* sum */
};

/* Alternatives are compared with the reference's by rank, as clients see them, and by token, because
 * two close ones may be swapped. */
static double alternatives_difference(const struct sampled_token *told, const float *logits,
                                      const struct reference_token *expected)
{
    double largest = 0.0;
    for (uint32_t i = 0; i < expected->alternative_count; i++) {
        double theirs = (double)expected->alternatives[i].logprob;
        uint32_t id = expected->alternatives[i].id;
        double same = (double)told->logprob + (double)logits[id] - (double)logits[told->token];
        largest = fmax(largest, fabs(same - theirs));
        largest = fmax(largest, fabs((double)told->alternatives[i].logprob - theirs));
    }
    return largest;
}

static void add_row(struct tally *tally, const char *name, struct row_sampler *sampler,
                    const float *logits, const struct reference_token *expected)
{
    struct sampled_token told = {.token = expected->id};
    row_sampler_explain(sampler, logits, expected->alternative_count, &told);
    assert_int_equal(told.alternative_count, expected->alternative_count);
    double difference = fabs((double)told.logprob - (double)expected->logprob);
    tally->positions++;
    tally->difference += difference;
    tally->largest_difference = fmax(tally->largest_difference, difference);
    tally->largest_alternative =
        fmax(tally->largest_alternative, alternatives_difference(&told, logits, expected));
    tally->logprob += (double)told.logprob;
    tally->reference_logprob += (double)expected->logprob;
    uint32_t best = told.alternatives[0].token;
    if (best == expected->alternatives[0].id)
        return;
    double lead =
        (double)expected->alternatives[0].logprob - (double)expected->alternatives[1].logprob;
    tally->disagreements++;
    tally->widest_lead = fmax(tally->widest_lead, lead);
    print_message("  %s, scored position %u: best token %u, reference's %u, whose lead was %.4f\n",
                  name, tally->positions, best, expected->alternatives[0].id, lead);
}

static void score(struct model_runner *runner, struct row_sampler *sampler,
                  const struct reference_sequence *sequence, struct tally *tally)
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
            add_row(tally, sequence->name, sampler, logits, &sequence->next[scored++]);
    }
    assert_int_equal(scored, sequence->tokens);
}

static void print_tally(const char *what, const struct tally *tally)
{
    print_message(
        "  %s: %u positions, best token agrees at %.3f %%, the reference's widest lead "
        "where not %.4f, mean logprob difference %.5f, largest %.4f (of its alternatives %.4f), "
        "perplexity %.4f, "
        "reference's %.4f\n",
        what, tally->positions, 100.0 * (1.0 - (double)tally->disagreements / tally->positions),
        tally->widest_lead, tally->difference / tally->positions, tally->largest_difference,
        tally->largest_alternative, exp(-tally->logprob / tally->positions),
        exp(-tally->reference_logprob / tally->positions));
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
    const struct tally *tallies[] = {greedy, text};
    for (int i = 0; i < 2; i++) {
        assert_true(tallies[i]->largest_difference <= c->any_logprob_difference_most);
        assert_true(tallies[i]->largest_alternative <= c->any_alternative_difference_most);
    }
    double ratio = exp((text->reference_logprob - text->logprob) / text->positions);
    assert_true(fabs(ratio - 1.0) <= c->perplexity_ratio_most);
}

void reference_agreement_check(const struct agreement_case *c)
{
    struct llama_cpp_reference *reference = llama_cpp_reference_open(c->reference);
    struct model_runner_options options = {.activation_bits = c->activation_bits,
                                           .kv_type = c->kv_type,
                                           .sequences = 1,
                                           .sequence_tokens = SEQUENCE_TOKENS,
                                           .step_rows = CHUNK_TOKENS};
    struct model_runner *runner = model_runner_create(c->model, &options);
    struct tally greedy = {0}, text = {0};
    struct row_sampler *sampler =
        row_sampler_create(model_runner_plan(runner)->config.vocab_tokens);
    print_message("%s on %s, activations of %u bits, %s KV cache, against %s\n", c->model,
                  model_runner_description(runner), c->activation_bits,
                  kv_cache_type_name(c->kv_type), c->reference);
    for (uint32_t i = 0; i < reference->sequence_count; i++) {
        const struct reference_sequence *sequence = &reference->sequences[i];
        bool is_greedy = strncmp(sequence->name, "greedy", 6) == 0;
        score(runner, sampler, sequence, is_greedy ? &greedy : &text);
    }
    print_tally("greedy", &greedy);
    print_tally("text", &text);
    row_sampler_destroy(sampler);
    model_runner_destroy(runner);
    llama_cpp_reference_close(reference);
    check_bounds(c, &greedy, &text);
}
