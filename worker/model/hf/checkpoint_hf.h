/*
 * Reads a Hugging Face config.json into a checked model_config: the keys that all families share.
 * The keys of one family are read by the read_config of its hf_form (family_form.h).
 */
#ifndef SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_H
#define SHOAL_WORKER_MODEL_HF_CHECKPOINT_HF_H

#include "proto/json_value.h"
#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/plan/model_config.h"
#include "worker/plan/tensor_naming.h"

/* Reads attention_bias, which gives q, k, v and the output projection biases; a family that calls it
 * has the key among its own_keys. */
void checkpoint_hf_read_biases(struct checkpoint_keys *keys, struct model_config *config);

/* `root` must be an object. `tower` is one of the class's, if it has towers beside any text; else
 * NULL. On success the config satisfies the guarantees of model_config.h. The
 * error begins with the file's name and names the key. */
enum result checkpoint_hf_read(struct json_value root, const struct model_family *family,
                               const struct model_tower *tower, struct model_config *config,
                               struct error_text *error) RESULT_CHECKED;

/* The usual tensor names of decoders: llama's names, biases of q, k and v, norms of heads, experts.
 */
extern const struct tensor_name checkpoint_hf_usual_names[];
/* Rows of a layer that predicts a further token, after the model's layers. */
#define CHECKPOINT_HF_AHEAD_NAMES                                                                  \
    {"nextn.eh_proj.weight", "^layers.*.eh_proj.weight"},                                          \
        {"nextn.enorm.weight", "^layers.*.enorm.weight"},                                          \
        {"nextn.hnorm.weight", "^layers.*.hnorm.weight"},                                          \
        {"nextn.embed_tokens.weight", "^layers.*.embed_tokens.weight"},                            \
        {"nextn.shared_head_norm.weight", "^layers.*.shared_head.norm.weight"},                    \
    {                                                                                              \
        "nextn.shared_head_head.weight", "^layers.*.shared_head.head.weight"                       \
    }

#endif
