/*
 * Steps of a draft model: a second, smaller model with the target's vocabulary, loaded in a backend
 * of its own. A step computes rows of several sequences and draws a token for some of them.
 *
 * The backend has as many KV blocks as the target's first full cache group, and block b of one is
 * block b of the other: a sequence has one block table for both. So keys and values of the draft
 * model are shared, given back and cut with those of the target.
 */
#ifndef SHOAL_WORKER_DRAFT_DRAFT_MODEL_H
#define SHOAL_WORKER_DRAFT_DRAFT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/backend/host/backend.h"
#include "worker/draft/drafter.h"

/* Rows of a step, at most. */
#define DRAFT_MODEL_ROWS 512u
/* Tokens that a drafter of blocks proposes for a sequence, at most, and draws of one of its steps. */
#define DRAFT_BLOCK_TOKENS 15u
#define DRAFT_BLOCK_DRAWS  96u

struct draft_model;

struct draft_model_parts {
    struct backend
        *backend; /* loaded for DRAFT_MODEL_ROWS rows and draft_model_draws() logit rows, one
                               * step under way; outlives the draft model */
    uint32_t group_count;  /* of its KV layout; all groups use the one table */
    uint32_t vocab_tokens; /* that it embeds */
    /* [tokens of its logits] the token of each; NULL: they are those that it embeds */
    const uint32_t *token_map;
    uint32_t context_tokens; /* positions that it was made for */
    uint32_t max_sequences;
    /* 0, or an ahead layer or a drafter of the target (worker/model/model.h): the columns of the target's
     * hidden states. A row of position p then has the token at p + 1 and the target's hidden state at p. */
    uint32_t hidden_columns;
    uint32_t
        state_columns; /* of its own states, which further rows have in place of the target's */
    /* Rows are given both, side by side, one as zeros; else they have equally many columns. */
    bool states_apart;
    /* 0, or a drafter of blocks: tokens of a block at most, the last known one and mask tokens, whose rows see
     * each other. */
    uint32_t block_tokens;
    uint32_t mask_token;
    struct draft_model
        *context; /* likewise: computes its cells from the target's hidden states; outlives it */
    /* Its layers read keys and values of the target: a row sees those before its token's position, which is its rotary
     * position, and has a place one before it. */
    bool borrows_caches;
    bool takes_images; /* rows may have features of the target's pool, and rotary positions */
};

/* Draws of a step, at most. */
uint32_t draft_model_draws(const struct draft_model_parts *parts);
/* Fills what follows from the plans: groups, tokens and columns; `plan` is the draft model's. */
void draft_model_describe(const struct plan *target, const struct plan *plan,
                          struct draft_model_parts *parts);
/* Allocates all memory; steps allocate none. */
struct draft_model *draft_model_create(const struct draft_model_parts *parts);
void draft_model_destroy(struct draft_model *model);
const struct draft_model_parts *draft_model_parts(const struct draft_model *model);

/* Rows of one sequence; pointers are read until draft_model_run() returns. */
struct draft_model_rows {
    const uint32_t *tokens; /* [row_count] each < vocab_tokens */
    uint32_t first_position;
    uint32_t row_count;     /* > 0 */
    const uint32_t *blocks; /* block table that covers these positions and all before them */
    const uint32_t *const *
        group_blocks; /* [group_count] tables, in place of `blocks`, with borrows_caches; else NULL */
    const struct row_sampling *samplings; /* [draw_count] */
    uint32_t draw_count; /* the last so many rows have draws: 1 in drafters without blocks, or 0 */
    const float *hidden; /* [row_count, hidden_columns] of the target; NULL: `own`, or none */
    const float *own;    /* [row_count, state_columns] of the draft model, in place of `hidden` */
    /* [row_count] as in struct step_batch; NULL: no features, and positions as in text */
    const uint32_t *feature_rows;
    const struct rope_position *rope_positions;
};
/* Rows that the step being filled has room for. */
uint32_t draft_model_room(const struct draft_model *model);
void draft_model_add(struct draft_model *model, const struct draft_model_rows *rows);
/* Computes the rows added since the last run. results: [draws] in the order of the sequences; tokens of
 * token_map are replaced by those that they stand for. */
enum result draft_model_run(struct draft_model *model, struct sampled_token *results,
                            struct error_text *error) RESULT_CHECKED;
/* Its own hidden states of the last run, [draws, state_columns]; valid until the next run. */
const float *draft_model_hidden(const struct draft_model *model);

/* Class of a token to which the draft model gives this log-probability. */
uint8_t draft_model_class(float logprob);

#endif
