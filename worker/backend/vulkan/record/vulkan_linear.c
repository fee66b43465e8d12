/*
 * Linear ops, for any number of rows.
 *
 * A handful of rows is bound by reading the weights: kernels with packed dots, which norm their
 * input and gate their output on the way. More rows go to matrix kernels. Scratch memory is shared
 * by all ops: first the counters of split products, zero between dispatches, then partial sums or a
 * matrix unpacked to f16.
 */
#include "worker/backend/vulkan/record/vulkan_linear.h"

#include "proto/must.h"
#include "worker/backend/vulkan/policy/vulkan_dot_policy.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"
#include "worker/backend/vulkan/record/vulkan_attention.h"
#include "worker/backend/vulkan/record/vulkan_recorder.h"

#define EVERY_ROWS 16u /* below it each number of rows may have kernels of its own, */
#define FEW_STEP   8u  /* then up to VULKAN_REGISTER_ROWS each eight, */
#define ROWS_STEP  16u /* and beyond each sixteen */

/* One linear op at some number of rows, seen together with its fused neighbours. */
struct linear_task {
    uint32_t index;
    uint32_t rows;
    const struct plan_op *op;
    const struct plan_op *norm; /* NULL: not fused */
    const struct plan_op *gate; /* likewise */
    bool bias;                  /* the output holds biases by then */
    uint32_t forms;             /* of a gated output */
    enum vulkan_form input;
};

static const struct vulkan_matrix *matrix_of(const struct vulkan_program *program, uint32_t index,
                                             uint32_t which)
{
    return &program->weights.matrices[program->weights.by_op[index].index[which]];
}

static bool is_gateable(const struct vulkan_program *program, uint32_t index)
{
    uint32_t gate = program->notes[index].gate;
    if (gate == VULKAN_NO_OP || program->weights.by_op[index].count != 1)
        return false;
    plan_tensor_id out = program->plan->ops[gate].output;
    /* The product writes no zeros behind the plan's columns. */
    return program->tensors[out].columns == program->plan->tensors[out].columns;
}

static enum vulkan_linear_epilogue epilogue_of(const struct linear_task *task)
{
    if (task->op->stem == OP_linear_add || task->bias)
        return VULKAN_LINEAR_ADD;
    if (!task->gate)
        return VULKAN_LINEAR_STORE;
    return task->gate->params.gate.activation == GATE_SILU ? VULKAN_LINEAR_GATE_SILU
                                                           : VULKAN_LINEAR_GATE_GELU;
}

static struct vulkan_matrix_request matrix_request(const struct linear_task *task,
                                                   const struct vulkan_matrix *matrix)
{
    return (struct vulkan_matrix_request){
        .kind = matrix->kind,
        .rows = task->rows,
        .n = matrix->rows,
        .k = matrix->columns,
        .epilogue = epilogue_of(task),
        .forms = task->gate && task->forms ? task->forms : VULKAN_FORM_F32,
        .scratch_bytes = VULKAN_LINEAR_UNPACKED_MAX,
    };
}

static struct linear_task make_task(const struct vulkan_program *program, uint32_t index,
                                    uint32_t rows, struct vulkan_linear_way way, uint32_t forms)
{
    const struct vulkan_fusion_note *note = &program->notes[index];
    return (struct linear_task){.index = index,
                                .rows = rows,
                                .op = &program->plan->ops[index],
                                .norm = way.norm ? &program->plan->ops[note->norm] : NULL,
                                .gate = way.gate ? &program->plan->ops[note->gate] : NULL,
                                .bias = note->bias != VULKAN_NO_OP,
                                .forms = forms,
                                .input = way.input};
}

static enum vulkan_form form_of(enum vulkan_linear_input input)
{
    return input == VULKAN_LINEAR_Q8    ? VULKAN_FORM_Q8
           : input == VULKAN_LINEAR_F16 ? VULKAN_FORM_TILED
                                        : VULKAN_FORM_F32;
}

struct vulkan_linear_way vulkan_linear_way(const struct vulkan_program *program, uint32_t index,
                                           uint32_t rows)
{
    const struct vulkan_facts *facts = &program->device->facts;
    struct vulkan_linear_way way = {.gate = is_gateable(program, index)};
    bool norms = true;
    if (rows == 0)
        return way;
    for (uint32_t m = 0; m < program->weights.by_op[index].count; m++) {
        const struct vulkan_matrix *matrix = matrix_of(program, index, m);
        const struct vulkan_dot_request few = {
            .kind = matrix->kind, .rows = rows, .n = matrix->rows, .k = matrix->columns};
        norms = norms && vulkan_dot_norms(facts, &few);
        if (vulkan_dot_suits(facts, &few)) {
            way.input |= form_of(vulkan_dot_input(facts, &few));
            continue;
        }
        struct linear_task task = make_task(program, index, rows, way, 0);
        struct vulkan_matrix_request request = matrix_request(&task, matrix);
        struct vulkan_matrix_choice choice;
        vulkan_matrix_choose(facts, &request, &choice);
        way.input |= choice.x_form;
    }
    way.norm = norms && way.input == VULKAN_FORM_Q8 && program->notes[index].norm != VULKAN_NO_OP;
    return way;
}

bool vulkan_linear_gates_tiled(const struct vulkan_program *program, uint32_t index, uint32_t rows)
{
    return vulkan_linear_way(program, index, rows).input == VULKAN_FORM_TILED;
}

/* What every dispatch of the task touches. */
static struct vulkan_touch touch_of(const struct vulkan_recorder *recorder,
                                    const struct linear_task *task,
                                    const struct vulkan_matrix *matrix, bool scratch)
{
    plan_tensor_id x = task->norm ? task->norm->inputs[0] : task->op->inputs[0];
    plan_tensor_id out = task->gate ? task->gate->output : task->op->output;
    return (struct vulkan_touch){
        .reads = {x, epilogue_of(task) == VULKAN_LINEAR_ADD ? out : PLAN_NONE, PLAN_NONE},
        .writes = {out, scratch ? vulkan_recorder_scratch(recorder) : PLAN_NONE},
        .weight_bytes = matrix->codes.bytes + matrix->high.bytes + matrix->scales.bytes,
    };
}

static const struct vulkan_tensor *output_of(const struct vulkan_program *program,
                                             const struct linear_task *task)
{
    return &program->tensors[task->gate ? task->gate->output : task->op->output];
}

static void record_dot(struct vulkan_recorder *recorder, const struct linear_task *task,
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
        .epilogue = epilogue_of(task),
        .forms = task->gate ? task->forms : VULKAN_FORM_F32,
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

static void record_matrix(struct vulkan_recorder *recorder, const struct linear_task *task,
                          const struct vulkan_matrix *matrix, uint32_t column)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_tensor *x = &program->tensors[task->op->inputs[0]];
    const struct vulkan_tensor *out = output_of(program, task);
    struct vulkan_matrix_request request = matrix_request(task, matrix);
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
    push.x = choice.x_form == VULKAN_FORM_F16 ? x->f16 : x->f32;
    push.out_f32 = request.forms & VULKAN_FORM_F32 ? out->f32 + column * sizeof(float) : 0;
    push.out_f16 = request.forms & VULKAN_FORM_F16 ? out->f16 : 0;
    push.out_stride = out->columns;
    push.counters = counters;
    push.partials = work;
    bool scratch = choice.partial_bytes > 0 || choice.unpacked_bytes > 0;
    const struct vulkan_touch touch = touch_of(recorder, task, matrix, scratch);
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

void vulkan_linear_record(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms)
{
    const struct vulkan_program *program = recorder->program;
    uint32_t rows = vulkan_recorder_rows(recorder, program->plan->ops[index].output);
    struct vulkan_linear_way way = vulkan_linear_way(program, index, rows);
    const struct linear_task task = make_task(program, index, rows, way, forms);
    if (task.op->stem == OP_linear_add && task.op->inputs[1] != task.op->output)
        vulkan_recorder_copy(recorder, task.op->inputs[1], task.op->output);
    if (task.bias) /* beside whatever makes the input: no barrier waits for it alone */
        vulkan_recorder_lay_bias(recorder, program->notes[index].bias);
    uint32_t column = 0;
    for (uint32_t m = 0; m < program->weights.by_op[index].count; m++) {
        const struct vulkan_matrix *matrix = matrix_of(program, index, m);
        const struct vulkan_dot_request few = {
            .kind = matrix->kind, .rows = rows, .n = matrix->rows, .k = matrix->columns};
        if (vulkan_dot_suits(&program->device->facts, &few))
            record_dot(recorder, &task, matrix, column);
        else
            record_matrix(recorder, &task, matrix, column);
        column += matrix->rows;
    }
}

/* Of one op at any number of rows up to the program's most. Kernels that take fewer than those here
 * (linear_dot, linear_plain) need none. */
static uint64_t scratch_of(const struct vulkan_program *program, uint32_t index)
{
    uint64_t most = 0;
    uint32_t most_rows =
        vulkan_program_rows(program, program->tensors[program->plan->ops[index].output].rows);
    for (uint32_t m = 0; m < program->weights.by_op[index].count; m++) {
        for (uint32_t rows = VULKAN_HALF_DOT_ROWS + 1; rows <= most_rows;
             rows = vulkan_linear_next_rows(rows, most_rows)) {
            struct vulkan_linear_way way = {.gate = is_gateable(program, index)};
            const struct linear_task task = make_task(program, index, rows, way, 0);
            const struct vulkan_matrix_request request =
                matrix_request(&task, matrix_of(program, index, m));
            struct vulkan_matrix_choice choice;
            vulkan_matrix_choose(&program->device->facts, &request, &choice);
            if (choice.partial_bytes > most)
                most = choice.partial_bytes;
            if (choice.unpacked_bytes > most)
                most = choice.unpacked_bytes;
        }
    }
    return most;
}

uint32_t vulkan_linear_next_rows(uint32_t rows, uint32_t most)
{
    uint32_t step = rows < EVERY_ROWS ? 1 : rows < VULKAN_REGISTER_ROWS ? FEW_STEP : ROWS_STEP;
    uint32_t next = rows / step * step + step;
    return rows < most && next > most ? most : next;
}

uint64_t vulkan_linear_scratch_bytes(const struct vulkan_program *program)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < program->plan->op_count; i++) {
        enum op_stem stem = program->plan->ops[i].stem;
        uint64_t bytes = stem == OP_linear || stem == OP_linear_add ? scratch_of(program, i) : 0;
        if (bytes > most)
            most = bytes;
    }
    return VULKAN_LINEAR_COUNTERS * sizeof(uint32_t) + most;
}
