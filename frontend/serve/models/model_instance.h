/*
 * One loaded form of a model: a chat_engine with workers, preparation threads and caches of its own.
 *
 *   a model's `coming` --ready--> its `instance` --replaced, or its model is gone--> retired
 *         |                            |                                               |
 *         +--failed--> destroyed <-----+---- unloaded or failed, without users <-------+
 *
 * A replaced instance admits no more requests and ends with its last one.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_INSTANCE_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_INSTANCE_H

#include "frontend/serve/engine/chat_engine.h"

struct model;
struct model_form;
struct model_instance;
struct model_set;

/* Uses the model's engine, which it has: the instance is not destroyed before it is released, also if
 * another one takes its place. */
struct model_instance *model_use(struct model *model);
struct chat_engine *model_instance_engine(const struct model_instance *instance);
void model_instance_release(struct model_instance *instance);

/* From now on the model is unloaded so long after its last request, instead of after --models-idle;
 * less than 0: never, unless room is needed. Until it is unloaded. Only with --models-dir. */
void model_instance_keep(struct model_instance *instance, int64_t keep_ms);
/* The rest is private to models/. */

/* Starts to load `form`, of which it takes a reference. `state_directory` as in chat_engine_config. */
enum result model_instance_create(struct model *model, struct model_form *form, int state_directory,
                                  struct model_instance **instance,
                                  struct error_text *error) RESULT_CHECKED;
void model_instance_destroy(struct model_instance *instance); /* NULL is allowed; no users */
/* Puts it among the retired ones and drains it. */
void model_instance_retire(struct model_instance *instance);
/* Destroys the retired instances that ended. Returns true if one has ended and still has users. */
bool model_instance_sweep(struct model_set *set);

#endif
