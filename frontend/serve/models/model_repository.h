/*
 * The models of one repository of Hugging Face's cache, when --models-dir is such a cache: what `shoal pull` and POST /api/pull
 * put there.
 *
 * Of the branch main each GGUF file is a model org/name:QUANT, and a folder of safetensors the model org/name. The model that
 * org/name means without a type has both names.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_REPOSITORY_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_REPOSITORY_H

#include "frontend/serve/models/model_place.h"

/* True if the entry's name is that of a repository (models--org--name). */
bool model_repository_is_one(const char *entry);
/* Fills at most `capacity` places; the caller ends each with model_place_fini(). Returns their number: 0 if it has no complete
 * model. */
uint32_t model_repository_read(const char *cache, const char *entry, struct model_place *places,
                               uint32_t capacity);

#endif
