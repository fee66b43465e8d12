/*
 * Joins the tensors of a matrix of nibbles: 4-bit floats of compressed-tensors and ModelOpt, and
 * bitsandbytes' tables. checkpoint_quantization.c decides which tensors, and how.
 */
#ifndef SHOAL_WORKER_MODEL_HF_NIBBLE_TENSORS_H
#define SHOAL_WORKER_MODEL_HF_NIBBLE_TENSORS_H

#include "proto/result.h"
#include "worker/plan/tensor_table.h"

enum nibble_form {
    NIBBLES_MXFP4,    /* X.weight_packed, .weight_scale in U8 or F8_E8M0 */
    NIBBLES_NVFP4,    /* X.weight_packed, .weight_scale in F8_E4M3, .weight_global_scale */
    NIBBLES_MODELOPT, /* X.weight, .weight_scale in F8_E4M3, .weight_scale_2 */
    NIBBLES_TABLE     /* X.weight, .weight.absmax, .quant_map, .quant_state.bitsandbytes__nf4 or
                         __fp4, and with scales that are quantized .nested_absmax, .nested_quant_map */
};

/* Whether the tensor, in U8, holds a matrix's codes. */
bool nibble_tensors_match(const struct checkpoint_tensor *tensor, enum nibble_form form);

/* Joins row `index`, for which nibble_tensors_match() is true, with its parts; the result is called
 * X.weight. */
enum result nibble_tensors_join(struct tensor_table *table, uint32_t index, enum nibble_form form,
                                struct error_text *error) RESULT_CHECKED;

#endif
