/*
 * How attention, and what happens to heads before it, is dispatched for a model's shape and a
 * step's: pure, asked while pipelines are made and while steps are recorded.
 *
 * A step has two kinds of sequences with one dispatch each; either kind may be absent:
 *
 *   decodes  one row each. The kernel looks at all sequences and leaves those with more rows (or
 *            none: padding) alone. When every sequence of the step is one, it can also rotate and
 *            write the row's key and value itself (fuse), which saves the dispatch before it.
 *   tiles    the other sequences, cut by the host into struct vulkan_step_tile of at most
 *            vulkan_attention_policy_tile_rows() consecutive rows; any number of padding tiles
 *            (row_count 0) may follow.
 *
 * The two write different rows and may run side by side. How far a row's context is split over
 * workgroups depends on its own length and on `items`, not on the other sequences.
 *
 * With facts->batch_invariant the host cuts all sequences into tiles, also those with one row, and
 * no context is split: a row's sums do not depend on the tile that it is in.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_ATTENTION_POLICY_H
#define SHOAL_WORKER_BACKEND_VULKAN_POLICY_VULKAN_ATTENTION_POLICY_H

#include "proto/kv_quantization.h"
#include "worker/backend/vulkan/device/vulkan_commands.h"

#define VULKAN_SHORT_CONTEXT 384u   /* positions */
#define VULKAN_FAR_CONTEXT   16384u /* likewise */

/* Classes of a step by the longest context of its decodes. Kernels for short contexts omit unused
 * splits and give the same sums. Kernels for far contexts take contexts of any length; their order
 * of summation differs. */
enum vulkan_reach {
    VULKAN_REACH_COMMON, /* or not told */
    VULKAN_REACH_SHORT,  /* none is longer than VULKAN_SHORT_CONTEXT; steps of decodes alone */
    VULKAN_REACH_FAR,    /* some are longer than VULKAN_FAR_CONTEXT */
};
#define VULKAN_REACHES 3u

/* Classifies a step by its longest context. */
enum vulkan_reach vulkan_attention_policy_reach(uint32_t longest);

/* Rows of one sequence that are attended together: 16 bytes, shaders/step.glsl. */
struct vulkan_step_tile {
    uint32_t sequence;
    uint32_t first_row;
    uint32_t row_count; /* 0: padding */
    uint32_t first_position;
};

/* How a layer's keys and values are quantized: shaders/kv_codes.glsl. */
struct vulkan_kv_codes {
    enum kv_quant_scheme scheme;
    uint32_t key_half_bits; /* of a code, in halves */
    uint32_t value_half_bits;
    uint32_t group_dims;
};

/* Of a layer. */
struct vulkan_attention_shape {
    uint32_t head_dim;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t window;       /* 0: all positions */
    uint32_t kv_group;     /* whose block table */
    uint32_t stride;       /* columns of the q|k|v tensor */
    uint32_t query_offset; /* columns */
    uint32_t key_offset;
    uint32_t value_offset;
    float scale;
    float soft_cap;   /* 0: none */
    bool sinks;       /* not with norms fused */
    uint32_t pairing; /* enum rope_pairing; this and the rest when fused */
    uint32_t rope_dims;
    float magnitude;
    struct vulkan_kv_codes codes; /* not fused */
};

struct vulkan_attention_task {
    struct vulkan_attention_shape shape;
    bool tiles;     /* else decodes */
    bool single;    /* every tile has one row */
    uint32_t items; /* tiles, or sequences, of the step, padding included */
    uint32_t forms; /* enum vulkan_form bits that the output is wanted in */
    uint32_t fuse;  /* enum vulkan_attention_fuse bits; decodes only */
    bool spans;     /* each row sees the positions of its sight; tiles only; not split on a driver
                     * for the CPU, as there may be thousands of tiles */
    enum vulkan_reach reach; /* decodes only */
};

struct vulkan_attention_choice {
    const char *shader;
    struct vulkan_specialization specialization;
    struct vulkan_grid grid;
    uint64_t partial_bytes; /* scratch memory, unused after the dispatch */
    uint64_t counter_bytes; /* zeroed once when allocated; every dispatch leaves zeros */
};

/* The push constants are a struct vulkan_attention_rows_push, whichever shader it is. */
struct vulkan_attention_choice
vulkan_attention_policy_choose(const struct vulkan_facts *facts,
                               const struct vulkan_attention_task *task);

/* Whether the kernel for decodes alone of so many sequences should rotate and write too. */
bool vulkan_attention_policy_fuses(const struct vulkan_facts *facts,
                                   const struct vulkan_attention_shape *shape, uint32_t sequences);

/* Forms that the kernels can write for this shape: enum vulkan_form bits. */
uint32_t vulkan_attention_policy_forms(const struct vulkan_attention_shape *shape);

/* Maximum rows of a tile. A step has one list of tiles, so the minimum over all layers counts. */
uint32_t vulkan_attention_policy_tile_rows(const struct vulkan_facts *facts,
                                           const struct vulkan_attention_shape *shape);

/* Norms, rotation and KV write of `rows` rows; push: struct vulkan_rope_kv_write_push. For an op
 * alone: head_norm and rope are `heads` heads at the slice's offset and no KV heads, kv_write no
 * heads. */
struct vulkan_heads_task {
    uint32_t parts; /* enum vulkan_heads_part bits */
    uint32_t rows;
    uint32_t head_dim;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t pairing;
    uint32_t rope_dims;
    uint32_t kv_group;
    struct vulkan_kv_codes codes;
};

struct vulkan_heads_choice {
    const char *shader;
    struct vulkan_specialization specialization;
    struct vulkan_grid grid;
};

/* The dispatch that reads keys and values of the step's `rows` sequences, which have one row each,
 * before attention needs them; push: struct vulkan_kv_ahead_push. False if it would not pay. */
bool vulkan_attention_policy_ahead(const struct vulkan_facts *facts,
                                   const struct vulkan_attention_shape *shape, uint32_t rows,
                                   struct vulkan_heads_choice *choice);

struct vulkan_heads_choice vulkan_attention_policy_heads(const struct vulkan_facts *facts,
                                                         const struct vulkan_heads_task *task);

#endif
