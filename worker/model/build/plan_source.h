/*
 * What a plan is built from.
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_PLAN_SOURCE_H
#define SHOAL_WORKER_MODEL_BUILD_PLAN_SOURCE_H

#include "worker/plan/model_vision.h"
#include "worker/plan/tensor_naming.h"
#include "worker/plan/tensor_table.h"

/* The tensors that a plan is built from. `naming` is NULL if the checkpoint uses GGUF's names,
 * which are those that families ask for; a name that no row of it matches is not renamed. */
struct plan_source {
    const struct tensor_table *tensors;
    const struct tensor_naming *naming;
    const char *prefix; /* of the naming */
    const char *layer;  /* likewise (struct naming_place); NULL: as asked for */
    /* set for a vision plan; NULL: a text plan */
    const struct model_vision *vision;
    /* prefixes of the tensors that the plan must use up, ends with NULL; NULL: all tensors */
    const char *const *parts;
    /* of a drafter: the model that it drafts for, some of whose matrices it uses; else NULL */
    const struct plan_source *target;
};

#endif
