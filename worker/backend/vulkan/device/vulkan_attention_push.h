/*
 * Push constants and specialization constants of norms of heads, rotation, the KV cache and
 * attention, as in vulkan_push.h.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_ATTENTION_PUSH_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_ATTENTION_PUSH_H

#include "worker/backend/vulkan/device/vulkan_push.h"

struct vulkan_rope_kv_write_push {
    uint64_t qkv;          /*   0: f32 [rows, stride], in place */
    uint64_t queries_f16;  /*   8: f16 [rows, heads * head_dim] */
    uint64_t frequencies;  /*  16: f32 [rope_dims / 2], radians per position; u32 twice, axes */
    uint64_t query_norm;   /*  24: f32 [head_dim] */
    uint64_t key_norm;     /*  32: f32 [head_dim] */
    uint64_t keys;         /*  40: the layer's regions of the cache */
    uint64_t values;       /*  48 */
    uint64_t rows;         /*  56: struct vulkan_step_row */
    uint64_t sequences;    /*  64: struct vulkan_step_sequence */
    uint64_t tables;       /*  72: u32 */
    uint32_t stride;       /*  80: columns of qkv */
    uint32_t query_offset; /*  84: columns */
    uint32_t key_offset;   /*  88 */
    uint32_t value_offset; /*  92 */
    float magnitude;       /*  96 */
    float epsilon;         /* 100 */
    float weight_offset;   /* 104 */
    uint32_t opening;      /* 108: positions from here on are not written; 0: all are */
    uint64_t codec;        /* 112: struct vulkan_kv_tables, where codes are of rotated rows */
    uint64_t sights;       /* 120: struct vulkan_step_sight, with axes */
};
static_assert(sizeof(struct vulkan_rope_kv_write_push) == 128, "byte map");
static_assert(offsetof(struct vulkan_rope_kv_write_push, stride) == 80, "byte map");

enum vulkan_heads_part {
    VULKAN_HEADS_NORM = 1,
    VULKAN_HEADS_ROPE = 2,
    VULKAN_HEADS_WRITE = 4,
    VULKAN_HEADS_QUERIES_F16 = 8,  /* queries go to queries_f16, not back */
    VULKAN_HEADS_NORM_VALUES = 16, /* with the norm: values are normed too, without weights */
    VULKAN_HEADS_AXES = 32         /* rotation by several positions */
};
enum vulkan_rope_kv_write_constant {
    VULKAN_ROPE_KV_WRITE_INVOCATIONS,
    VULKAN_ROPE_KV_WRITE_PARTS, /* enum vulkan_heads_part bits */
    VULKAN_ROPE_KV_WRITE_HEAD_DIM,
    VULKAN_ROPE_KV_WRITE_HEADS,
    VULKAN_ROPE_KV_WRITE_KV_HEADS,
    VULKAN_ROPE_KV_WRITE_PAIRING, /* enum rope_pairing */
    VULKAN_ROPE_KV_WRITE_ROPE_DIMS,
    VULKAN_ROPE_KV_WRITE_KV_GROUP,
    VULKAN_ROPE_KV_WRITE_KV_SCHEME, /* enum kv_quant_scheme; shaders/kv_codes.glsl */
    VULKAN_ROPE_KV_WRITE_KEY_HALF_BITS,
    VULKAN_ROPE_KV_WRITE_VALUE_HALF_BITS,
    VULKAN_ROPE_KV_WRITE_GROUP_DIMS,
    VULKAN_ROPE_KV_WRITE_SUBGROUPS,
    VULKAN_ROPE_KV_WRITE_CONSTANTS
};

/* kv_ahead: `marks`, 0 or u32 [invocations of the grid], has 1 where what was read adds up to
 * `wanted`. */
struct vulkan_kv_ahead_push {
    uint64_t keys;      /*  0: the layer's regions */
    uint64_t values;    /*  8 */
    uint64_t sequences; /* 16 */
    uint64_t tables;    /* 24 */
    uint64_t marks;     /* 32 */
    uint32_t wanted;    /* 40 */
    uint32_t reserved;  /* 44 */
};
static_assert(sizeof(struct vulkan_kv_ahead_push) == 48, "byte map");

enum vulkan_kv_ahead_constant {
    VULKAN_KV_AHEAD_INVOCATIONS,
    VULKAN_KV_AHEAD_BLOCK_BYTES,
    VULKAN_KV_AHEAD_WINDOW,
    VULKAN_KV_AHEAD_KV_GROUP,
    VULKAN_KV_AHEAD_CONSTANTS
};

struct vulkan_attention_rows_push {
    uint64_t qkv;                       /*   0: f32 [rows, stride] */
    uint64_t keys;                      /*   8: the layer's regions of the cache */
    uint64_t values;                    /*  16 */
    uint64_t items;                     /*  24: tiles: struct vulkan_step_tile; fused with axes:
                                                 struct vulkan_step_sight */
    uint64_t sequences;                 /*  32: struct vulkan_step_sequence */
    uint64_t tables;                    /*  40: u32 */
    uint64_t partials;                  /*  48: vulkan_attention_choice.partial_bytes */
    uint64_t counters;                  /*  56: u32, all 0 between dispatches */
    struct vulkan_outputs_push outputs; /*  64: [rows, heads * head_dim] */
    union {                             /*  96 */
        uint64_t frequencies; /* fused: f32 [rope_dims / 2] and u32 [rope_dims / 2], axes */
        uint64_t kv_tables;   /* codes of rotated rows: struct vulkan_kv_tables */
    };
    union {                  /* 104 */
        uint64_t query_norm; /* fused with norms: f32 [head_dim] */
        uint64_t sights;     /* spans: struct vulkan_step_sight [rows] */
    };
    union {                /* 112 */
        uint64_t key_norm; /* fused with norms: f32 [head_dim] */
        uint64_t sinks;    /* sinks: f32 [query heads] */
    };
    float epsilon;       /* 120 */
    float weight_offset; /* 124 */
};
static_assert(sizeof(struct vulkan_attention_rows_push) == 128, "byte map");
static_assert(offsetof(struct vulkan_attention_rows_push, outputs) == 64, "byte map");
static_assert(offsetof(struct vulkan_attention_rows_push, kv_tables) == 96, "byte map");
static_assert(offsetof(struct vulkan_attention_rows_push, sights) == 104, "byte map");
static_assert(offsetof(struct vulkan_attention_rows_push, sinks) == 112, "byte map");

enum vulkan_attention_fuse {
    VULKAN_ATTENTION_FUSE_ROPE = 1,
    VULKAN_ATTENTION_FUSE_NORM = 2,
    VULKAN_ATTENTION_FUSE_NORM_VALUES = 4, /* with the norm: values are normed too, without
                                            * weights */
    VULKAN_ATTENTION_FUSE_AXES = 8         /* rope by several positions */
};
enum vulkan_attention_rows_constant {
    VULKAN_ATTENTION_ROWS_INVOCATIONS,
    VULKAN_ATTENTION_ROWS_FORMS,
    VULKAN_ATTENTION_ROWS_HEAD_DIM,
    VULKAN_ATTENTION_ROWS_GROUP_HEADS, /* query heads of a KV head */
    VULKAN_ATTENTION_ROWS_HEAD_TILE,   /* of those, in a workgroup */
    VULKAN_ATTENTION_ROWS_TILE_ROWS,
    VULKAN_ATTENTION_ROWS_LANES, /* of a position */
    VULKAN_ATTENTION_ROWS_UNROLL,
    VULKAN_ATTENTION_ROWS_SUBGROUPS,
    VULKAN_ATTENTION_ROWS_SPLITS,
    VULKAN_ATTENTION_ROWS_SPLIT_TOKENS,
    VULKAN_ATTENTION_ROWS_WINDOW,
    VULKAN_ATTENTION_ROWS_KV_GROUP,
    VULKAN_ATTENTION_ROWS_FUSE, /* enum vulkan_attention_fuse bits */
    VULKAN_ATTENTION_ROWS_PAIRING,
    VULKAN_ATTENTION_ROWS_ROPE_DIMS,
    VULKAN_ATTENTION_ROWS_TILES,
    VULKAN_ATTENTION_ROWS_STRIDE,
    VULKAN_ATTENTION_ROWS_QUERY_OFFSET,
    VULKAN_ATTENTION_ROWS_KEY_OFFSET,
    VULKAN_ATTENTION_ROWS_VALUE_OFFSET,
    VULKAN_ATTENTION_ROWS_SCALE,     /* bits of an f32 */
    VULKAN_ATTENTION_ROWS_MAGNITUDE, /* bits of an f32 */
    VULKAN_ATTENTION_ROWS_SOFT_CAP,  /* bits of an f32 */
    VULKAN_ATTENTION_ROWS_SINKS,
    VULKAN_ATTENTION_ROWS_KV_SCHEME, /* enum kv_quant_scheme; shaders/kv_codes.glsl */
    VULKAN_ATTENTION_ROWS_KEY_HALF_BITS,
    VULKAN_ATTENTION_ROWS_VALUE_HALF_BITS,
    VULKAN_ATTENTION_ROWS_GROUP_DIMS,
    VULKAN_ATTENTION_ROWS_SPANS, /* tiles only: each row sees the positions of its sight */
    VULKAN_ATTENTION_ROWS_CONSTANTS
};

/* attention_codes has the same push constants; neither fused nor in tiles. */
enum vulkan_attention_codes_constant {
    VULKAN_ATTENTION_CODES_INVOCATIONS,
    VULKAN_ATTENTION_CODES_FORMS,
    VULKAN_ATTENTION_CODES_HEAD_DIM,
    VULKAN_ATTENTION_CODES_GROUP_HEADS,
    VULKAN_ATTENTION_CODES_HEAD_TILE,   /* at most 8 */
    VULKAN_ATTENTION_CODES_TILE_BLOCKS, /* taken by a subgroup at once */
    VULKAN_ATTENTION_CODES_SUBGROUPS,
    VULKAN_ATTENTION_CODES_SPLITS,
    VULKAN_ATTENTION_CODES_SPLIT_TOKENS,
    VULKAN_ATTENTION_CODES_WINDOW,
    VULKAN_ATTENTION_CODES_KV_GROUP,
    VULKAN_ATTENTION_CODES_STRIDE,
    VULKAN_ATTENTION_CODES_QUERY_OFFSET,
    VULKAN_ATTENTION_CODES_SCALE,    /* bits of an f32 */
    VULKAN_ATTENTION_CODES_SOFT_CAP, /* bits of an f32 */
    VULKAN_ATTENTION_CODES_SINKS,
    VULKAN_ATTENTION_CODES_KV_SCHEME, /* shaders/kv_codes.glsl */
    VULKAN_ATTENTION_CODES_KEY_HALF_BITS,
    VULKAN_ATTENTION_CODES_VALUE_HALF_BITS,
    VULKAN_ATTENTION_CODES_GROUP_DIMS,
    VULKAN_ATTENTION_CODES_CONSTANTS
};

/* attention_halves too, with the constants of attention_codes before
 * VULKAN_ATTENTION_CODES_KV_SCHEME; the grid says how many splits there are at most. */
#define VULKAN_ATTENTION_HALVES_CONSTANTS VULKAN_ATTENTION_CODES_KV_SCHEME

/* attention_matrix has the same push constants and ignores the fused fields. */
enum vulkan_attention_matrix_constant {
    VULKAN_ATTENTION_MATRIX_INVOCATIONS,
    VULKAN_ATTENTION_MATRIX_FORMS,
    VULKAN_ATTENTION_MATRIX_HEAD_DIM,
    VULKAN_ATTENTION_MATRIX_GROUP_HEADS,
    VULKAN_ATTENTION_MATRIX_HEAD_TILE,
    VULKAN_ATTENTION_MATRIX_TILE_ROWS,
    VULKAN_ATTENTION_MATRIX_SPAN,      /* positions at a time */
    VULKAN_ATTENTION_MATRIX_FRAGMENTS, /* of a subgroup */
    VULKAN_ATTENTION_MATRIX_SUBGROUPS,
    VULKAN_ATTENTION_MATRIX_SPLITS,
    VULKAN_ATTENTION_MATRIX_SPLIT_ROOT,
    VULKAN_ATTENTION_MATRIX_WINDOW,
    VULKAN_ATTENTION_MATRIX_KV_GROUP,
    VULKAN_ATTENTION_MATRIX_UNIT_ROWS,
    VULKAN_ATTENTION_MATRIX_UNIT_COLUMNS,
    VULKAN_ATTENTION_MATRIX_UNIT_K,
    VULKAN_ATTENTION_MATRIX_QUERIES_F16, /* qkv is f16 [rows, heads * head_dim] */
    VULKAN_ATTENTION_MATRIX_STRIDE,
    VULKAN_ATTENTION_MATRIX_QUERY_OFFSET,
    VULKAN_ATTENTION_MATRIX_SUBGROUP_SIZE,
    VULKAN_ATTENTION_MATRIX_SCALE,    /* bits of an f32 */
    VULKAN_ATTENTION_MATRIX_SOFT_CAP, /* bits of an f32 */
    VULKAN_ATTENTION_MATRIX_SINKS,
    VULKAN_ATTENTION_MATRIX_SPANS,
    VULKAN_ATTENTION_MATRIX_KV_SCHEME, /* enum kv_quant_scheme; shaders/kv_codes.glsl */
    VULKAN_ATTENTION_MATRIX_KEY_HALF_BITS,
    VULKAN_ATTENTION_MATRIX_VALUE_HALF_BITS,
    VULKAN_ATTENTION_MATRIX_GROUP_DIMS,
    VULKAN_ATTENTION_MATRIX_CONSTANTS
};

/* attention_wgmma (PTX) has the same push constants and ignores the fused fields. */
enum vulkan_attention_wgmma_constant {
    VULKAN_ATTENTION_WGMMA_INVOCATIONS,
    VULKAN_ATTENTION_WGMMA_SHARED_BYTES,
    VULKAN_ATTENTION_WGMMA_FORMS, /* f32 and at most one of f16 and staged */
    VULKAN_ATTENTION_WGMMA_GROUP_HEADS,
    VULKAN_ATTENTION_WGMMA_HEAD_TILE,
    VULKAN_ATTENTION_WGMMA_SPLIT_ROOT,
    VULKAN_ATTENTION_WGMMA_WINDOW,
    VULKAN_ATTENTION_WGMMA_KV_GROUP,
    VULKAN_ATTENTION_WGMMA_STRIDE,
    VULKAN_ATTENTION_WGMMA_QUERY_OFFSET,
    VULKAN_ATTENTION_WGMMA_SCALE,    /* bits of an f32 */
    VULKAN_ATTENTION_WGMMA_SOFT_CAP, /* bits of an f32 */
    VULKAN_ATTENTION_WGMMA_SINKS,
    VULKAN_ATTENTION_WGMMA_SPANS,
    VULKAN_ATTENTION_WGMMA_CONSTANTS
};

#endif
