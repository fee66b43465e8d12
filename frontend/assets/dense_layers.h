/*
 * The Dense modules of a sentence-transformers folder: y = act(W x + b) of a text's pooled vector, one
 * after the other. Source of the files' keys: sentence_transformers 6.2, base/modules/dense.py.
 *
 * Opened once; after that it is immutable, and reading it is safe on every thread.
 */
#ifndef SHOAL_FRONTEND_ASSETS_DENSE_LAYERS_H
#define SHOAL_FRONTEND_ASSETS_DENSE_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"
#include "proto/sentence_modules.h"

struct dense_layers;

/*
 * Reads config.json and model.safetensors of each folder in modules->dense. *layers is NULL if there is
 * none. Weights are F32, F16 or BF16 and finite; each is copied as f32. The first layer reads
 * hidden_size columns of the folder's config.json, each later one those of the layer before it.
 *
 * RESULT_UNSUPPORTED: an activation other than Identity and Tanh, a residual, another input or output.
 * RESULT_TOO_LARGE: over LIMIT_HIDDEN columns or LIMIT_DENSE_WEIGHTS. RESULT_INVALID,
 * RESULT_CORRUPT, RESULT_IO, RESULT_OUT_OF_MEMORY as usual. The error text names file and key.
 */
enum result dense_layers_open(int folder_fd, const struct sentence_modules *modules,
                              struct dense_layers **layers,
                              struct error_text *error) RESULT_CHECKED;
void dense_layers_close(struct dense_layers *layers); /* NULL is allowed */

uint32_t dense_layers_inputs(const struct dense_layers *layers);
uint32_t dense_layers_outputs(const struct dense_layers *layers);

/* `vector` [inputs], finite. The result, [outputs] from malloc(), is the caller's; NULL without memory.
 * Sums are taken in double precision; numbers beyond f32 become the largest f32. */
float *dense_layers_apply(const struct dense_layers *layers, const float *vector);

#endif
