/*
 * Runs a checkpoint on a backend step by step: a test chooses the parts of each step and reads the
 * logits of every row. Blocks are taken in scattered order; those that a sliding window has left are
 * freed and overwritten as soon as the contract allows, as in a server.
 *
 * An error in set-up (no file, no memory) ends the program with its reason.
 */
#ifndef SHOAL_TESTS_SUPPORT_MODEL_RUNNER_H
#define SHOAL_TESTS_SUPPORT_MODEL_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/backend/host/backend.h"
#include "worker/model/model.h"

struct model_runner_options {
    const struct vulkan_settings *vulkan; /* on this Vulkan device; NULL: on the CPU */
    uint32_t stage_count;                 /* not 0: the layers are split over these devices */
    struct backend_stage stages[LIMIT_SPLIT_DEVICES];
    bool adapters; /* model_runner_adapter() may be called; CPUs need not be told */
    uint32_t threads;
    enum cpu_tier cpu_tier;
    uint32_t activation_bits; /* as in backend_options */
    enum kv_cache_type kv_type;
    struct kv_quantization quantization;
    uint32_t sequences;       /* slots, at most MODEL_RUNNER_SEQUENCES_MAX */
    uint32_t sequence_tokens; /* positions a slot may grow to */
    uint32_t step_rows;       /* rows of a step at most */
    uint32_t logit_rows;      /* of them with logits at most; 0: all */
    const char *tower;        /* projector file of a GGUF model, or NULL */
    uint32_t feature_rows;    /* of the pool of a model that sees; 0: it stays blind */
};
#define MODEL_RUNNER_SEQUENCES_MAX 64u

/* One sequence's part of a step: its next `count` tokens. Rows of the part from `logit_from` on give
 * logits; `count` for none. The parts of a step are in ascending order of slots. */
struct model_runner_part {
    uint32_t slot;
    const uint32_t *tokens;
    uint32_t count;
    uint32_t logit_from;
    const struct row_sampling *sampling; /* of its draws, whose position is set; NULL: greedy */
    /* [count] as in struct step_batch; NULL: no features, plain positions and ends. */
    const uint32_t *feature_rows;
    const struct rope_position *rope_positions;
    const uint32_t *visible_ends;
    const struct row_crossing
        *crossed; /* NULL: none; of `ranges`, of which there are range_count */
    const struct feature_range *ranges;
    uint32_t range_count;
    uint32_t adapter; /* 0: none; else 1 + a slot of model_runner_adapter() */
    /* Its last rows, < count, that count only as far as model_runner_accept() says; at most
     * MODEL_RUNNER_DRAFTS_MAX. */
    uint32_t drafts;
    /* Recurrent state is kept for model_runner_rewind(), after its rows without drafts, or so many
     * of them or of accepted drafts before. */
    bool keeps_state;
    uint32_t rows_after_kept;
};
#define MODEL_RUNNER_DRAFTS_MAX 32u

struct model_runner; /* opaque */

struct model_runner *model_runner_create(const char *path,
                                         const struct model_runner_options *options);
void model_runner_destroy(struct model_runner *runner);
const struct model *model_runner_model(const struct model_runner *runner);
const struct plan *model_runner_plan(const struct model_runner *runner);
const char *model_runner_description(const struct model_runner *runner);

/* Loads an adapter of the runner's plan into an empty slot, or the one of a PEFT folder; empties a
 * slot. */
void model_runner_adapter_load(struct model_runner *runner, uint32_t slot,
                               const struct lora_adapter *adapter);
void model_runner_adapter_drop(struct model_runner *runner, uint32_t slot);
void model_runner_adapter(struct model_runner *runner, uint32_t slot, const char *folder);

/* Encodes images, one stage in each call. */
void model_runner_encode(struct model_runner *runner, const struct encode_batch *batch);

/* [logit rows of all parts in order, vocab_tokens]; valid until the next step. */
const float *model_runner_step(struct model_runner *runner, const struct model_runner_part *parts,
                               uint32_t part_count);
/* The root mean square of the differences of two rows of logits, divided by the largest magnitude of
 * `reference`. */
double model_runner_row_difference(const float *row, const float *reference, uint32_t count);
/* Tokens drawn by the last step, one for each row of logits. */
const struct sampled_token *model_runner_drawn(const struct model_runner *runner);
/* The first so many drafts of the slot's last part count; its next row follows them. */
void model_runner_accept(struct model_runner *runner, uint32_t slot, uint32_t drafts);
/* Empties a slot: frees its blocks; its next token is at position 0. */
void model_runner_reset(struct model_runner *runner, uint32_t slot);
/* Goes back to the position of the last kept state since the reset; no group may have a window. */
void model_runner_rewind(struct model_runner *runner, uint32_t slot);
/* Number of blocks of group `group` that the slot holds. */
uint32_t model_runner_blocks_held(const struct model_runner *runner, uint32_t slot, uint32_t group);

#endif
