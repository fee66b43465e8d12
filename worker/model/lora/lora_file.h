/*
 * Reads an adapter from the bytes of its files and binds it to a plan: each pair of tensors to the
 * weight that it belongs to.
 *
 *   PEFT  adapter_config.json and adapter_model.safetensors, tensors
 *         base_model.model.MODULE.lora_A.weight [rank, columns] and .lora_B.weight [rows, rank]
 *   GGUF  of general.type "adapter" and adapter.type "lora", as llama.cpp's convert_lora_to_gguf.py
 *         writes them: NAME.lora_a and NAME.lora_b of a weight NAME, scale adapter.lora.alpha / rank
 *
 * Tensors are F32, F16, BF16 or, in GGUF, Q8_0. A pair is bound by the weight's own name in the checkpoint, so PEFT adapters belong to folders and
 * GGUF adapters to GGUF files. A weight may be any that the plan uses in products of the text model
 * alone: projections of attention and FFN, joined ones (qkv_proj) included, and an output matrix that
 * is not tied. Tensors of anything else are refused by name: experts, embeddings, vision towers, DoRA's magnitudes.
 */
#ifndef SHOAL_WORKER_MODEL_LORA_LORA_FILE_H
#define SHOAL_WORKER_MODEL_LORA_LORA_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/plan/lora_adapter.h"

struct lora_bytes {
    const void *config; /* adapter_config.json; NULL: `tensors` are a GGUF file */
    size_t config_bytes;
    const void *tensors; /* aligned to 8 */
    size_t tensor_bytes;
};

/* The adapter points into the bytes; the caller keeps both until lora_file_close(). RESULT_INVALID,
 * UNSUPPORTED or TOO_LARGE; the error text names the file and the member or tensor. Reads every
 * value once: one that is not finite is refused. */
enum result lora_file_open(const struct lora_bytes *bytes, const struct plan *plan,
                           struct lora_adapter *adapter, struct error_text *error) RESULT_CHECKED;
void lora_file_close(struct lora_adapter *adapter);

#endif
