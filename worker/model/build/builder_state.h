/*
 * What the files that make up plan_builder.h share.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_BUILDER_STATE_H
#define SHOAL_WORKER_MODEL_BUILD_BUILDER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/model/build/plan_source.h"
#include "worker/plan/plan.h"

#define TENSORS_MAX 256u /* activations: a family needs about fifteen */

struct plan_builder {
    struct plan_source source;
    struct error_text *error;
    enum result result;
    struct plan *plan;
    uint32_t weight_capacity;
    uint32_t op_capacity;
    bool *used;                   /* [tensors of the checkpoint] */
    plan_weight_id *weight_of;    /* the same: id, or PLAN_NONE */
    bool written[TENSORS_MAX];    /* [tensor_count] */
    uint32_t routed[TENSORS_MAX]; /* [tensor_count]: experts that a route chooses among; else 0 */
    bool cached[LIMIT_LAYERS];    /* kv_write seen */
    uint32_t stages;              /* ended */
};

/* The shape that a weight is asked for with. */
struct weight_shape {
    uint32_t rows;
    uint32_t columns;
    bool vector;
    bool taps;        /* of a convolution; must be floats, like a vector */
    bool flat;        /* its columns may span several dimensions */
    bool turned;      /* stored transposed */
    uint32_t parts;   /* of the columns, stored in turn; 0: in order */
    uint32_t experts; /* 0: one matrix; else a tensor of three dimensions */
    bool ranged;      /* they are stored one by one, from number `first` on */
    uint32_t first;
};

static inline bool builder_is_float(enum ggml_type type)
{
    return type == GGML_F32 || type == GGML_F16 || type == GGML_BF16;
}

/* The tensor that a family calls `asked`, or NULL; sets `stored` to its name in the checkpoint. */
const struct checkpoint_tensor *builder_find_tensor(const struct plan_builder *builder,
                                                    const char *asked, struct stored_name *stored);
/* The same, with its shape checked, and marked as used. NULL if it is missing or has another shape, or
 * after an error. */
const struct checkpoint_tensor *builder_find_checked(struct plan_builder *builder,
                                                     const char *asked, struct weight_shape shape,
                                                     struct stored_name *stored);
/* Appends a weight of the tensor's data; 0 after an error, which is recorded. */
plan_weight_id builder_add_weight(struct plan_builder *builder,
                                  const struct checkpoint_tensor *tensor, const char *name,
                                  struct weight_shape shape);

#endif
