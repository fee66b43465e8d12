/*
 * Activation tensors of a family whose layers differ in size: one tensor for each purpose, kind of
 * rows and width, created when first asked for and shared by all layers that ask for the same.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_FAMILY_TENSORS_H
#define SHOAL_WORKER_MODEL_BUILD_FAMILY_TENSORS_H

#include "worker/model/build/plan_builder.h"

enum family_purpose {
    FAMILY_QKV,
    FAMILY_ATTENDED,
    FAMILY_GATE_UP,
    FAMILY_GATED,
    FAMILY_NARROW /* per-layer inputs of one layer */
};

/* A config has few distinct sizes (LAYER_SIZES_MAX of checkpoint_keys.h). */
#define FAMILY_TENSORS_MAX 96u

/* All zeros: empty. */
struct family_tensors {
    uint32_t count;
    struct family_tensor {
        enum family_purpose purpose;
        enum plan_rows rows;
        uint32_t columns;
        plan_tensor_id id;
    } tensors[FAMILY_TENSORS_MAX];
};

plan_tensor_id family_tensors_get(struct family_tensors *tensors, struct plan_builder *builder,
                                  enum family_purpose purpose, enum plan_rows rows,
                                  uint32_t columns);

#endif
