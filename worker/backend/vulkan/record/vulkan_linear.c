/*
 * The dispatches of linear ops, and of the biases that are added to their outputs.
 */
#include "worker/backend/vulkan/record/vulkan_ops.h"

#include "proto/must.h"
#include "worker/backend/vulkan/program/vulkan_linear_way.h"
#include "worker/backend/vulkan/record/vulkan_adapter_part.h"
#include "worker/backend/vulkan/record/vulkan_attention.h"

static struct vulkan_touch touch_of(const struct vulkan_recorder *recorder,
                                    const struct vulkan_linear_task *task,
                                    const struct vulkan_matrix *matrix, bool scratch)
{
    plan_tensor_id x = task->norm ? task->norm->inputs[0] : task->op->inputs[0];
    plan_tensor_id out = task->gate ? task->gate->output : task->op->output;
    return (struct vulkan_touch){
        .reads = {x, vulkan_linear_epilogue(task) == VULKAN_LINEAR_ADD ? out : PLAN_NONE,
                  PLAN_NONE},
        .writes = {out, scratch ? vulkan_recorder_scratch(recorder) : PLAN_NONE},
        .weight_bytes = matrix->codes.bytes + matrix->high.bytes + matrix->scales.bytes,
    };
}

static const struct vulkan_tensor *output_of(const struct vulkan_program *program,
                                             const struct vulkan_linear_task *task)
{
    return &program->tensors[task->gate ? task->gate->output : task->op->output];
}

static void record_dot(struct vulkan_recorder *recorder, const struct vulkan_linear_task *task,
                       const struct vulkan_matrix *matrix, uint32_t column)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *norm = task->norm;
    const struct vulkan_tensor *x = &program->tensors[norm ? norm->inputs[0] : task->op->inputs[0]];
    const struct vulkan_tensor *out = output_of(program, task);
    struct vulkan_dot_request request = {
        .kind = matrix->kind,
        .rows = task->rows,
        .n = matrix->rows,
        .k = matrix->columns,
        .epilogue = vulkan_linear_epilogue(task),
        .forms = task->gate ? task->forms : VULKAN_FORM_F32,
        .staged = task->staged,
    };
    request.input = norm ? VULKAN_LINEAR_NORM
                    : task->input == VULKAN_FORM_F32
                        ? VULKAN_LINEAR_F32
                        : vulkan_dot_input(&program->device->facts, &request);
    request.tiled = request.input == VULKAN_LINEAR_F16 &&
                    vulkan_recorder_tiled(recorder, program->notes[task->index].producer);
    bool q8 = request.input == VULKAN_LINEAR_Q8;
    struct vulkan_linear_dot_push push = {
        .weights = vulkan_recorder_matrix(matrix),
        .x = q8                                   ? x->q8
             : request.input == VULKAN_LINEAR_F16 ? x->f16
                                                  : x->f32,
        .x_terms = q8 ? x->q8_terms : 0,
        .norm_weights = norm ? program->weights.vector_address[norm->weights[0]] : 0,
        .n = matrix->rows,
        .k = matrix->columns,
        .epsilon = norm ? norm->params.rms_norm.epsilon : 0.0f,
        .weight_offset = norm ? norm->params.rms_norm.weight_offset : 0.0f,
        .out_stride = out->columns,
        .rows = task->rows,
        .out_f32 = request.forms & VULKAN_FORM_F32 ? out->f32 + column * sizeof(float) : 0,
        .out_f16 = request.forms & (VULKAN_FORM_F16 | VULKAN_FORM_TILED) ? out->f16 : 0,
        .out_q8 = request.forms & VULKAN_FORM_Q8 ? out->q8 : 0,
        .out_q8_terms = request.forms & VULKAN_FORM_Q8 ? out->q8_terms : 0,
    };
    struct vulkan_dot_choice choice;
    vulkan_dot_choose(&program->device->facts, &request, &choice);
    const struct vulkan_touch touch = touch_of(recorder, task, matrix, false);
    vulkan_recorder_dispatch(recorder, choice.shader, &choice.constants, &push, sizeof push,
                             choice.grid, &touch);
}

/* The product, and the addition of its splits. */
static void dispatch_ptx(struct vulkan_recorder *recorder,
                         const struct vulkan_matrix_request *request,
                         const struct vulkan_matrix_choice *choice,
                         const struct vulkan_linear_matrix_push *matrix, uint64_t biases,
                         const struct vulkan_touch *touch)
{
    const struct vulkan_linear_ptx_push push = vulkan_matrix_ptx_push(request, matrix, biases);
    struct vulkan_touch product = *touch, sum = *touch;
    if (choice->partial_bytes > 0) {
        product.reads[1] = PLAN_NONE; /* what it adds to, the sum's dispatch reads and writes */
        product.writes[0] = PLAN_NONE;
        sum.reads[0] = vulkan_recorder_scratch(recorder);
        sum.writes[1] = PLAN_NONE;
        sum.weight_bytes = choice->partial_bytes;
    }
    vulkan_recorder_dispatch(recorder, choice->product.shader, &choice->product.constants, &push,
                             sizeof push, choice->product.grid, &product);
    if (choice->partial_bytes > 0)
        vulkan_recorder_dispatch(recorder, choice->sum.shader, &choice->sum.constants, &push,
                                 sizeof push, choice->sum.grid, &sum);
}

static void record_matrix(struct vulkan_recorder *recorder, const struct vulkan_linear_task *task,
                          const struct vulkan_matrix *matrix, uint32_t column)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_tensor *x = &program->tensors[task->op->inputs[0]];
    const struct vulkan_tensor *out = output_of(program, task);
    struct vulkan_matrix_request request = vulkan_linear_matrix_request(task, matrix);
    const uint64_t counters = program->scratch.address;
    const uint64_t work = counters + VULKAN_LINEAR_COUNTERS * sizeof(uint32_t);
    struct vulkan_matrix_choice choice;
    request.unaligned = (column | out->columns) % 32 != 0;
    vulkan_matrix_choose(&program->device->facts, &request, &choice);
    must(choice.counter_count <= VULKAN_LINEAR_COUNTERS);
    must(choice.x_rows < vulkan_program_rows(program, x->rows) + VULKAN_MATRIX_ROWS);
    must(work + choice.partial_bytes <= counters + program->scratch.bytes &&
         work + choice.unpacked_bytes <= counters + program->scratch.bytes);
    struct vulkan_linear_matrix_push push = {0};
    vulkan_matrix_push_fill(&request, &choice, &push);
    push.weights = vulkan_recorder_matrix(matrix);
    push.x = choice.x_form == VULKAN_FORM_F32 ? x->f32 : x->f16;
    push.out_f32 = request.forms & VULKAN_FORM_F32 ? out->f32 + column * sizeof(float) : 0;
    push.out_f16 = request.forms & VULKAN_HALF_FORMS ? out->f16 : 0;
    push.out_stride = out->columns;
    push.counters = counters;
    push.partials = work;
    bool scratch = choice.partial_bytes > 0 || choice.unpacked_bytes > 0;
    const struct vulkan_touch touch = touch_of(recorder, task, matrix, scratch);
    if (choice.tiling.path == VULKAN_MATRIX_PTX) {
        dispatch_ptx(recorder, &request, &choice, &push,
                     task->biases ? task->biases + column * sizeof(float) : 0, &touch);
        return;
    }
    if (choice.unpacked_bytes > 0) {
        const struct vulkan_matrix_unpack_push unpack = {
            .weights = push.weights,
            .halves = work,
            .chunks = (uint32_t)((uint64_t)matrix->rows * matrix->columns / 8)};
        const struct vulkan_touch filled = {
            .reads = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
            .writes = {vulkan_recorder_scratch(recorder), PLAN_NONE},
            .weight_bytes = touch.weight_bytes + choice.unpacked_bytes};
        vulkan_recorder_dispatch(recorder, choice.unpack.shader, &choice.unpack.constants, &unpack,
                                 sizeof unpack, choice.unpack.grid, &filled);
        push.weights.codes = work;
    }
    vulkan_recorder_dispatch(recorder, choice.product.shader, &choice.product.constants, &push,
                             sizeof push, choice.product.grid, &touch);
}

/* `lay`: writes the biases only; x is not read. */
static void dispatch_bias(struct vulkan_recorder *recorder, uint32_t index, bool lay,
                          uint32_t forms)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[index];
    const struct vulkan_bias_add_push push = {
        .x = program->tensors[op->inputs[0]].f32,
        .bias = program->weights.vector_address[op->weights[0]],
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .columns = program->tensors[op->output].columns,
    };
    const struct vulkan_row_task task = {OP_bias_add, vulkan_recorder_rows(recorder, op->output),
                                         push.columns, forms, lay};
    const struct vulkan_touch touch = {
        .reads = {lay ? PLAN_NONE : op->inputs[0], PLAN_NONE, PLAN_NONE},
        .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_row_kernel(recorder, &task, &push, sizeof push, &touch);
}

static struct vulkan_linear_task task_of(const struct vulkan_recorder *recorder, uint32_t index,
                                         uint32_t forms)
{
    const struct vulkan_program *program = recorder->program;
    uint32_t rows = vulkan_recorder_rows(recorder, program->plan->ops[index].output);
    struct vulkan_linear_way way = vulkan_linear_way(program, index, rows);
    struct vulkan_linear_task task = vulkan_linear_task_make(program, index, rows, way, forms);
    task.staged = vulkan_recorder_staged(recorder, program->notes[index].producer);
    return task;
}

/* Records the op, with its norm and gate if they are fused. `forms`: of the gate's output. */
static void record_linear(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms)
{
    const struct vulkan_program *program = recorder->program;
    struct vulkan_linear_task task = task_of(recorder, index, forms);
    if (task.op->stem == OP_linear_add && task.op->inputs[1] != task.op->output)
        vulkan_recorder_copy(recorder, task.op->inputs[1], task.op->output);
    bool reads_biases = vulkan_linear_reads_biases(program, &task);
    must(!task.gate || !task.bias || reads_biases);
    if (reads_biases) {
        uint32_t bias = program->notes[index].bias;
        task.bias = false;
        task.biases = program->weights.vector_address[program->plan->ops[bias].weights[0]];
    }
    if (task.bias) /* may overlap with the producer of the input: needs no barrier of its own */
        dispatch_bias(recorder, program->notes[index].bias, true, VULKAN_FORM_F32);
    uint32_t column = 0;
    for (uint32_t m = 0; m < program->weights.by_op[index].count; m++) {
        const struct vulkan_matrix *matrix = vulkan_linear_matrix(program, index, m);
        const struct vulkan_dot_request few = {.kind = matrix->kind,
                                               .rows = task.rows,
                                               .n = matrix->rows,
                                               .k = matrix->columns,
                                               .staged = task.staged};
        if (vulkan_dot_suits(&program->device->facts, &few))
            record_dot(recorder, &task, matrix, column);
        else
            record_matrix(recorder, &task, matrix, column);
        column += matrix->rows;
    }
}

void vulkan_record_bias_add(struct vulkan_recorder *recorder)
{
    const struct vulkan_program *program = recorder->program;
    uint32_t partner = program->notes[recorder->op].partner;
    if (partner != VULKAN_NO_OP && program->plan->ops[partner].stem == OP_linear)
        return;
    if (partner != VULKAN_NO_OP) {
        const struct vulkan_linear_task task = task_of(recorder, partner, 0);
        if (vulkan_linear_reads_biases(program, &task))
            return;
    }
    dispatch_bias(recorder, recorder->op, false, recorder->forms[recorder->op]);
}

void vulkan_record_linear(struct vulkan_recorder *recorder)
{
    uint32_t gate = recorder->program->notes[recorder->op].gate;
    record_linear(recorder, recorder->op, gate == VULKAN_NO_OP ? 0 : recorder->forms[gate]);
    vulkan_adapter_part_record(recorder, recorder->op);
    vulkan_attention_record_ahead(recorder, recorder->op);
}

void vulkan_record_linear_add(struct vulkan_recorder *recorder)
{
    vulkan_record_linear(recorder);
}
