/*
 * Which layers share a paged KV cache. Layers with the same cache kind form a group: one block id
 * of the group stands for KV_BLOCK_TOKENS positions in every layer of it, so a sequence has one
 * block table per group.
 *
 *   FULL     every position is kept until the sequence ends
 *   SLIDING  blocks that lie entirely before the window are given back while the sequence runs
 *   OPENING  a sequence's first positions; all blocks are given back when the sequence is past them
 *
 * Where the cache is quantized (kv_codec.h), a group is quantized or not as a whole. Sliding
 * layers, which hold little, are not quantized, nor is the last layer that stores keys, if more
 * than two do; that layer is a group of its own. Latent layers, whose values are their keys, hold little
 * too, and are not quantized.
 *
 * If quantization starts after S > 0 tokens, each quantized group has an OPENING group: the same
 * layers in full precision, for positions [0, S). These positions are written to both groups, so
 * nothing has to be converted when a sequence grows beyond S. A row that sees at most S positions
 * reads the OPENING group, any other row the quantized group; the choice depends on the row's
 * sequence alone.
 *
 * A block table maps logical block b (positions b * KV_BLOCK_TOKENS …) to a physical block of the
 * group's pool, or KV_BLOCK_NONE if the block was given back or is not yet taken.
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
    bool latent;         /* keys only: a position's value is its key */
    bool quantized;      /* as the layout's quantization says */
    uint32_t opening;    /* OPENING: S, tokens; else 0 */
    uint32_t opening_of; /* OPENING: the quantized group of the same layers */
};

struct kv_layout {
    uint32_t group_count;
    struct kv_group groups[KV_GROUPS_MAX];
    struct kv_quantization quantization;
    uint32_t layer_count; /* of the model */
    /* Group of a model layer (NONE: it keeps recurrent state; never an OPENING group) and its index
     * in the group; of a layer without keys of its own, those of the layer whose keys it uses. */
    uint8_t layer_group[LIMIT_LAYERS];
    uint16_t layer_index[LIMIT_LAYERS];
};

struct model_config;

/*
 * Groups the attention layers of `config` by window and head shape. RESULT_UNSUPPORTED if that
 * makes more than KV_GROUPS_MAX groups. Group 0 is a FULL group if the model has any full layer; without
 * attention there is one FULL group with a layer of its own that is none of the model's.
 */
enum result kv_layout_init(struct kv_layout *layout, const struct model_config *config,
                           struct error_text *error) RESULT_CHECKED;

/*
 * Groups the layers again, with quantized groups where layers can be quantized. RESULT_UNSUPPORTED
 * if that makes too many groups, if no layer can be quantized, or if a head does not fit the codec
 * (kv_codec_check()); then the layout must not be used. KV_QUANT_NONE changes nothing.
 */
enum result kv_layout_quantize(struct kv_layout *layout, const struct model_config *config,
                               const struct kv_quantization *quantization,
                               struct error_text *error) RESULT_CHECKED;

/* Bytes of one block of group `group`: keys and values (latent: keys), all layers; with `element_bytes` per key or
 * value element (2 for f16) if the group is not quantized. */
uint64_t kv_layout_block_bytes(const struct kv_layout *layout, uint32_t group,
                               uint32_t element_bytes);

/* The OPENING group of quantized group `group`, or KV_GROUP_NONE. */
uint32_t kv_layout_opening(const struct kv_layout *layout, uint32_t group);

/* How many of a sequence's first `tokens` positions have a place in group `group`. */
uint32_t kv_layout_covered_tokens(const struct kv_layout *layout, uint32_t group, uint32_t tokens);

/*
 * Maximum number of blocks of group `group` that a sequence holds while it grows to `tokens`
 * positions in steps of at most `step_tokens` rows: all covered blocks of FULL and OPENING groups;
 * of SLIDING groups the blocks that the window and one step's rows can touch, and those that are
 * kept for a death of the worker (below).
 */
uint32_t kv_layout_blocks_needed(const struct kv_layout *layout, uint32_t group, uint32_t tokens,
                                 uint32_t step_tokens);

/*
 * First logical block of group `group` that a query at `position` or later can still see. 0 for
 * FULL; for OPENING 0, or from S on the number of its blocks.
 */
uint32_t kv_layout_first_block(const struct kv_layout *layout, uint32_t group, uint32_t position);

/*
 * First logical block that a sequence with `computed` positions keeps; the blocks before it may be
 * given back. A sequence whose worker dies resumes at the end of a full block, as far as its blocks
 * are recorded (worker/cache/kv_ledger.h): all but the last KV_UNRECORDED_TOKENS positions of a
 * stream. It keeps what a query there can see.
 */
#define KV_UNRECORDED_TOKENS 2u /* a stream's rows in steps under way: STEP_DEPTH_MAX */
uint32_t kv_layout_first_kept(const struct kv_layout *layout, uint32_t group, uint32_t computed);

#endif
