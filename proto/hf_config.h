/*
 * The parts of a Hugging Face config.json that both processes read: the object that describes the
 * text model, and the context that it was trained for.
 */
#ifndef SHOAL_PROTO_HF_CONFIG_H
#define SHOAL_PROTO_HF_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/json_value.h"

/* The part of a config that describes the model which is served: of a class that listens and speaks its
 * thinker_config, which is a config of its own, else the whole. */
struct json_value hf_config_main(struct json_value config);

/* text_config of the main config if there is one, else that. */
struct json_value hf_config_text(struct json_value config);

/* The context in tokens: the config's, or the default of its model_type; of an encoder the positions
 * that it has, and one for the token that ends a request. RESULT_INVALID if there is
 * neither, or it is not a number from 1 to 2^32 - 1; the error text says which. */
enum result hf_config_context(struct json_value config, uint32_t *tokens,
                              struct error_text *error) RESULT_CHECKED;

/* Whether classes of this model_type are encoders, which give vectors and generate no text. */
bool hf_config_is_encoder(const char *model_type);
/* Whether the config is that of an encoder with a class for sequences, such as a cross-encoder. */
bool hf_config_classifies(struct json_value config);

#endif
