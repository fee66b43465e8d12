/*
 * One loaded form of a model: a chat_engine with workers, preparation threads and caches of its own.
 *
 *   a model's `coming` --ready--> its `instance` --replaced, or its model is gone--> retired
 *         |                            |                                               |
 *         +--failed--> destroyed <-----+---- unloaded or failed, without users <-------+
 *
 * A replaced instance admits no more requests and ends with its last one. Private to models/; the
 * routes have the functions in model_set.h.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_INSTANCE_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_INSTANCE_H

#include "frontend/serve/models/model_form.h"
#include "frontend/serve/models/model_set.h"

struct model_instance {
    struct model_set *set;
    struct model *model; /* NULL: retired */
    struct model_form *form;
    struct chat_engine *engine;
    struct model_instance *next; /* of the retired ones */
    uint32_t uses;
    bool ready;
    bool ended; /* it can be destroyed once it has no users */
    bool failed;
    struct error_text failure; /* if it failed */
};

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
