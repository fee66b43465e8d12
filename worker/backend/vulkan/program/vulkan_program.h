/*
 * A plan prepared for a device: where its weights, tensors and KV cache lie, and which ops go
 * together. Built once (vulkan_program_memory.h); vulkan_plan_walk.h turns it into the dispatches
 * of a step.
 *
 * Tensors are f32 [rows, columns]. The input of a linear op also exists in other forms: f16 for
 * matrix units, in rows or for up to 32 of them tiled, and q8 (codes and per 32 columns {d, d *
 * sum}) for packed dot products. Which form a step writes depends on its number of rows.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_PROGRAM_H
#define SHOAL_WORKER_BACKEND_VULKAN_PROGRAM_VULKAN_PROGRAM_H

#include "worker/backend/vulkan/device/vulkan_kernels.h"
#include "worker/backend/vulkan/policy/vulkan_fusion.h"
#include "worker/backend/vulkan/program/vulkan_adapters.h"
#include "worker/backend/vulkan/weights/vulkan_kept_pools.h"
#include "worker/backend/vulkan/weights/vulkan_weights.h"

/* Rows are padded to a multiple of this, those of f16 forms to one of VULKAN_MATRIX_ROWS, so that
 * matrix kernels may read whole tiles. */
#define VULKAN_ROW_PADDING 16u

struct vulkan_tensor {
    enum plan_rows rows;
    uint32_t columns;          /* of a row in memory, padded: vulkan_padding.h */
    struct vulkan_piece whole; /* begins with f32 */
    uint64_t f32;              /* addresses; 0 if the form is never written */
    uint64_t f16;
    uint64_t q8;
    uint64_t q8_terms;
};

/* A layer's keys and values: f16 [block][kv_head][KV_BLOCK_TOKENS][head_dim] each, or a side of
 * kv_codec.h's for each block and head. */
struct vulkan_kv_layer {
    uint64_t keys;
    uint64_t values; /* of a latent layer those of the keys */
};

/* Scratch memory of attention: counters, which begin and end as zeros, then partial results. */
struct vulkan_attention_scratch {
    uint64_t decode_counter_bytes;
    uint64_t tile_counter_bytes;
    uint64_t decode_partial_bytes;
    uint64_t tile_partial_bytes;
};

struct vulkan_program {
    const struct vulkan_device *device;
    const struct plan *plan;
    struct vulkan_kernels *kernels;
    struct vulkan_weights weights;
    struct vulkan_fusion_note *notes; /* [plan->op_count] */
    struct plan whole_plan;           /* of steps that draw from every row (vulkan_whole_plan.h) */
    struct vulkan_fusion_note *whole_notes;
    /* Of steps with adapters: linear ops have no fused neighbours. NULL without adapters. */
    struct vulkan_fusion_note *adapted_notes[2]; /* of the plan, of whole_plan */
    struct vulkan_adapters *adapters;            /* NULL: none can be loaded */
    struct vulkan_tensor *tensors;               /* [plan->tensor_count] */
    struct vulkan_kv_layer *kv;                  /* [LIMIT_LAYERS]; of layers that store keys */
    /* [LIMIT_LAYERS]; of quantized layers: positions before --quantized-kv-start, in full
     * precision */
    struct vulkan_kv_layer *openings;
    struct vulkan_piece scratch; /* of linear ops: counters, then partial results */
    struct vulkan_piece attention_memory;
    struct vulkan_piece moe_memory; /* a step's pairs by expert (vulkan_moe_way.h) */
    struct vulkan_attention_scratch attention_scratch;
    uint32_t tile_rows;          /* of a sequence that attention computes in one tile */
    struct vulkan_piece history; /* u32 [blocks of group 0][KV_BLOCK_TOKENS]: tokens */
    struct vulkan_arena *tensor_memory;
    struct vulkan_arena *kv_memory;
    struct vulkan_arena *scratch_memory;
    struct vulkan_piece
        *states; /* [recurrent layers] f32 [slots][floats of a layer]: vulkan_recurrent_states.h */
    struct vulkan_arena *state_memory;
    uint32_t deferred_places;     /* of deferred rows (struct step_sequence); 0: none */
    struct vulkan_piece deferred; /* f32 [recurrent layers][deferred_places][floats of a row] */
    struct vulkan_arena *deferred_memory;
    enum kept_pools_origin pools_origin; /* of kv_memory and state_memory */
    struct error_text pools_reason;      /* why these are not an earlier worker's, else "" */
    struct vulkan_kv_layer patch_kv;     /* of a vision plan, shared by its layers */
    struct vulkan_arena *patch_memory;
    /* Of a model that takes images, and of its vision plan. */
    bool sees;                    /* text rows have sights */
    bool axes;                    /* rows rotate by several positions */
    bool spans;                   /* text rows may see positions after their own */
    uint32_t feature_columns;     /* of a row of the pool */
    uint64_t features_address;    /* the pool: f32 [rows, feature_columns] */
    struct vulkan_piece features; /* it, in the text's program: of state_memory */
    uint32_t max_step_rows;
    uint32_t max_logit_rows;
    uint32_t max_patch_rows;
};

/* The same program with the plan of steps that draw from every row. A view: no
 * vulkan_program_fini(). */
struct vulkan_program vulkan_program_whole(const struct vulkan_program *program);

/* Likewise of steps in which a row has an adapter; `whole`: that draw from every row. */
struct vulkan_program vulkan_program_adapted(const struct vulkan_program *program, bool whole);

/* Maximum rows of that kind in a step. */
uint32_t vulkan_program_rows(const struct vulkan_program *program, enum plan_rows rows);

#endif
