/*
 * A tap is an op that copies columns, put where a part of the plan could end (plan_split.h). Values beyond the
 * range of f16 are cut off: published drafters were trained on half-precision states.
 */
#include "worker/plan/plan_taps.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/plan/plan_split.h"

#define F16_MOST 65504.0f

struct tap {
    uint32_t at; /* the op before which it is copied */
    plan_tensor_id residual;
};

static enum result find(const struct plan *plan, uint32_t layers, struct tap *tap,
                        struct error_text *error)
{
    if (layers == 0 || layers >= plan->config.layers)
        return error_set(error, RESULT_UNSUPPORTED,
                         "it reads the model's state after %u layers, and the model has %u", layers,
                         plan->config.layers);
    tap->at = plan_split_residual(plan, layers, &tap->residual);
    if (tap->at == 0)
        return error_set(error, RESULT_UNSUPPORTED,
                         "it reads the model's state after %u layers, which models of family %s do "
                         "not hold in one tensor there",
                         layers, plan->config.architecture);
    return RESULT_OK;
}

static struct plan_op copy_op(const struct plan *plan, const struct tap *tap, uint32_t number,
                              plan_tensor_id out)
{
    return (struct plan_op){.stem = OP_clip_columns,
                            .inputs = {tap->residual, PLAN_NONE},
                            .output = out,
                            .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                            .params.clip_columns = {.offset = number * plan->config.hidden,
                                                    .minimum = -F16_MOST,
                                                    .maximum = F16_MOST}};
}

enum result plan_taps_add(struct plan *plan, const uint32_t *layers, uint32_t count,
                          struct error_text *error)
{
    struct tap taps[PLAN_TAPS_MAX];
    must(count > 0 && count <= PLAN_TAPS_MAX && !plan->keeps_hidden);
    for (uint32_t i = 0; i < count; i++) {
        enum result result = find(plan, layers[i], &taps[i], error);
        if (result != RESULT_OK)
            return result;
    }
    struct plan_tensor *tensors = must_alloc(plan->tensor_count + 1, sizeof *tensors);
    struct plan_op *ops = must_alloc(plan->op_count + count, sizeof *ops);
    plan_tensor_id out = (plan_tensor_id)plan->tensor_count;
    uint32_t listed = 0;
    memcpy(tensors, plan->tensors, plan->tensor_count * sizeof *tensors);
    tensors[plan->tensor_count++] =
        (struct plan_tensor){.rows = PLAN_ROWS_STEP, .columns = count * plan->config.hidden};
    for (uint32_t at = 0; at < plan->op_count; at++) {
        for (uint32_t i = 0; i < count; i++)
            if (taps[i].at == at)
                ops[listed++] = copy_op(plan, &taps[i], i, out);
        ops[listed++] = plan->ops[at];
    }
    must(listed == plan->op_count + count);
    free(plan->tensors);
    free(plan->ops);
    plan->tensors = tensors;
    plan->ops = ops;
    plan->op_count = listed;
    plan->keeps_hidden = true;
    plan->hidden_out = out;
    return RESULT_OK;
}
