/*
 * Few rows are bound by reading the weights: kernels with packed dots, which also norm their input
 * and gate their output. More rows use matrix kernels. Scratch memory is shared by all ops: first
 * the counters of split products, zero between dispatches, then partial sums or a matrix unpacked
 * to f16.
 */
#include "worker/backend/vulkan/program/vulkan_linear_way.h"

#define EVERY_ROWS 16u /* below it each number of rows may have kernels of its own, */
#define FEW_STEP   8u  /* then up to VULKAN_REGISTER_ROWS each eight, */
#define ROWS_STEP  16u /* and beyond each sixteen */

/* What every dispatch of the task touches. */
const struct vulkan_matrix *vulkan_linear_matrix(const struct vulkan_program *program,
                                                 uint32_t index, uint32_t which)
{
    return &program->weights.matrices[program->weights.by_op[index].index[which]];
}

static bool is_gateable(const struct vulkan_program *program, uint32_t index)
{
    uint32_t gate = program->notes[index].gate;
    if (gate == VULKAN_NO_OP || program->weights.by_op[index].count != 1 ||
        program->notes[index].bias != VULKAN_NO_OP)
        return false;
    plan_tensor_id out = program->plan->ops[gate].output;
    /* The product does not write the padding after the plan's columns. */
    return program->tensors[out].columns == program->plan->tensors[out].columns;
}

enum vulkan_linear_epilogue vulkan_linear_epilogue(const struct vulkan_linear_task *task)
{
    if (!task->gate)
        return task->op->stem == OP_linear_add || task->bias ? VULKAN_LINEAR_ADD
                                                             : VULKAN_LINEAR_STORE;
    return task->gate->params.gate.activation == GATE_SILU ? VULKAN_LINEAR_GATE_SILU
                                                           : VULKAN_LINEAR_GATE_GELU;
}

struct vulkan_matrix_request vulkan_linear_matrix_request(const struct vulkan_linear_task *task,
                                                          const struct vulkan_matrix *matrix)
{
    return (struct vulkan_matrix_request){
        .kind = matrix->kind,
        .rows = task->rows,
        .n = matrix->rows,
        .k = matrix->columns,
        .epilogue = vulkan_linear_epilogue(task),
        .forms = task->gate && task->forms ? task->forms : VULKAN_FORM_F32,
        .scratch_bytes = VULKAN_LINEAR_UNPACKED_MAX,
        .staged = task->staged,
    };
}

struct vulkan_linear_task vulkan_linear_task_make(const struct vulkan_program *program,
                                                  uint32_t index, uint32_t rows,
                                                  struct vulkan_linear_way way, uint32_t forms)
{
    const struct vulkan_fusion_note *note = &program->notes[index];
    return (struct vulkan_linear_task){.index = index,
                                       .rows = rows,
                                       .op = &program->plan->ops[index],
                                       .norm = way.norm ? &program->plan->ops[note->norm] : NULL,
                                       .gate = way.gate ? &program->plan->ops[note->gate] : NULL,
                                       .bias = note->bias != VULKAN_NO_OP &&
                                               program->plan->ops[index].stem == OP_linear,
                                       .forms = forms,
                                       .input = way.input,
                                       .staged = true};
}

/* Whether all products of the task are kernels in PTX. */
static bool is_ptx(const struct vulkan_program *program, const struct vulkan_linear_task *task)
{
    const struct vulkan_facts *facts = &program->device->facts;
    for (uint32_t m = 0; m < program->weights.by_op[task->index].count; m++) {
        const struct vulkan_matrix *matrix = vulkan_linear_matrix(program, task->index, m);
        const struct vulkan_dot_request few = {.kind = matrix->kind,
                                               .rows = task->rows,
                                               .n = matrix->rows,
                                               .k = matrix->columns,
                                               .staged = task->staged};
        const struct vulkan_matrix_request request = vulkan_linear_matrix_request(task, matrix);
        if (vulkan_dot_suits(facts, &few) ||
            vulkan_matrix_tiling_choose(facts, &request).path != VULKAN_MATRIX_PTX)
            return false;
    }
    return true;
}

bool vulkan_linear_reads_biases(const struct vulkan_program *program,
                                const struct vulkan_linear_task *task)
{
    return program->notes[task->index].bias != VULKAN_NO_OP && is_ptx(program, task);
}

/* Kernels in PTX add biases before they gate, and write the padding of the gate's output. Their x is
 * certainly staged only where no other op may want it in another order. */
static bool gates_in_ptx(const struct vulkan_program *program, uint32_t index, uint32_t rows)
{
    const struct vulkan_fusion_note *note = &program->notes[index];
    struct vulkan_linear_way way = {.gate = true};
    if (note->gate == VULKAN_NO_OP || !note->reads_alone ||
        program->weights.by_op[index].count != 1)
        return false;
    const struct vulkan_linear_task task = vulkan_linear_task_make(program, index, rows, way, 0);
    return is_ptx(program, &task);
}

static bool gates(const struct vulkan_program *program, uint32_t index, uint32_t rows)
{
    return is_gateable(program, index) || gates_in_ptx(program, index, rows);
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
    way.gate = gates(program, index, rows);
    for (uint32_t m = 0; m < program->weights.by_op[index].count; m++) {
        const struct vulkan_matrix *matrix = vulkan_linear_matrix(program, index, m);
        const struct vulkan_dot_request few = {.kind = matrix->kind,
                                               .rows = rows,
                                               .n = matrix->rows,
                                               .k = matrix->columns,
                                               .staged = true};
        norms = norms && vulkan_dot_norms(facts, &few);
        if (vulkan_dot_suits(facts, &few)) {
            way.input |= form_of(vulkan_dot_input(facts, &few));
            continue;
        }
        struct vulkan_linear_task task = vulkan_linear_task_make(program, index, rows, way, 0);
        struct vulkan_matrix_request request = vulkan_linear_matrix_request(&task, matrix);
        struct vulkan_matrix_choice choice;
        vulkan_matrix_choose(facts, &request, &choice);
        way.input |= choice.x_form;
    }
    way.norm = norms && way.input == VULKAN_FORM_Q8 && program->notes[index].norm != VULKAN_NO_OP;
    return way;
}

/* Scratch bytes of one op: the maximum over all numbers of rows of the program. Kernels for fewer
 * rows than this loop begins with (linear_dot, linear_plain) need none. */
static uint64_t scratch_of(const struct vulkan_program *program, uint32_t index)
{
    uint64_t max = 0;
    uint32_t min_rows = program->device->facts.batch_invariant ? 1 : VULKAN_HALF_DOT_ROWS + 1;
    uint32_t max_rows =
        vulkan_program_rows(program, program->tensors[program->plan->ops[index].output].rows);
    for (uint32_t m = 0; m < program->weights.by_op[index].count; m++) {
        for (uint32_t rows = min_rows; rows <= max_rows;
             rows = vulkan_linear_next_rows(rows, max_rows)) {
            for (uint32_t form = 0; form < 4; form++) {
                bool staged = form % 2 == 1, apart = form >= 2;
                if (apart && !program->adapters)
                    continue; /* only steps with adapters keep products and gates apart */
                struct vulkan_linear_way way = {.gate = !apart && gates(program, index, rows)};
                const struct vulkan_linear_task task =
                    vulkan_linear_task_make(program, index, rows, way, 0);
                struct vulkan_matrix_request request =
                    vulkan_linear_matrix_request(&task, vulkan_linear_matrix(program, index, m));
                struct vulkan_matrix_choice choice;
                request.staged = staged;
                vulkan_matrix_choose(&program->device->facts, &request, &choice);
                if (choice.partial_bytes > max)
                    max = choice.partial_bytes;
                if (choice.unpacked_bytes > max)
                    max = choice.unpacked_bytes;
            }
        }
    }
    return max;
}

uint32_t vulkan_linear_next_rows(uint32_t rows, uint32_t max)
{
    uint32_t step = rows < EVERY_ROWS ? 1 : rows < VULKAN_REGISTER_ROWS ? FEW_STEP : ROWS_STEP;
    uint32_t next = rows / step * step + step;
    return rows < max && next > max ? max : next;
}

uint64_t vulkan_linear_scratch_bytes(const struct vulkan_program *program)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < program->plan->op_count; i++) {
        enum op_stem stem = program->plan->ops[i].stem;
        uint64_t bytes = stem == OP_linear || stem == OP_linear_add ? scratch_of(program, i) : 0;
        if (bytes > max)
            max = bytes;
    }
    return VULKAN_LINEAR_COUNTERS * sizeof(uint32_t) + max;
}
