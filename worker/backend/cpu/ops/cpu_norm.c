/*
 * rms_norm, layer_norm, rms_norm_add, head_norm and part_norm: each thread normalizes its own rows and
 * quantizes them, while they are in cache, if a product reads them next.
 */
#include "worker/backend/cpu/ops/cpu_ops.h"

/* One row-wise norm; `add` is PLAN_NONE or the tensor added to it. */
static void norm_rows(const struct cpu_step *step, uint32_t index, uint32_t thread, float epsilon,
                      float offset, plan_tensor_id add)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    const float *weight = step->program->vectors[op->weights[0]];
    struct row_share share = cpu_step_share(step, out->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        step->program->kernels->rms_norm(cpu_step_row(step, op->inputs[0], row), weight, offset,
                                         epsilon,
                                         add == PLAN_NONE ? NULL : cpu_step_row(step, add, row),
                                         out->columns, cpu_step_row(step, op->output, row));
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, out->columns);
    }
}

void cpu_rms_norm(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct rms_norm_params *params = &step->program->plan->ops[index].params.rms_norm;
    norm_rows(step, index, thread, params->epsilon, params->weight_offset, PLAN_NONE);
}

void cpu_layer_norm(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct layer_norm_params *params = &op->params.layer_norm;
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    const float *weight = step->program->vectors[op->weights[0]];
    struct row_share share = cpu_step_share(step, out->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        step->program->kernels->layer_norm(cpu_step_row(step, op->inputs[0], row), weight,
                                           params->weight_offset, params->epsilon, out->columns,
                                           cpu_step_row(step, op->output, row));
        if (step->program->notes[index].quantize_output)
            cpu_step_quantize(step, op->output, row, 0, out->columns);
    }
}

void cpu_rms_norm_add(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct rms_norm_add_params *params = &op->params.rms_norm_add;
    norm_rows(step, index, thread, params->epsilon, params->weight_offset, op->inputs[1]);
}

void cpu_head_norm(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct head_norm_params *params = &op->params.head_norm;
    const float *weight =
        op->weights[0] == PLAN_NONE ? step->program->ones : step->program->vectors[op->weights[0]];
    uint32_t head_dim = params->slice.head_dim;
    struct row_share share = cpu_step_share(step, step->program->tensors[op->output].rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        float *head = cpu_step_row(step, op->output, row) + params->slice.offset;
        for (uint32_t h = 0; h < params->slice.heads; h++, head += head_dim)
            step->program->kernels->rms_norm(head, weight, params->weight_offset, params->epsilon,
                                             NULL, head_dim, head);
    }
}

void cpu_part_norm(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    const struct part_norm_params *params = &op->params.part_norm;
    const struct cpu_tensor *out = &step->program->tensors[op->output];
    uint32_t columns = out->columns / params->parts;
    struct row_share share = cpu_step_share(step, out->rows, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        float *part = cpu_step_row(step, op->output, row);
        for (uint32_t p = 0; p < params->parts; p++, part += columns)
            step->program->kernels->layer_norm(part, step->program->vectors[op->weights[0]], 0.0f,
                                               params->epsilon, columns, part);
    }
}
