/*
 * The end of a plan's life. Plans are made by plan_builder.c and only read in between.
 */
#include "worker/model/plan.h"

#include <stdlib.h>

void plan_destroy(struct plan *plan)
{
    if (!plan)
        return;
    free(plan->tensors);
    free(plan->weights);
    free(plan->ops);
    free(plan);
}
