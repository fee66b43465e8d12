/*
 * What one step computes: rows of sequences, and the draws from their logits. All pointers belong
 * to the caller and are only read during step_launch() (worker/backend/host/backend.h).
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_STEP_BATCH_H
#define SHOAL_WORKER_BACKEND_HOST_STEP_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/plan/kv_layout.h"
#include "worker/sample/row_sampler.h"

/* Maximum number of steps launched and not yet waited for. */
#define STEP_DEPTH_MAX 2u
_Static_assert(STEP_DEPTH_MAX <= KV_UNRECORDED_TOKENS, "a stream has one row in each step");
/* Time limit of step_wait(): a device that takes longer counts as lost, and the wait fails. Steps
 * are planned to take half a second at most (worker/schedule/step_pace.h). Vulkan drivers that
 * compute on a CPU have ten times as long. */
#define STEP_WAIT_LIMIT_MS 60000u
#define STEP_WAIT_BEAT_MS  100u
/* A token id not yet known to the host: STEP_TOKEN_SAMPLED | j is the token of draw j (index into
 * logit_rows and results) of the step launched just before, waited for or not. */
#define STEP_TOKEN_SAMPLED 0x80000000u

/* One sequence's part of a step: `row_count` consecutive rows at consecutive positions beginning at
 * `first_position`. */
struct step_sequence {
    uint32_t first_row;
    uint32_t row_count;
    uint32_t first_position;
    /* [blocks up to the last row's position, as far as the group covers it], one per group;
     * KV_BLOCK_NONE is allowed for blocks that no row sees */
    const uint32_t *block_tables[KV_GROUPS_MAX];
    /* Its recurrent state, < state_slots; STATE_SLOT_NONE in models without. The slot is as the
     * sequence's last row left it; if first_position is 0 its contents do not matter. */
    uint32_t state_slot;
    /* NONE, or another slot that state_slot becomes a copy of before the rows; first_position is
     * not 0 then. */
    uint32_t state_source;
    /* Deferred rows, in models with recurrent state. The last `deferred_rows` of its rows do not
     * advance the slot: what they would advance it with is kept at consecutive places from
     * deferred_place on. `late_rows` such rows of an earlier step, kept from late_place on, advance
     * the slot before the step's own rows, at the positions just before first_position. No place is
     * both read and written in one step. */
    uint32_t deferred_rows; /* < row_count */
    uint32_t deferred_place;
    uint32_t late_rows;
    uint32_t late_place;
    /* NONE, or another slot that becomes a copy of state_slot as it is before the last
     * `rows_after_copy` of the rows that advance it. */
    uint32_t state_copy;
    uint32_t rows_after_copy;
    uint32_t adapter; /* 0: none; else 1 + the slot of its adapter, which is loaded */
};

/* Position of a token in a model with grid_positions (worker/plan/model_vision.h). */
struct rope_position {
    uint32_t time;
    uint32_t height;
    uint32_t width;
};

/* Rows of the feature pool. */
struct feature_range {
    uint32_t first_row;
    uint32_t row_count;
};

/* What a row attends to (op cross_attention): range_count of the batch's ranges. */
struct row_crossing {
    uint32_t first_range;
    uint32_t range_count; /* 0: nothing */
    bool blind; /* the row counts as one that sees nothing (op seeing_rows) all the same */
};

/* A row that embeds its token. */
#define ROW_FEATURE_NONE UINT32_MAX

struct step_batch {
    uint32_t row_count;        /* 1..max_step_rows */
    const uint32_t *token_ids; /* [row_count], each < vocab_tokens or STEP_TOKEN_SAMPLED | j */
    uint32_t sequence_count;
    const struct step_sequence *sequences; /* in row order, covering all rows */
    uint32_t logit_row_count;
    const uint32_t *logit_rows;           /* [logit_row_count] ascending row numbers */
    const struct row_sampling *samplings; /* [logit_row_count] */
    /* Draws lack their masks: the rows are computed, and the draws begin with step_draw(). Only set
     * if the backend has that function. */
    bool awaits_masks;

    /* [row_count, columns of plan->hidden_in]; NULL if the plan takes no hidden states. */
    const float *hidden;
    /* [plan->taken_count] tensors that the part before passed on, each [row_count, columns]; NULL if
     * the plan takes none. */
    const float *const *taken;

    /* For images; NULL if no row of the step needs it. */

    /* [row_count] rows of the feature pool that replace the tokens' embeddings, or
     * ROW_FEATURE_NONE. token_ids of such a row must be a valid token; only the token history uses
     * it. */
    const uint32_t *feature_rows;
    /* [row_count] rotary positions; NULL: each row's position in its sequence, three times. The KV
     * cache always uses the position in the sequence. */
    const struct rope_position *rope_positions;
    /* [row_count] a row sees the positions of its sequence below this value: at least its own
     * position + 1 (the meaning of NULL), at most the end of its sequence's rows in this step. In
     * models with spans_whole it is the end of the span for rows of a span. It never decreases from
     * a row of a sequence to the next. */
    const uint32_t *visible_ends;
    /* [row_count] in models with crossed_layers; NULL: no row attends to features. Neighbours may share ranges. */
    const struct row_crossing *crossed;
    const struct feature_range *ranges; /* [range_count] */
    uint32_t range_count;
};

#endif
