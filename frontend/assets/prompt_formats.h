/*
 * Chat templates for checkpoints whose publishers ship none, but a program that writes their prompts.
 */
#ifndef SHOAL_FRONTEND_ASSETS_PROMPT_FORMATS_H
#define SHOAL_FRONTEND_ASSETS_PROMPT_FORMATS_H

#include "proto/json_value.h"

/* The source of the template for this config.json, found by its model_type and vision_config; NULL: none is known. */
const char *prompt_formats_template(struct json_value config);

#endif
