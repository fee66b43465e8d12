/*
 * Matrices of a tower whose inputs and outputs are clipped, each by bounds of its own (Gemma 4's towers).
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_CLIPPED_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_CLIPPED_BLOCKS_H

#include "worker/model/build/plan_ops.h"

/* v.blk.N.stem.weight and the bounds beside it, v.blk.N.stem.input_min and so on. */
struct clipped_matrix {
    const char *stem;
    uint32_t layer;
    uint32_t rows;
    uint32_t columns;
    plan_tensor_id x;       /* [patches, columns] */
    plan_tensor_id clipped; /* the same; may be x */
    plan_tensor_id product; /* [patches, rows] */
    plan_tensor_id out;     /* its columns from `offset` on; may be product */
    uint32_t offset;
};

/* Lists matrices that share an input; their outputs are adjacent columns. Without `clips` they are one product
 * into matrices[0].out, and x is not changed. */
void clipped_blocks_list(struct plan_builder *b, bool clips, const struct clipped_matrix *matrices,
                         uint32_t count);
/* A matrix of two halves, of which the second comes first in the output. */
void clipped_blocks_list_swapped(struct plan_builder *b, bool clips,
                                 const struct clipped_matrix *matrix);

#endif
