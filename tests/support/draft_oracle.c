/*
 * A text is recognized by all tokens known so far. Several taught texts may begin alike; a random
 * one of them is proposed.
 */
#include "tests/support/draft_oracle.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define MISTAKES 8u /* one of so many proposed tokens is random */

static void *oracle_open(const struct drafter *drafter, uint32_t tokens_max)
{
    (void)tokens_max;
    return (void *)(uintptr_t)drafter;
}

static void oracle_close(void *state)
{
    (void)state;
}

/* A taught text that continues the known tokens, or the number of texts. */
static uint32_t find_text(struct draft_oracle *oracle, const uint32_t *tokens, uint32_t known)
{
    uint32_t first = test_random_below(&oracle->random, DRAFT_ORACLE_TEXTS);
    for (uint32_t i = 0; i < DRAFT_ORACLE_TEXTS; i++) {
        uint32_t at = (first + i) % DRAFT_ORACLE_TEXTS;
        if (oracle->texts[at].count > known &&
            memcmp(oracle->texts[at].tokens, tokens, known * sizeof *tokens) == 0)
            return at;
    }
    return DRAFT_ORACLE_TEXTS;
}

static void oracle_propose(void *state, const uint32_t *tokens, uint32_t known, uint32_t most,
                           struct draft_proposal *proposal)
{
    struct draft_oracle *oracle = state;
    uint32_t text = find_text(oracle, tokens, known);
    proposal->count = test_random_below(&oracle->random, most + 1);
    for (uint32_t i = 0; i < proposal->count; i++) {
        bool right = text < DRAFT_ORACLE_TEXTS && known + i < oracle->texts[text].count &&
                     test_random_below(&oracle->random, MISTAKES) > 0;
        proposal->tokens[i] = right ? oracle->texts[text].tokens[known + i]
                                    : test_random_below(&oracle->random, oracle->vocab_tokens);
        proposal->classes[i] = (uint8_t)test_random_below(&oracle->random, DRAFT_CLASS_TEXT);
    }
}

void draft_oracle_init(struct draft_oracle *oracle, uint64_t seed, uint32_t vocab_tokens)
{
    *oracle = (struct draft_oracle){
        .drafter = {.open = oracle_open, .close = oracle_close, .propose = oracle_propose},
        .random = {.state = seed},
        .vocab_tokens = vocab_tokens};
}

void draft_oracle_fini(struct draft_oracle *oracle)
{
    for (uint32_t i = 0; i < DRAFT_ORACLE_TEXTS; i++)
        free(oracle->texts[i].tokens);
    *oracle = (struct draft_oracle){0};
}

void draft_oracle_teach(struct draft_oracle *oracle, const uint32_t *prompt, uint32_t prompt_tokens,
                        const uint32_t *answer, uint32_t answer_tokens)
{
    uint32_t at = oracle->taught++ % DRAFT_ORACLE_TEXTS;
    free(oracle->texts[at].tokens);
    uint32_t count = prompt_tokens + answer_tokens;
    oracle->texts[at].tokens = must_alloc(count, sizeof(uint32_t));
    oracle->texts[at].count = count;
    memcpy(oracle->texts[at].tokens, prompt, prompt_tokens * sizeof *prompt);
    memcpy(oracle->texts[at].tokens + prompt_tokens, answer, answer_tokens * sizeof *answer);
}

struct draft_pace draft_oracle_pace(void)
{
    struct draft_pace pace = {0};
    for (uint32_t rows = 1; rows <= DRAFT_PACE_ROWS; rows++)
        pace.step_us[rows] = 1000.0;
    return pace;
}
