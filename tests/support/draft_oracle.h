/*
 * A drafter of tests that knows answers: it proposes the right tokens of texts that it was taught,
 * with random mistakes and random lengths, and random tokens for others. So any number of its
 * drafts, from none to all, is right.
 */
#ifndef SHOAL_TESTS_SUPPORT_DRAFT_ORACLE_H
#define SHOAL_TESTS_SUPPORT_DRAFT_ORACLE_H

#include "tests/support/test_random.h"
#include "worker/draft/drafter.h"
#include "worker/schedule/draft_pace.h"

#define DRAFT_ORACLE_TEXTS 64u

struct draft_oracle {
    struct drafter drafter; /* the oracle outlives every state */
    struct test_random random;
    uint32_t vocab_tokens;
    uint32_t taught;
    struct {
        uint32_t *tokens; /* [count] prompt and answer, owned */
        uint32_t count;
    } texts[DRAFT_ORACLE_TEXTS]; /* the latest */
};

void draft_oracle_init(struct draft_oracle *oracle, uint64_t seed, uint32_t vocab_tokens);
void draft_oracle_fini(struct draft_oracle *oracle);
void draft_oracle_teach(struct draft_oracle *oracle, const uint32_t *prompt, uint32_t prompt_tokens,
                        const uint32_t *answer, uint32_t answer_tokens);

/* Figures with which every proposed token is drafted. */
struct draft_pace draft_oracle_pace(void);

#endif
