/*
 * Which layers share a paged KV cache. Layers with the same cache kind form a group: one block id
 * of the group stands for KV_BLOCK_TOKENS positions in every layer of it, so a sequence has one
 * block table per group.
 *
 *   FULL     every position stays until the sequence ends
 *   SLIDING  blocks wholly behind the window are given back while the sequence runs
 *   OPENING  a sequence's first positions; all are given back when it passes them
 *
 * Where the cache is quantized (kv_codec.h), a group is quantized or not as a whole. In full
 * precision stay sliding layers, which hold little, and the model's last layer with keys of its own
 * where there are more than two, which therefore has a group of its own.
 *
 * Where quantization starts behind S > 0 tokens, a quantized group has an OPENING one beside it:
 * the same layers in full precision, for positions [0, S). Such a position is written to both, so
 * that nothing is left to convert when a sequence passes S, whatever step that is in. A row that
 * sees at most S positions reads the opening one, any other the quantized one: which, its sequence
 * alone decides.
 *
 * A block table maps logical block b (positions b * KV_BLOCK_TOKENS …) to a physical block of the
 * group's pool, or KV_BLOCK_NONE where the block was given back or is not yet taken.
 */
#ifndef SHOAL_WORKER_PLAN_KV_LAYOUT_H
#define SHOAL_WORKER_PLAN_KV_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/kv_quantization.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "worker/plan/kv_block.h"

#define KV_GROUPS_MAX 4u
#define KV_GROUP_NONE UINT8_MAX

enum kv_kind { KV_FULL, KV_SLIDING, KV_OPENING };

struct kv_group {
    enum kv_kind kind;
    uint32_t window; /* SLIDING: keys seen including the query's own; else 0 */
    uint32_t layers; /* how many layers store keys in it */
    uint32_t kv_heads;
    uint32_t head_dim;
    bool quantized;      /* as the layout's quantization says */
    uint32_t opening;    /* OPENING: S, tokens; else 0 */
    uint32_t opening_of; /* OPENING: the quantized group of the same layers */
};

struct kv_layout {
    uint32_t group_count;
    struct kv_group groups[KV_GROUPS_MAX];
    struct kv_quantization quantization;
    uint32_t layer_count; /* of the model */
    /* Group of a model layer (NONE: it keeps recurrent state; never an OPENING one), and its index
     * inside the group: where it has no keys of its own, those of the layer that it shares with. */
    uint8_t layer_group[LIMIT_LAYERS];
    uint16_t layer_index[LIMIT_LAYERS];
};

struct model_config;

/*
 * Groups the layers of `config` that attend by window and head shape. RESULT_UNSUPPORTED when there
 * are more than KV_GROUPS_MAX different ones, or when no layer attends. Group 0 is a FULL one where
 * the model has any full layer.
 */
enum result kv_layout_init(struct kv_layout *layout, const struct model_config *config,
                           struct error_text *error) RESULT_CHECKED;

/*
 * Groups the layers anew, with those quantized that can be. RESULT_UNSUPPORTED where that makes too
 * many groups, where no layer can be, or for heads that do not fit (kv_codec_check()); then the
 * layout is not to be used. Nothing changes for KV_QUANT_NONE.
 */
enum result kv_layout_quantize(struct kv_layout *layout, const struct model_config *config,
                               const struct kv_quantization *quantization,
                               struct error_text *error) RESULT_CHECKED;

/* Bytes of one block of group `group`: keys and values, all layers; with `element_bytes` per key or
 * value element (2 for f16) where it is not quantized. */
uint64_t kv_layout_block_bytes(const struct kv_layout *layout, uint32_t group,
                               uint32_t element_bytes);

/* The OPENING group beside a quantized one, or KV_GROUP_NONE. */
uint32_t kv_layout_opening(const struct kv_layout *layout, uint32_t group);

/* How many of a sequence's first `tokens` positions have a place in group `group`. */
uint32_t kv_layout_covered_tokens(const struct kv_layout *layout, uint32_t group, uint32_t tokens);

/*
 * Blocks of group `group` that a sequence holds at most while it grows to `tokens` positions in
 * steps of at most `step_tokens` rows: all that are covered for FULL and OPENING; for SLIDING only
 * those the window and one step's rows can touch.
 */
uint32_t kv_layout_blocks_needed(const struct kv_layout *layout, uint32_t group, uint32_t tokens,
                                 uint32_t step_tokens);

/*
 * First logical block of group `group` that a query at `position` or later can still see; the
 * blocks before it may be given back. 0 for FULL; for OPENING 0 or, from S on, behind the last one.
 */
uint32_t kv_layout_first_block(const struct kv_layout *layout, uint32_t group, uint32_t position);

#endif
