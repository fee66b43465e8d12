/*
 * Weights that no kernel reads as they are stored: how they lie in the checkpoint, and their rows
 * in a GGUF element type that holds every value exactly. Backends pack the latter like any other
 * row of that type, so a new way of storing weights needs no kernel.
 *
 *   stored as                                          handed out as           where that is not
 * exact IQ4_NL (GGUF)                                      Q8_0                    - MXFP4 (GGUF);
 * FP4 with an exponent per 32          Q5_0                    BF16
 *
 * A row of the type is exact where its scales fit in halves. Whether they do is seen by reading all
 * of them when the checkpoint is opened (weight_source_choose_type()).
 */
#ifndef SHOAL_WORKER_MODEL_WEIGHT_SOURCE_H
#define SHOAL_WORKER_MODEL_WEIGHT_SOURCE_H

#include <stdint.h>

#include "proto/gguf_file.h"

#define WEIGHT_SOURCE_BLOCK 32u /* columns of a block of every quantized type handed out */

enum weight_layout {
    WEIGHT_IN_PLACE, /* rows of `type` as they are; nothing else is filled */
    WEIGHT_IQ4_NL,   /* GGUF's blocks: a half, 16 bytes of nibbles */
    WEIGHT_MXFP4,    /* GGUF's blocks: an exponent, 16 bytes of nibbles */
    WEIGHT_FP4       /* nibbles in column order; exponents apart, one per 32 columns */
};

struct weight_source {
    enum weight_layout layout;
    enum ggml_type type; /* of the rows handed out */
    const uint8_t *data; /* [rows][row_bytes], of any alignment, as all that follows */
    uint64_t row_bytes;
    const uint8_t *scales; /* FP4: [rows][columns / 32] exponents */
};

/* The source of a GGUF tensor; WEIGHT_IN_PLACE where kernels read its type. */
struct weight_source weight_source_of_gguf(const struct gguf_tensor *tensor);

/* Chooses `type`: the smallest that is exact. Reads every scale of the [rows, columns] matrix. */
void weight_source_choose_type(struct weight_source *source, uint64_t rows, uint64_t columns);

/*
 * Columns [first, first + count) of a row as `type` lays them out, to `out`; both are multiples of
 * WEIGHT_SOURCE_BLOCK. `columns` is the matrix's. must() a source that is not in place.
 */
struct weight_span {
    uint64_t row;
    uint32_t first;
    uint32_t count;
};
void weight_source_read(const struct weight_source *source, uint32_t columns,
                        struct weight_span span, uint8_t *out);

#endif
