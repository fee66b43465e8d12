/*
 * Reads which weights config.json declares quantized, and joins the tensors of a folder
 * accordingly: a matrix that is stored as several tensors (codes, scales, biases) becomes one row
 * of the table, with the shape of the matrix, and the other tensors become parts of it.
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_QUANTIZATION_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_QUANTIZATION_H

#include "proto/json_value.h"
#include "proto/result.h"
#include "worker/plan/tensor_table.h"

/* `table` must be finished, and is finished again on return. RESULT_UNSUPPORTED names a method that
 * is not supported; other errors name the tensor. */
enum result checkpoint_quantization_apply(struct json_value config, struct tensor_table *table,
                                          struct error_text *error) RESULT_CHECKED;

#endif
