/*
 * Barriers and quantization, decided once per plan.
 *
 * Every lane of a walk (cpu_walk.c) computes its share of every op, in one of two ways (column
 * `work` of op_list.h):
 *
 *   ROWS    lane t computes the same range of rows in each op of this kind
 *   PIECES  threads claim pieces from a counter; any thread computes any piece
 *
 * Consecutive ROWS ops over the same rows need no barrier: each thread reads what it wrote itself.
 * Otherwise an op needs a barrier if, since the last one, another op wrote a tensor that it reads,
 * or read or wrote the tensor that it writes. The KV cache, or the feature pool, counts as one more
 * tensor.
 *
 * A product with quantized weights reads its input as quantized blocks. The op that last wrote the
 * input quantizes its own piece while it is still in cache. If that op cannot (rope, linear), the
 * product's op quantizes the input first.
 */
#include "worker/backend/cpu/program/op_order.h"

#include <stdlib.h>

#include "proto/must.h"
#include "worker/backend/cpu/weights/packed_weight.h"

/* How a tensor was used since the last barrier. */
struct tensor_use {
    bool by_rows;
    bool by_piece;
};

struct order_state {
    struct tensor_use *reads;  /* [tensor_count + 1]; the last is the KV cache */
    struct tensor_use *writes; /* likewise */
    uint32_t count;
};

static bool conflicts(struct tensor_use earlier, enum op_work now)
{
    return earlier.by_piece || (earlier.by_rows && now == OP_WORK_PIECES);
}

static void mark(struct tensor_use *use, enum op_work work)
{
    use->by_rows |= work == OP_WORK_ROWS;
    use->by_piece |= work == OP_WORK_PIECES;
}

/* The tensors an op reads, at most OP_INPUTS_MAX + 1; returns their count. */
static uint32_t op_reads(const struct plan *plan, const struct plan_op *op, uint32_t *reads)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < OP_INPUTS_MAX; i++)
        if (op->inputs[i] != PLAN_NONE)
            reads[count++] = op->inputs[i];
    if (op->stem == OP_attention)
        reads[count++] = plan->tensor_count;
    return count;
}

static void place_barrier(struct order_state *state, const struct plan *plan,
                          const struct plan_op *op, struct op_note *note)
{
    uint32_t reads[OP_INPUTS_MAX + 1];
    uint32_t read_count = op_reads(plan, op, reads);
    uint32_t written = op->output == PLAN_NONE ? plan->tensor_count : op->output;
    enum op_work work = op_facts(op->stem)->work;
    bool wait = conflicts(state->writes[written], work) || conflicts(state->reads[written], work);
    for (uint32_t i = 0; i < read_count; i++)
        wait |= conflicts(state->writes[reads[i]], work);
    note->barrier_before = wait || note->quantize_input;
    if (note->barrier_before)
        for (uint32_t i = 0; i < state->count; i++)
            state->reads[i] = state->writes[i] = (struct tensor_use){false, false};
    for (uint32_t i = 0; i < read_count; i++)
        mark(&state->reads[reads[i]], work);
    mark(&state->writes[written], work);
}

static bool reads_quantized(const struct plan *plan, const struct plan_op *op)
{
    if (op_facts(op->stem)->weights != OP_WEIGHTS_PRODUCT)
        return false;
    for (uint32_t i = 0; i < OP_WEIGHTS_MAX; i++)
        if (op->weights[i] != PLAN_NONE &&
            packed_weight_shape(plan->weights[op->weights[i]].type).quantized)
            return true;
    return false;
}

static bool can_quantize_output(const struct plan_op *op)
{
    const struct column_slice *heads = op->stem == OP_attention
                                           ? &op->params.attention.queries
                                           : &op->params.patch_attention.queries;
    enum op_q8 q8 = op_facts(op->stem)->q8;
    return q8 == OP_Q8_BLOCKS || (q8 == OP_Q8_HEADS && heads->head_dim % 32 == 0);
}

/* Decides which op quantizes the input of the product `index`. */
static void place_quantization(const struct plan *plan, uint32_t index, struct op_note *notes)
{
    plan_tensor_id input = plan->ops[index].inputs[0];
    for (uint32_t i = index; i-- > 0;) {
        if (plan->ops[i].output != input)
            continue;
        if (can_quantize_output(&plan->ops[i]))
            notes[i].quantize_output = true;
        else
            notes[index].quantize_input = true;
        return;
    }
    notes[index].quantize_input = true; /* the caller fills the tensor: no op wrote it */
}

void op_order_annotate(const struct plan *plan, struct op_note *notes)
{
    struct order_state state = {.count = plan->tensor_count + 1};
    state.reads = must_alloc(state.count, sizeof *state.reads);
    state.writes = must_alloc(state.count, sizeof *state.writes);
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (reads_quantized(plan, &plan->ops[i]))
            place_quantization(plan, i, notes);
    for (uint32_t i = 0; i < plan->op_count; i++)
        place_barrier(&state, plan, &plan->ops[i], &notes[i]);
    free(state.reads);
    free(state.writes);
}
