/*
 * Reads GGUF metadata into a checked model_config: the keys that all families share. The keys of
 * one family are read by the read_config of its gguf_form (family_form.h).
 */
#ifndef SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_GGUF_H
#define SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_GGUF_H

#include "proto/gguf_file.h"
#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/plan/model_config.h"

/* `family` must have a gguf_form. On success the config satisfies the guarantees of model_config.h.
 * The error names the key or tensor. */
enum result checkpoint_gguf_read(const struct gguf_file *file, const struct model_family *family,
                                 struct model_config *config,
                                 struct error_text *error) RESULT_CHECKED;

/* <arch>.attention.sliding_window; 0 (no window) if the context is not longer than it. */
uint32_t checkpoint_gguf_window(struct checkpoint_keys *keys, const struct model_config *config,
                                bool required);

/* Of families whose attention.head_count_kv (an own key) is a list with 0 for layers that do not attend:
 * sets every layer's kind, `other` for those, and the number of key-value heads, which must be the same in
 * all other layers, of which there must be one. Returns the first layer of kind `other`, or 0. */
uint32_t checkpoint_gguf_read_attending(struct checkpoint_keys *keys, enum layer_kind other,
                                        struct model_config *config);

/* Which biases of attention and of the feed-forward part there are, by the tensors of the first layer:
 * no key states them. */
void checkpoint_gguf_read_biases(struct checkpoint_keys *keys, struct model_config *config);

/* <arch>.embedding_length_per_layer_input and the rows of per_layer_token_embd.weight. */
void checkpoint_gguf_read_per_layer(struct checkpoint_keys *keys, struct model_config *config);

/* What Qwen3-VL's text has beyond qwen3's; the rope is read. */
void checkpoint_gguf_read_qwen3_vl(struct checkpoint_keys *keys, struct model_config *config);

#endif
