/*
 * adapter_config.json of a PEFT adapter: the scale of its pairs. Source: peft 0.21.2, LoraConfig and
 * its tuner.
 *
 *   scale = alpha / rank, or alpha / sqrt(rank) with use_rslora
 *
 * The rank is that of the pair's tensors. Members that would change the result in another way are
 * refused by name: use_dora, bias, modules_to_save, layer_replication and so on, and members that are
 * not known, unless they are off (false, null, empty).
 */
#ifndef SHOAL_WORKER_MODEL_LORA_LORA_CONFIG_H
#define SHOAL_WORKER_MODEL_LORA_LORA_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/json_value.h"
#include "proto/result.h"

struct lora_config {
    float alpha;
    bool root_scale;                 /* use_rslora */
    struct json_value alpha_pattern; /* {module: alpha}; points into the document */
};

/* RESULT_INVALID or RESULT_UNSUPPORTED; the error text begins with the file's name and names the
 * member. */
enum result lora_config_read(const void *json, size_t json_bytes, struct lora_config *config,
                             struct error_text *error) RESULT_CHECKED;

/* The scale of a module of that rank, such as "model.layers.3.self_attn.q_proj". */
enum result lora_config_scale(const struct lora_config *config, const char *module, unsigned rank,
                              float *scale, struct error_text *error) RESULT_CHECKED;

#endif
