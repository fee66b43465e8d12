/*
 * Barriers and quantization, decided once per plan.
 *
 * Every lane of a walk (cpu_step.c) does its share of every op. Two ways of sharing an op's work
 * exist:
 *
 *   ROWS   lane t does the same share of rows in every op of this kind (norms, rope, kv_write,
 * embed_rows) CLAIM  threads take pieces from a counter; any thread may do any piece
 *
 * Runs of ROWS ops over the same rows need no barrier between them: each thread reads what it
 * wrote. Otherwise an op waits when, since the last barrier, another op wrote what it reads, or
 * touched what it writes. The KV cache, or the feature pool, counts as one more tensor.
 *
 * A linear op with quantized weights wants its input as quantized blocks. The op that last wrote
 * the input does that on its own piece while it is still in cache; where that op cannot (rope,
 * linear), the linear op quantizes first.
 */
#include "worker/backend/cpu/op_order.h"

#include <stdlib.h>

#include "proto/must.h"

enum sharing { SHARED_ROWS, SHARED_CLAIM };

/* How a tensor was used since the last barrier. */
struct tensor_use {
    bool by_rows;
    bool by_claim;
};

struct order_state {
    struct tensor_use *reads;  /* [tensor_count + 1]; the last is the KV cache */
    struct tensor_use *writes; /* likewise */
    uint32_t count;
};

static enum sharing op_sharing(enum op_stem stem)
{
    switch (stem) {
    case OP_embed_rows:
    case OP_rms_norm:
    case OP_layer_norm:
    case OP_rms_norm_add:
    case OP_head_norm:
    case OP_rope:
    case OP_bias_add:
    case OP_position_scale:
    case OP_head_norm_gate:
    case OP_take_queries:
    case OP_gate_heads:
    case OP_gate_with:
    case OP_add_rows:
    case OP_scale_columns:
    case OP_stream_take:
    case OP_stream_mix:
    case OP_stream_correct:
    case OP_stream_add:
    case OP_stream_match:
    case OP_stream_cut:
    case OP_moe_route:
    case OP_moe_shared:
    case OP_patch_rows:
    case OP_patch_positions:
    case OP_activate:
    case OP_clip_columns:
    case OP_feature_write:
    case OP_feature_add:
    case OP_kv_write: return SHARED_ROWS;
    default: return SHARED_CLAIM;
    }
}

static bool conflicts(struct tensor_use earlier, enum sharing now)
{
    return earlier.by_claim || (earlier.by_rows && now == SHARED_CLAIM);
}

static void mark(struct tensor_use *use, enum sharing sharing)
{
    use->by_rows |= sharing == SHARED_ROWS;
    use->by_claim |= sharing == SHARED_CLAIM;
}

static void forget(struct order_state *state)
{
    for (uint32_t i = 0; i < state->count; i++)
        state->reads[i] = state->writes[i] = (struct tensor_use){false, false};
}

/* The tensors an op reads (count returned, at most OP_INPUTS_MAX + 1) and the one it writes. */
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

static uint32_t op_write(const struct plan *plan, const struct plan_op *op)
{
    return op->output == PLAN_NONE ? plan->tensor_count : op->output;
}

static void place_barrier(struct order_state *state, const struct plan *plan,
                          const struct plan_op *op, struct op_note *note)
{
    uint32_t reads[OP_INPUTS_MAX + 1];
    uint32_t read_count = op_reads(plan, op, reads);
    uint32_t written = op_write(plan, op);
    enum sharing sharing = op_sharing(op->stem);
    bool wait =
        conflicts(state->writes[written], sharing) || conflicts(state->reads[written], sharing);
    for (uint32_t i = 0; i < read_count; i++)
        wait |= conflicts(state->writes[reads[i]], sharing);
    note->barrier_before = wait || note->quantize_input;
    if (note->barrier_before)
        forget(state);
    for (uint32_t i = 0; i < read_count; i++)
        mark(&state->reads[reads[i]], sharing);
    mark(&state->writes[written], sharing);
}

static bool reads_quantized(const struct plan *plan, const struct plan_op *op)
{
    if (op->stem != OP_linear && op->stem != OP_linear_add && op->stem != OP_moe_linear)
        return false;
    for (uint32_t i = 0; i < OP_WEIGHTS_MAX; i++)
        if (op->weights[i] != PLAN_NONE &&
            packed_weight_shape(plan->weights[op->weights[i]].type).quantized)
            return true;
    return false;
}

static bool can_quantize_output(const struct plan_op *op)
{
    switch (op->stem) {
    case OP_embed_rows:
    case OP_rms_norm:
    case OP_layer_norm:
    case OP_rms_norm_add:
    case OP_gate:
    case OP_gate_with:
    case OP_bias_add:
    case OP_short_conv:
    case OP_head_norm_gate:
    case OP_gate_heads:
    case OP_moe_gate:
    case OP_activate:
    case OP_join_rows:
    case OP_gather_rows: return true;
    case OP_attention: return op->params.attention.queries.head_dim % 32 == 0;
    case OP_patch_attention: return op->params.patch_attention.queries.head_dim % 32 == 0;
    default: return false;
    }
}

/* Decides who quantizes the input of the linear op `index`. */
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
