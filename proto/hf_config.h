/*
 * The parts of a Hugging Face config.json that both processes read: the object that describes the
 * text model, and the context that it was trained for.
 */
#ifndef SHOAL_PROTO_HF_CONFIG_H
#define SHOAL_PROTO_HF_CONFIG_H

#include <stdint.h>

#include "proto/json_value.h"

/* text_config if there is one, else the whole config. */
struct json_value hf_config_text(struct json_value config);

/* The context in tokens: the config's, or the default of its model_type. RESULT_INVALID if there is
 * neither, or it is not a number from 1 to 2^32 - 1; the error text says which. */
enum result hf_config_context(struct json_value config, uint32_t *tokens,
                              struct error_text *error) RESULT_CHECKED;

#endif
