/*
 * Loads models when there is room, and unloads them. Which one is unloaded to make room decides model_policy.h.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_LOADING_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_LOADING_H

#include "frontend/base/api_error.h"

struct model;
struct model_form;
struct model_set;

/* Both with --models-dir only. Begins to load it, if it is not loaded. */
enum result model_load(struct model *model, struct api_error *error) RESULT_CHECKED;
/* Begins to unload it. A 409 while it has requests or is loading. */
enum result model_unload(struct model *model, struct api_error *error) RESULT_CHECKED;

/* The rest is private to models/. */

/* Begins to load an instance of its form. */
enum result model_instance_begin(struct model *model, struct error_text *error) RESULT_CHECKED;
/* Begins to load models[index] if requests wait for it or it is wanted, or unloads another one to make room. */
void model_load_if_wanted(struct model_set *set, uint32_t index);
/* True if a second copy of the model's weights fits beside all that is loaded. */
bool model_set_has_room(const struct model_set *set, const struct model_form *form);

/* Begins to unload its instance. */
void model_end(struct model *model);
/* Destroys an instance that ended. Its users are told first; those that inspect end by themselves. */
void model_instance_end(struct model *model);
/* Answers its waiting requests, retires its instances and frees it. */
void model_set_remove(struct model_set *set, struct model *model);
void model_destroy(struct model *model); /* no request waits */

#endif
