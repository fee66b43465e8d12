/*
 * Finds the family that a checkpoint's metadata names and reads its config.
 */
#ifndef SHOAL_WORKER_MODEL_FAMILY_REGISTRY_H
#define SHOAL_WORKER_MODEL_FAMILY_REGISTRY_H

#include <stdbool.h>

#include "proto/gguf_file.h"
#include "proto/json_value.h"
#include "proto/result.h"
#include "worker/model/checkpoint/family_form.h"
#include "worker/plan/model_config.h"

/* On success the config satisfies the guarantees of model_config.h. RESULT_UNSUPPORTED for an
 * unknown family. The error names the key or tensor, and for config.json the file first. */
enum result family_registry_read_gguf(const struct gguf_file *file,
                                      const struct model_family **family,
                                      struct model_config *config,
                                      struct error_text *error) RESULT_CHECKED;
enum result family_registry_read_hf(struct json_value root, const struct model_family **family,
                                    struct model_config *config,
                                    struct error_text *error) RESULT_CHECKED;
/* The tower of a class of several parts whose text may be of any family; NULL: it is none of them, or
 * has another kind of vision_config. */
const struct model_tower *family_registry_tower(struct json_value root);
/* The same without a look at vision_config: a tower of a class with this model_type. */
const struct model_tower *family_registry_tower_class(struct json_value root);
/* Whether a family has this model_type itself, not only as the text part of another class. */
bool family_registry_knows(const char *model_type);

#endif
