/*
 * A plan's weights on the device.
 *
 * Matrices: weights of one linear op that have the same kind are consecutive and form one matrix
 * (q|k|v, gate|up), so that one dispatch computes them. An embedding that is also the output matrix
 * is stored once. All matrices are in one arena, in the order of the plan: the content of the
 * vault.
 *
 * Vectors: norm weights, biases (those of one op consecutive) as f32 and the rotary embeddings'
 * inverse frequencies, in one small buffer.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_WEIGHTS_H
#define SHOAL_WORKER_BACKEND_VULKAN_WEIGHTS_VULKAN_WEIGHTS_H

#include "worker/backend/host/backend_options.h"
#include "worker/backend/vulkan/device/vulkan_memory.h"
#include "worker/backend/vulkan/weights/vulkan_weight_format.h"

#define VULKAN_NO_MATRIX UINT32_MAX

struct vulkan_matrix {
    const struct vulkan_matrix *lent; /* of another plan, with the same contents; NULL: none */
    enum vulkan_weight_kind kind;
    uint32_t rows;    /* of all its weights */
    uint32_t columns; /* of a row as it lies, padded: vulkan_padding.h */
    uint32_t weight_count;
    plan_weight_id weights[OP_WEIGHTS_MAX];
    struct vulkan_piece codes;
    struct vulkan_piece high;   /* bytes 0 if the kind has none */
    struct vulkan_piece scales; /* likewise */
};

/* The matrices of one op, in order of its output columns. */
struct vulkan_op_matrices {
    uint32_t count;
    uint32_t index[OP_WEIGHTS_MAX];
};

struct vulkan_weights {
    const struct vulkan_device *device;
    const struct plan *plan;
    uint32_t matrix_count;
    struct vulkan_matrix *matrices;   /* [matrix_count] */
    struct vulkan_op_matrices *by_op; /* [plan->op_count] */
    struct vulkan_arena *arena;
    uint64_t matrix_bytes; /* of those that are not lent */
    struct vulkan_buffer vectors;
    uint64_t *vector_address;                  /* [plan->weight_count]; 0 for matrices
                                                  and for biases behind an op's first */
    uint64_t ones_address;                     /* [plan_ones()], for head norms without weights */
    uint64_t rope_address[MODEL_ROPES_MAX];    /* f32 [dims / 2], then u32 [2][dims / 2]: axes */
    uint64_t kv_tables_address[KV_GROUPS_MAX]; /* of groups with codes of rotated rows; else 0 */
};

/* Decides the place of every weight; *weights is zeroed. Allocates nothing on the device. */
void vulkan_weights_init(struct vulkan_weights *weights, const struct vulkan_device *device,
                         const struct plan *plan);
/* Before they are placed: matrices that the loaded weights `lender`, which live longer, have of the same bytes of
 * a checkpoint are used in place of own ones. */
void vulkan_weights_borrow(struct vulkan_weights *weights, const struct vulkan_weights *lender);
void vulkan_weights_fini(struct vulkan_weights *weights);

/* Takes the arena's pieces; shared memory if the weights may outlive the worker. */
enum result vulkan_weights_place(struct vulkan_weights *weights, struct vulkan_arena *arena,
                                 struct error_text *error) RESULT_CHECKED;
/* Packs and uploads every matrix, with as many threads as the options say. */
enum result vulkan_weights_upload(struct vulkan_weights *weights,
                                  const struct backend_options *options,
                                  backend_progress_fn *progress, void *context,
                                  struct error_text *error) RESULT_CHECKED;
/* Norm weights and frequencies: always from the checkpoint. */
enum result vulkan_weights_upload_vectors(struct vulkan_weights *weights,
                                          struct error_text *error) RESULT_CHECKED;

#endif
