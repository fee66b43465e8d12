/*
 * A run of norms, rotations and the KV write over one tensor is one dispatch when it has the usual
 * form (vulkan_attention_shape.c). In a step in which every sequence has one row, the attention
 * kernel does it too. Otherwise, and for ops that stand alone, each op is one dispatch of the same
 * kernel with parts switched off.
 *
 * Where quantization starts after a number of tokens, keys and values before it are written in both
 * forms.
 */
#include "worker/backend/vulkan/record/vulkan_heads.h"

#include "worker/backend/vulkan/record/vulkan_ops.h"

uint64_t vulkan_heads_norm_weights(const struct vulkan_program *program, const struct plan_op *norm)
{
    return norm->weights[0] == PLAN_NONE ? program->weights.ones_address
                                         : program->weights.vector_address[norm->weights[0]];
}

/* Whether the attention op after the run computes all of it: only for decodes. */
bool vulkan_heads_are_fused(const struct vulkan_recorder *recorder, uint32_t first, uint32_t count)
{
    const struct plan *plan = recorder->program->plan;
    const struct vulkan_shape *shape = &recorder->recording->shape;
    if (shape->rows != shape->sequences || first + count >= plan->op_count ||
        recorder->program->device->facts.batch_invariant)
        return false;
    const struct plan_op *attention = &plan->ops[first + count];
    const struct vulkan_heads_run run = vulkan_heads_run_read(plan, first, count);
    bool sinks = attention->stem == OP_attention && attention->weights[0] != PLAN_NONE;
    uint32_t layer = run.write->params.kv_write.layer;
    bool quantized =
        vulkan_kv_store_of(recorder->program, layer, VULKAN_KV_FORM_USUAL).codes.scheme !=
        KV_QUANT_NONE;
    if (attention->stem == OP_attention) {
        const struct vulkan_attention_shape heads =
            vulkan_attention_shape_of(recorder->program, first + count, VULKAN_KV_FORM_USUAL);
        if (!vulkan_attention_policy_fuses(&recorder->program->device->facts, &heads,
                                           shape->sequences))
            return false;
    }
    const struct model_config *config = &plan->config;
    if (run.usual && config->ropes[run.query_rope->params.rope.rope].divided)
        return false;
    return run.usual && !quantized && attention->stem == OP_attention &&
           !(sinks && run.query_norm) && attention->inputs[0] == run.write->inputs[0] &&
           attention->params.attention.layer == layer;
}

/* The fields that all dispatches of heads of a tensor share. */
struct vulkan_rope_kv_write_push vulkan_heads_push(const struct vulkan_recorder *recorder,
                                                   const struct plan_op *op)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_batch *batch = recorder->recording->batch;
    const struct vulkan_tensor *qkv = &program->tensors[op->inputs[0]];
    return (struct vulkan_rope_kv_write_push){
        .qkv = qkv->f32,
        .rows = batch->rows_address,
        .sequences = batch->sequences_address,
        .tables = batch->tables.address,
        .stride = qkv->columns,
        .magnitude = 1.0f,
        .sights = batch->sights_address,
    };
}

/* `beside`: it does not depend on the dispatch before it. */
void vulkan_heads_dispatch(struct vulkan_recorder *recorder, const struct plan_op *op,
                           const struct vulkan_heads_task *task,
                           const struct vulkan_rope_kv_write_push *push, bool beside)
{
    struct vulkan_heads_choice choice =
        vulkan_attention_policy_heads(&recorder->program->device->facts, task);
    bool writes = (task->parts & VULKAN_HEADS_WRITE) != 0;
    bool changes = task->heads > 0 && (task->parts & (VULKAN_HEADS_NORM | VULKAN_HEADS_ROPE)) != 0;
    const struct vulkan_touch touch = {
        .reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
        .writes = {changes ? op->inputs[0] : PLAN_NONE,
                   writes ? vulkan_recorder_kv(recorder) : PLAN_NONE},
        .side_by_side = beside};
    vulkan_recorder_dispatch(recorder, choice.shader, &choice.specialization, push, sizeof *push,
                             choice.grid, &touch);
}

static void set_rope(const struct vulkan_program *program, const struct plan_op *op,
                     struct vulkan_heads_task *task, struct vulkan_rope_kv_write_push *push)
{
    const struct rope_config *rope = &program->plan->config.ropes[op->params.rope.rope];
    task->pairing = rope->pairing;
    task->rope_dims = rope->dims;
    task->parts |= program->axes ? VULKAN_HEADS_AXES : 0;
    push->frequencies = program->weights.rope_address[op->params.rope.rope];
    push->magnitude = rope->magnitude;
}

static void set_store(const struct vulkan_program *program, const struct vulkan_kv_store *store,
                      struct vulkan_heads_task *task, struct vulkan_rope_kv_write_push *push)
{
    task->kv_group = store->group;
    task->codes = store->codes;
    push->codec = program->weights.kv_tables_address[store->group];
    push->keys = store->kv->keys;
    push->values = store->kv->values;
}

static void set_write(const struct vulkan_program *program, const struct plan_op *op,
                      struct vulkan_heads_task *task, struct vulkan_rope_kv_write_push *push)
{
    const struct kv_write_params *params = &op->params.kv_write;
    const struct vulkan_kv_store store =
        vulkan_kv_store_of(program, params->layer, VULKAN_KV_FORM_USUAL);
    set_store(program, &store, task, push);
    task->kv_heads = params->keys.heads;
    push->key_offset = params->keys.offset;
    push->value_offset = params->values.offset;
}

/* Repeats the dispatch of the write `op` without queries, into the opening. */
static void write_opening(struct vulkan_recorder *recorder, const struct plan_op *op,
                          struct vulkan_heads_task task, struct vulkan_rope_kv_write_push push)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_kv_store store =
        vulkan_kv_store_of(program, op->params.kv_write.layer, VULKAN_KV_FORM_OPENING);
    if (!recorder->recording->shape.openings || store.group == KV_GROUP_NONE)
        return;
    set_store(program, &store, &task, &push);
    task.heads = 0;
    push.opening = program->plan->kv.groups[store.group].opening;
    vulkan_heads_dispatch(recorder, op, &task, &push, true);
}

static void record_one(struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[index];
    struct vulkan_rope_kv_write_push push = vulkan_heads_push(recorder, op);
    struct vulkan_heads_task task = {.rows = vulkan_recorder_rows(recorder, op->inputs[0])};
    if (op->stem == OP_kv_write) {
        task.parts = VULKAN_HEADS_WRITE;
        task.head_dim = op->params.kv_write.keys.head_dim;
        set_write(program, op, &task, &push);
    } else if (op->stem == OP_rope) {
        task.parts = VULKAN_HEADS_ROPE;
        task.head_dim = op->params.rope.slice.head_dim;
        task.heads = op->params.rope.slice.heads;
        push.query_offset = op->params.rope.slice.offset;
        set_rope(program, op, &task, &push);
    } else {
        task.parts = VULKAN_HEADS_NORM;
        task.head_dim = op->params.head_norm.slice.head_dim;
        task.heads = op->params.head_norm.slice.heads;
        push.query_offset = op->params.head_norm.slice.offset;
        push.query_norm = vulkan_heads_norm_weights(program, op);
        push.epsilon = op->params.head_norm.epsilon;
        push.weight_offset = op->params.head_norm.weight_offset;
    }
    vulkan_heads_dispatch(recorder, op, &task, &push, false);
    if (op->stem == OP_kv_write)
        write_opening(recorder, op, task, push);
}

static void record_run(struct vulkan_recorder *recorder, const struct vulkan_heads_run *run)
{
    const struct vulkan_program *program = recorder->program;
    struct vulkan_rope_kv_write_push push = vulkan_heads_push(recorder, run->write);
    struct vulkan_heads_task task = {
        .parts = VULKAN_HEADS_ROPE | VULKAN_HEADS_WRITE,
        .rows = vulkan_recorder_rows(recorder, run->write->inputs[0]),
        .head_dim = run->query_rope->params.rope.slice.head_dim,
        .heads = run->query_rope->params.rope.slice.heads,
    };
    push.query_offset = run->query_rope->params.rope.slice.offset;
    set_rope(program, run->query_rope, &task, &push);
    set_write(program, run->write, &task, &push);
    if (run->query_norm) {
        task.parts |= VULKAN_HEADS_NORM | (run->value_norm ? VULKAN_HEADS_NORM_VALUES : 0);
        push.query_norm = vulkan_heads_norm_weights(program, run->query_norm);
        push.key_norm = vulkan_heads_norm_weights(program, run->key_norm);
        push.epsilon = run->query_norm->params.head_norm.epsilon;
        push.weight_offset = run->query_norm->params.head_norm.weight_offset;
    }
    vulkan_heads_dispatch(recorder, run->write, &task, &push, false);
    write_opening(recorder, run->write, task, push);
}

/* The head_norm, rope or kv_write op `index`: alone, or the whole run that it begins. What an
 * earlier op of its run or the attention op does is not recorded. */
static void record_heads(struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_fusion_note *note = &program->notes[index];
    if (!note->in_heads) {
        record_one(recorder, index);
        return;
    }
    if (note->heads == 0 || vulkan_heads_are_fused(recorder, index, note->heads))
        return;
    const struct vulkan_heads_run run = vulkan_heads_run_read(program->plan, index, note->heads);
    if (run.usual) {
        record_run(recorder, &run);
        return;
    }
    for (uint32_t i = 0; i < note->heads; i++)
        record_one(recorder, index + i);
}

void vulkan_record_head_norm(struct vulkan_recorder *recorder)
{
    record_heads(recorder, recorder->op);
}

void vulkan_record_rope(struct vulkan_recorder *recorder)
{
    record_heads(recorder, recorder->op);
}

void vulkan_record_kv_write(struct vulkan_recorder *recorder)
{
    record_heads(recorder, recorder->op);
}
