/*
 * What config.json says about quantized weights, and the tensors of a folder joined accordingly: a
 * matrix that is stored as several tensors (codes, scales, biases) becomes one row of the table,
 * with the shape that the matrix means, and the other tensors become parts of it.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_QUANTIZATION_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_QUANTIZATION_H

#include "proto/json_value.h"
#include "proto/result.h"
#include "worker/plan/tensor_table.h"

/* `table` is finished; it is again afterwards. RESULT_UNSUPPORTED names a way of quantizing that is
 * not read; other errors name the tensor. */
enum result checkpoint_quantization_apply(struct json_value config, struct tensor_table *table,
                                          struct error_text *error) RESULT_CHECKED;

#endif
