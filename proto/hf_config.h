/*
 * What both processes read of a Hugging Face config.json: of a model with several parts the object
 * that describes the text part, and the context that it was trained for. The rest is the worker's.
 */
#ifndef SHOAL_PROTO_HF_CONFIG_H
#define SHOAL_PROTO_HF_CONFIG_H

#include <stdint.h>

#include "proto/json_value.h"

/* text_config where there is one, else the whole. */
struct json_value hf_config_text(struct json_value config);

/* The context in tokens as stated, or as this model_type has it when its configs leave it out.
 * RESULT_INVALID naming what is wrong: neither, or not a number within 1 to 2^32 - 1. */
enum result hf_config_context(struct json_value config, uint32_t *tokens,
                              struct error_text *error) RESULT_CHECKED;

#endif
