/*
 * Joins the tensors of a matrix of integers with zero points: compressed-tensors pack-quantized,
 * AWQ and GPTQ (worker/plan/weight_integers.h has their orders). checkpoint_quantization.c decides
 * which tensors, and how.
 */
#ifndef SHOAL_WORKER_MODEL_HF_INTEGER_TENSORS_H
#define SHOAL_WORKER_MODEL_HF_INTEGER_TENSORS_H

#include "proto/result.h"
#include "worker/plan/tensor_table.h"

struct integer_scheme {
    enum weight_layout layout; /* PACKED, AWQ or GPTQ */
    uint32_t bits;
    uint32_t group;     /* columns; 0: a scale per row */
    bool zeros;         /* has zero points */
    uint32_t zero_step; /* weight_source.zero_step */
};

/* Whether the tensor holds a matrix's codes: X.weight_packed, or X.qweight, in I32. */
bool integer_tensors_match(const struct checkpoint_tensor *tensor, enum weight_layout layout);

/* Joins row `index`, for which integer_tensors_match() is true, with its parts; the result is called
 * X.weight. The parts are X.weight_scale, _zero_point, _g_idx and _shape, or X.scales, X.qzeros and
 * X.g_idx. */
enum result integer_tensors_join(struct tensor_table *table, uint32_t index,
                                 struct integer_scheme scheme,
                                 struct error_text *error) RESULT_CHECKED;

#endif
