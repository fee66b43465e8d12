/*
 * A plan: the forward pass of one checkpoint as a flat list of ops over numbered tensors, built
 * once at load and walked once per step. Dimensions are symbolic in the number of rows: a tensor is
 * [rows of its kind, columns] of f32. A plan names weights by index and does not depend on
 * backends, threads or devices.
 *
 * A family file (family_llama.c, family_gemma3.c) only lists ops through plan_builder.h.
 *
 * A model with vision has a second plan, for its vision tower: its rows are patches of images and
 * their features. It has no KV cache and no logits, and runs in stages.
 */
#ifndef SHOAL_WORKER_PLAN_PLAN_H
#define SHOAL_WORKER_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/gguf_file.h"
#include "worker/plan/kv_layout.h"
#include "worker/plan/model_config.h"
#include "worker/plan/model_vision.h"
#include "worker/plan/op_list.h"
#include "worker/plan/state_layout.h"
#include "worker/plan/tensor_naming.h"
#include "worker/plan/weight_source.h"

enum plan_rows {
    PLAN_ROWS_STEP,    /* one row per token of the step */
    PLAN_ROWS_LOGITS,  /* one row per position whose next token is wanted */
    PLAN_ROWS_PATCHES, /* of a vision plan: one row per patch of the batch of images */
    PLAN_ROWS_FEATURES /* one row per feature of them */
};

typedef uint16_t plan_tensor_id; /* index into plan.tensors */
typedef uint16_t plan_weight_id; /* index into plan.weights */
#define PLAN_NONE UINT16_MAX

struct plan_tensor {
    enum plan_rows rows;
    uint32_t columns;
};

/* One matrix of a stack of experts. */
struct plan_weight_part {
    const void *data;
    struct weight_source source;
    uint64_t first_row;
};

/*
 * A weight matrix [rows, columns] (rows = outputs, columns = the contracted dimension) as the
 * checkpoint stores it, or a vector (rows = 1). `data` points into the mapped checkpoint: rows of
 * `type`, unless `source` names another format that is converted to such rows.
 */
struct plan_weight {
    char name[STORED_NAME_BYTES]; /* the checkpoint's own */
    enum ggml_type type;
    uint32_t rows;
    uint32_t columns;
    uint32_t experts; /* 0: one matrix; otherwise a stack of [experts, rows, columns] */
    const void *data;
    uint64_t data_bytes;
    struct weight_source source;    /* of a matrix; a vector is always in place */
    struct plan_weight_part *parts; /* [experts], or NULL: they are consecutive */
};

/* Number of matrices of a weight: 1, or its experts. */
uint32_t plan_weight_matrices(const struct plan_weight *weight);
/* Matrix `number` of them; its row r is row first_row + r of the source. */
struct plan_weight_part plan_weight_part(const struct plan_weight *weight, uint32_t number);

struct plan_op {
    enum op_stem stem;
    plan_tensor_id inputs[OP_INPUTS_MAX]; /* unused: PLAN_NONE */
    plan_tensor_id output;
    plan_weight_id weights[OP_WEIGHTS_MAX]; /* unused: PLAN_NONE */
    union op_params params;
};

/* Whether values that the output tensor held before the op are still part of it after the op. */
bool plan_op_keeps_output(const struct plan_op *op);

/* Tensors that live across a cut between layers: the residual, and what all layers read (gemma3n's
 * inputs per layer). */
#define PLAN_PASSED_MAX 4u
/* Four per layer, and those before and after the layers. */
#define PLAN_STAGES_MAX (4u * LIMIT_LAYERS + 6u)

struct plan {
    struct model_config config;
    struct kv_layout kv;
    struct state_layout state;
    uint32_t tensor_count;
    struct plan_tensor *tensors;
    uint32_t weight_count;
    struct plan_weight *weights;
    uint32_t op_count;
    struct plan_op *ops;
    plan_tensor_id logits; /* [logit rows, vocab_tokens]; PLAN_NONE of a vision plan, and of a part
                            * without them (plan_split.h) */
    bool lacks_head;       /* the checkpoint has no matrix of logits: only plan_pool() is allowed */
    /* Hidden states between plans: one of its inputs is a tensor that steps are given, [step rows];
     * and the tensor whose rows another plan takes: of a model's plan the normalized residual of all
     * step rows, of the plan of its ahead layer that of the logit rows. */
    bool takes_hidden;
    bool keeps_hidden;
    plan_tensor_id hidden_in;
    plan_tensor_id hidden_out;
    bool pools; /* `logits` are the vectors of plan_pool(); nothing is drawn from them */
    /* Of a part of a plan whose layers are split over devices (plan_split.h): tensors of step rows
     * that steps are given, from the part before, and those that the next part takes. */
    uint32_t taken_count;
    uint32_t passed_count;
    plan_tensor_id taken[PLAN_PASSED_MAX];
    plan_tensor_id passed[PLAN_PASSED_MAX];

    struct model_vision vision; /* of a vision plan */
    /* Of a vision plan whose model takes sounds too: the plan of their tower, with the same feature columns;
     * vision.sounds points into it. Destroyed with this one. */
    struct plan *sound;
    /* Rows of plan_builder_computed(), one allocation for each weight; or NULL. */
    uint32_t computed_count;
    float **computed;
    /* Of a vision plan: stage s ends before op stage_ends[s]. Stage 0 reads the images, the
     * vision.stages others follow. */
    uint32_t stage_ends[PLAN_STAGES_MAX];
};

/* Columns of the widest head of a head_norm op, at least LIMIT_HEAD_DIM: the number of ones that a
 * backend keeps as the weights of norms without weights. */
uint32_t plan_ones(const struct plan *plan);

/* Columns of `logits`. */
uint32_t plan_logit_columns(const struct plan *plan);
/* Tokens that are drawn from: config.logit_tokens, or all. */
uint32_t plan_drawn_tokens(const struct plan *plan);
/* Makes a plan of text one that gives vectors: the product of the logits and what follows it are
 * left out, so that `logits` is what that product reads, the normalized residual. RESULT_UNSUPPORTED
 * if the logits are not made so. */
enum result plan_pool(struct plan *plan, struct error_text *error) RESULT_CHECKED;

/* Bits a weight of all matrices in the types that kernels get, without padding. */
double plan_weight_bits(const struct plan *plan);
/* The types of the matrices with their share of the weights, such as "Q4_0 97.5 %, F32 2.5 %", in
 * the order of their numbers; cut to `capacity`. */
void plan_weight_types(const struct plan *plan, char *text, size_t capacity);

/* Frees a plan of plan_builder_finish(); NULL is allowed. The checkpoint's bytes are not freed. */
void plan_destroy(struct plan *plan);

#endif
