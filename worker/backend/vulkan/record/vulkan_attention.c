/*
 * From q|k|v to attended heads.
 *
 * A run of norms, rotations and the KV write over one tensor is one dispatch when it has the usual
 * form: queries and keys rotated, both or neither normed, values normed without weight or not. In a
 * step in which every sequence has one row, even that is done by the attention kernel. Otherwise,
 * and for ops that stand alone, each op is one dispatch of the same kernel with parts switched off.
 *
 * Kernels differ by how far contexts are split, that is by the numbers of sequences and of tiles.
 * While they are made, all that the scheduler may combine are asked for.
 *
 * Sequences with several rows are attended in tiles, the others as decodes: two dispatches, side by
 * side, which therefore have scratch memory of their own.
 *
 * Where quantization starts behind a number of tokens, keys and values before it are written in
 * both forms, and attention is dispatched for the rows of each form in turn. The host sorts them
 * (vulkan_batch.h): kernels know nothing of it.
 */
#include "worker/backend/vulkan/record/vulkan_attention.h"

#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_attention_push.h"
#include "worker/backend/vulkan/policy/vulkan_attention_policy.h"
#include "worker/plan/kv_codec.h"

/* The ops of a run, by what they do. */
struct heads_run {
    const struct plan_op *query_norm, *key_norm, *value_norm;
    const struct plan_op *query_rope, *key_rope;
    const struct plan_op *write;
    bool usual;
};

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The two forms in which a layer may keep positions. */
enum kv_form {
    KV_FORM_USUAL,  /* all of them */
    KV_FORM_OPENING /* those before --quantized-kv-start, in full precision */
};

/* Where a form of a layer lies, and how it is stored. */
struct kv_store {
    uint32_t group; /* KV_GROUP_NONE: the layer has no such form */
    const struct vulkan_kv_layer *kv;
    struct vulkan_kv_codes codes;
};

static struct kv_store store_of(const struct vulkan_program *program, uint32_t layer,
                                enum kv_form form)
{
    const struct kv_layout *layout = &program->plan->kv;
    const struct kv_quantization *quantization = &layout->quantization;
    struct kv_store store = {.group = layout->layer_group[layer], .kv = &program->kv[layer]};
    if (form == KV_FORM_OPENING) {
        store.group = kv_layout_opening(layout, store.group);
        store.kv = &program->openings[layer];
        return store;
    }
    const struct kv_group *group = &layout->groups[store.group];
    if (group->quantized)
        store.codes = (struct vulkan_kv_codes){
            .scheme = quantization->scheme,
            .key_half_bits = quantization->key_half_bits,
            .value_half_bits = quantization->value_half_bits,
            .group_dims = kv_codec_group_size(quantization, group->head_dim),
        };
    return store;
}

static bool has_opening(const struct vulkan_program *program, uint32_t layer)
{
    return store_of(program, layer, KV_FORM_OPENING).group != KV_GROUP_NONE;
}

static struct heads_run read_run(const struct plan *plan, uint32_t first, uint32_t count)
{
    struct heads_run run = {.write = &plan->ops[first + count - 1]};
    uint32_t key_offset = run.write->params.kv_write.keys.offset;
    uint32_t value_offset = run.write->params.kv_write.values.offset;
    uint32_t known = 0;
    for (uint32_t i = first; i < first + count; i++) {
        const struct plan_op *op = &plan->ops[i];
        if (op->stem == OP_head_norm) {
            uint32_t offset = op->params.head_norm.slice.offset;
            const struct plan_op **norm = offset == key_offset     ? &run.key_norm
                                          : offset == value_offset ? &run.value_norm
                                                                   : &run.query_norm;
            known += !*norm;
            *norm = op;
        } else if (op->stem == OP_rope) {
            bool key = op->params.rope.slice.offset == key_offset;
            known += !(key ? run.key_rope : run.query_rope);
            *(key ? &run.key_rope : &run.query_rope) = op;
        }
    }
    run.usual = run.query_rope && run.key_rope && !run.query_norm == !run.key_norm &&
                run.query_rope->params.rope.rope == run.key_rope->params.rope.rope &&
                known + 1 == count;
    if (run.usual && run.query_norm) {
        const struct head_norm_params *q = &run.query_norm->params.head_norm;
        const struct head_norm_params *k = &run.key_norm->params.head_norm;
        run.usual = float_bits(q->epsilon) == float_bits(k->epsilon) &&
                    float_bits(q->weight_offset) == float_bits(k->weight_offset) &&
                    run.query_norm < run.query_rope && run.key_norm < run.key_rope;
    }
    if (run.usual && run.value_norm)
        run.usual = run.query_norm && run.value_norm->weights[0] == PLAN_NONE &&
                    float_bits(run.value_norm->params.head_norm.epsilon) ==
                        float_bits(run.query_norm->params.head_norm.epsilon);
    return run;
}

static uint64_t norm_weights(const struct vulkan_program *program, const struct plan_op *norm)
{
    return norm->weights[0] == PLAN_NONE ? program->weights.ones_address
                                         : program->weights.vector_address[norm->weights[0]];
}

/* Whether the attention behind the run does all of it: only for decodes. */
static bool is_fused(const struct vulkan_recorder *recorder, uint32_t first, uint32_t count)
{
    const struct plan *plan = recorder->program->plan;
    const struct vulkan_shape *shape = &recorder->recording->shape;
    if (shape->rows != shape->sequences || first + count >= plan->op_count)
        return false;
    const struct plan_op *attention = &plan->ops[first + count];
    const struct heads_run run = read_run(plan, first, count);
    bool sinks = attention->stem == OP_attention && attention->weights[0] != PLAN_NONE;
    uint32_t layer = run.write->params.kv_write.layer;
    bool quantized =
        store_of(recorder->program, layer, KV_FORM_USUAL).codes.scheme != KV_QUANT_NONE;
    return run.usual && !quantized && attention->stem == OP_attention &&
           !(sinks && run.query_norm) && attention->inputs[0] == run.write->inputs[0] &&
           attention->params.attention.layer == layer;
}

/* What all dispatches of heads of a layer's tensor have in common. */
static struct vulkan_rope_kv_write_push heads_push(const struct vulkan_recorder *recorder,
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

/* `beside`: it needs nothing of what the dispatch before it wrote. */
static void dispatch_heads(struct vulkan_recorder *recorder, const struct plan_op *op,
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

static void set_store(const struct vulkan_program *program, const struct kv_store *store,
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
    const struct kv_store store = store_of(program, params->layer, KV_FORM_USUAL);
    set_store(program, &store, task, push);
    task->kv_heads = params->keys.heads;
    push->key_offset = params->keys.offset;
    push->value_offset = params->values.offset;
}

/* What has been dispatched for the write `op`, once more without queries, into the opening. */
static void write_opening(struct vulkan_recorder *recorder, const struct plan_op *op,
                          struct vulkan_heads_task task, struct vulkan_rope_kv_write_push push)
{
    const struct vulkan_program *program = recorder->program;
    const struct kv_store store = store_of(program, op->params.kv_write.layer, KV_FORM_OPENING);
    if (!recorder->recording->shape.openings || store.group == KV_GROUP_NONE)
        return;
    set_store(program, &store, &task, &push);
    task.heads = 0;
    push.opening = program->plan->kv.groups[store.group].opening;
    dispatch_heads(recorder, op, &task, &push, true);
}

static void record_one(struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[index];
    struct vulkan_rope_kv_write_push push = heads_push(recorder, op);
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
        push.query_norm = norm_weights(program, op);
        push.epsilon = op->params.head_norm.epsilon;
        push.weight_offset = op->params.head_norm.weight_offset;
    }
    dispatch_heads(recorder, op, &task, &push, false);
    if (op->stem == OP_kv_write)
        write_opening(recorder, op, task, push);
}

static void record_run(struct vulkan_recorder *recorder, const struct heads_run *run)
{
    const struct vulkan_program *program = recorder->program;
    struct vulkan_rope_kv_write_push push = heads_push(recorder, run->write);
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
        push.query_norm = norm_weights(program, run->query_norm);
        push.key_norm = norm_weights(program, run->key_norm);
        push.epsilon = run->query_norm->params.head_norm.epsilon;
        push.weight_offset = run->query_norm->params.head_norm.weight_offset;
    }
    dispatch_heads(recorder, run->write, &task, &push, false);
    write_opening(recorder, run->write, task, push);
}

void vulkan_attention_record_heads(struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_fusion_note *note = &program->notes[index];
    if (!note->in_heads) {
        record_one(recorder, index);
        return;
    }
    if (note->heads == 0 || is_fused(recorder, index, note->heads))
        return;
    const struct heads_run run = read_run(program->plan, index, note->heads);
    if (run.usual) {
        record_run(recorder, &run);
        return;
    }
    for (uint32_t i = 0; i < note->heads; i++)
        record_one(recorder, index + i);
}

/* The run of heads right before the attention op, or a count of 0. */
static uint32_t run_before(const struct vulkan_program *program, uint32_t index, uint32_t *first)
{
    for (uint32_t i = index; i-- > 0 && program->notes[i].in_heads;) {
        *first = i;
        if (program->notes[i].heads > 0)
            return program->notes[i].heads;
    }
    return 0;
}

/* A head of its own keys and values for each of queries, none of them rotated on the way. */
static struct vulkan_attention_shape patch_shape(const struct vulkan_program *program,
                                                 uint32_t index)
{
    const struct plan_op *op = &program->plan->ops[index];
    const struct patch_attention_params *params = &op->params.patch_attention;
    return (struct vulkan_attention_shape){
        .head_dim = params->queries.head_dim,
        .heads = params->queries.heads,
        .kv_heads = params->queries.heads,
        .stride = program->tensors[op->inputs[0]].columns,
        .query_offset = params->queries.offset,
        .key_offset = params->keys,
        .value_offset = params->values,
        .scale = params->scale,
        .magnitude = 1.0f,
    };
}

static struct vulkan_attention_shape shape_of(const struct vulkan_program *program, uint32_t index,
                                              enum kv_form form)
{
    const struct plan_op *op = &program->plan->ops[index];
    const struct attention_params *params = &op->params.attention;
    if (op->stem == OP_patch_attention)
        return patch_shape(program, index);
    const struct kv_store store = store_of(program, params->layer, form);
    struct vulkan_attention_shape shape = {
        .head_dim = params->queries.head_dim,
        .heads = params->queries.heads,
        .kv_heads = params->kv_heads,
        .window = params->window,
        .kv_group = store.group,
        .stride = program->tensors[op->inputs[0]].columns,
        .query_offset = params->queries.offset,
        .scale = params->scale,
        .soft_cap = params->soft_cap,
        .sinks = op->weights[0] != PLAN_NONE,
        .codes = store.codes,
        .magnitude = 1.0f,
    };
    uint32_t first;
    uint32_t count = run_before(program, index, &first);
    if (count == 0)
        return shape;
    const struct heads_run run = read_run(program->plan, first, count);
    shape.key_offset = run.write->params.kv_write.keys.offset;
    shape.value_offset = run.write->params.kv_write.values.offset;
    if (run.query_rope) {
        const struct rope_config *rope =
            &program->plan->config.ropes[run.query_rope->params.rope.rope];
        shape.pairing = rope->pairing;
        shape.rope_dims = rope->dims;
        shape.magnitude = rope->magnitude;
    }
    return shape;
}

uint32_t vulkan_attention_forms(const struct vulkan_program *program, uint32_t index)
{
    const struct vulkan_attention_shape shape = shape_of(program, index, KV_FORM_USUAL);
    return vulkan_attention_policy_forms(&shape); /* by the head's size alone */
}

/* Addresses of the scratch memory's parts. */
struct scratch_places {
    uint64_t counters;
    uint64_t partials;
};

static struct scratch_places places_of(const struct vulkan_program *program, bool tiles)
{
    const struct vulkan_attention_scratch *bytes = &program->attention_scratch;
    uint64_t at = program->attention_memory.address;
    uint64_t partials = at + bytes->decode_counter_bytes + bytes->tile_counter_bytes;
    return tiles ? (struct scratch_places){at + bytes->decode_counter_bytes,
                                           partials + bytes->decode_partial_bytes}
                 : (struct scratch_places){at, partials};
}

/* enum vulkan_attention_fuse bits of what the run before the op would have done. */
static uint32_t fuse_bits(const struct vulkan_program *program, const struct heads_run *run)
{
    uint32_t bits = VULKAN_ATTENTION_FUSE_ROPE;
    if (program->axes)
        bits |= VULKAN_ATTENTION_FUSE_AXES;
    if (run->query_norm)
        bits |= VULKAN_ATTENTION_FUSE_NORM;
    if (run->query_norm && run->value_norm)
        bits |= VULKAN_ATTENTION_FUSE_NORM_VALUES;
    return bits;
}

static void fuse_run(const struct vulkan_recorder *recorder, const struct heads_run *run,
                     struct vulkan_attention_rows_push *push)
{
    const struct vulkan_program *program = recorder->program;
    push->frequencies = program->weights.rope_address[run->query_rope->params.rope.rope];
    if (program->axes)
        push->items = recorder->recording->batch->sights_address;
    if (!run->query_norm)
        return;
    push->query_norm = norm_weights(program, run->query_norm);
    push->key_norm = norm_weights(program, run->key_norm);
    push->epsilon = run->query_norm->params.head_norm.epsilon;
    push->weight_offset = run->query_norm->params.head_norm.weight_offset;
}

/* Of the sequences with one row, or of tiles, those that see a form of the layer. */
struct attention_part {
    enum kv_form form;
    bool tiles;
    uint32_t count; /* tiles, or sequences, of which some may be empty */
    uint64_t items; /* tiles */
    uint64_t sequences;
    bool beside; /* another one right before it has waited for what both read, and writes others */
};

/* Bytes of the cache that the part reads of the step's sequences. */
static uint64_t cache_bytes(const struct vulkan_recorder *recorder,
                            const struct vulkan_attention_shape *shape,
                            const struct attention_part *part)
{
    const struct kv_layout *layout = &recorder->program->plan->kv;
    const struct kv_group *group = &layout->groups[shape->kv_group];
    uint64_t head_bytes = 2 * sizeof(uint16_t) * group->head_dim * KV_BLOCK_TOKENS;
    if (group->quantized)
        head_bytes = kv_codec_head_bytes(&layout->quantization, group->head_dim);
    struct vulkan_batch_sight sight = {
        .window = shape->window, .up_to = UINT32_MAX, .decodes = !part->tiles};
    if (group->kind == KV_OPENING)
        sight.up_to = group->opening;
    else if (group->quantized)
        sight.beyond = layout->quantization.start_tokens;
    return vulkan_batch_positions(recorder->recording->batch, recorder->recording->shape.sequences,
                                  &sight) *
           group->kv_heads * head_bytes / KV_BLOCK_TOKENS;
}

/* Whether the op does the run of heads before it, for decodes. */
static bool fuses_run(const struct vulkan_recorder *recorder, uint32_t index, struct heads_run *run)
{
    uint32_t first;
    uint32_t count = run_before(recorder->program, index, &first);
    if (count == 0 || !is_fused(recorder, first, count))
        return false;
    *run = read_run(recorder->program->plan, first, count);
    return true;
}

static void record_part(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms,
                        const struct attention_part *part)
{
    bool tiles = part->tiles;
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_batch *batch = recorder->recording->batch;
    const struct plan_op *op = &program->plan->ops[index];
    const struct kv_store store = store_of(program, op->params.attention.layer, part->form);
    const struct scratch_places places = places_of(program, tiles);
    struct heads_run run;
    bool fused = !tiles && fuses_run(recorder, index, &run);
    const struct vulkan_attention_task task = {.shape = shape_of(program, index, part->form),
                                               .tiles = tiles,
                                               .items = part->count,
                                               .forms = forms,
                                               .fuse = fused ? fuse_bits(program, &run) : 0,
                                               .spans = tiles && recorder->recording->shape.spans &&
                                                        !op->params.attention.causal,
                                               .reach = recorder->recording->shape.reach};
    struct vulkan_attention_rows_push push = {
        .qkv = program->tensors[op->inputs[0]].f32,
        .keys = store.kv->keys,
        .values = store.kv->values,
        .items = part->items,
        .sequences = part->sequences,
        .tables = batch->tables.address,
        .partials = places.partials,
        .counters = places.counters,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
    };
    if (task.shape.sinks)
        push.key_norm = program->weights.vector_address[op->weights[0]];
    if (task.shape.codes.scheme != KV_QUANT_NONE)
        push.frequencies = program->weights.kv_tables_address[task.shape.kv_group];
    if (task.spans)
        push.query_norm = batch->sights_address;
    if (fused)
        fuse_run(recorder, &run, &push);
    struct vulkan_attention_choice choice =
        vulkan_attention_policy_choose(&program->device->facts, &task);
    must(choice.partial_bytes <= (tiles ? program->attention_scratch.tile_partial_bytes
                                        : program->attention_scratch.decode_partial_bytes));
    const struct vulkan_touch touch = {
        .reads = {op->inputs[0], vulkan_recorder_kv(recorder), PLAN_NONE},
        .writes = {op->output, fused ? vulkan_recorder_kv(recorder) : PLAN_NONE},
        .cache_bytes = recorder->recording->profile ? cache_bytes(recorder, &task.shape, part) : 0,
        .side_by_side = part->beside};
    vulkan_recorder_dispatch(recorder, choice.shader, &choice.specialization, &push, sizeof push,
                             choice.grid, &touch);
}

/* The kernels of `task` with each number of items from the least to the most. */
static void ask_items(struct vulkan_recorder *recorder, struct vulkan_attention_task task,
                      uint32_t least, uint32_t most)
{
    struct vulkan_specialization before = {0};
    for (task.items = least; task.items <= most; task.items++) {
        struct vulkan_attention_choice choice =
            vulkan_attention_policy_choose(&recorder->program->device->facts, &task);
        const struct vulkan_specialization *now = &choice.specialization;
        if (now->count == before.count &&
            memcmp(now->values, before.values, now->count * sizeof *now->values) == 0)
            continue;
        before = *now;
        vulkan_recorder_dispatch(recorder, choice.shader, now, NULL, 0, choice.grid, NULL);
    }
}

/* Likewise of decodes, of contexts of any length that the model takes. */
static void ask_decodes(struct vulkan_recorder *recorder, struct vulkan_attention_task task,
                        uint32_t least, uint32_t most)
{
    ask_items(recorder, task, least, most);
    task.reach = VULKAN_REACH_FAR;
    if (recorder->program->plan->config.context_tokens > VULKAN_FAR_CONTEXT)
        ask_items(recorder, task, least, most);
}

/* The kernels of every step that the shape stands for: decodes alone, of up to so many rows; or so
 * many rows of which some, two at least, are a sequence's in tiles. With tiles of three rows or
 * more there are no more tiles than half the rows, since a sequence of one row has none; but where
 * a start of quantization cuts tiles, two rows may be two. */
static void ask_task(struct vulkan_recorder *recorder, struct vulkan_attention_task task,
                     bool may_span)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_shape *shape = &recorder->recording->shape;
    if (shape->rows == shape->sequences) { /* decodes alone */
        ask_decodes(recorder, task, recorder->recording->least_rows, shape->rows);
        task.reach = VULKAN_REACH_BRIEF;
        if (shape->whole)
            ask_items(recorder, task, recorder->recording->least_rows, shape->rows);
        return;
    }
    uint32_t most =
        shape->rows - 1 < program->max_logit_rows ? shape->rows - 1 : program->max_logit_rows;
    ask_decodes(recorder, task, 2, most);
    task.tiles = true;
    most = program->tile_rows > 2 && !shape->openings ? shape->rows / 2 : shape->rows;
    ask_items(recorder, task, 1, most);
    task.spans = true;
    if (program->spans && may_span)
        ask_items(recorder, task, 1, most);
}

static void ask_kernels(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[index];
    struct heads_run run;
    bool fused = fuses_run(recorder, index, &run);
    bool opens = has_opening(program, op->params.attention.layer);
    struct vulkan_attention_task task = {.shape = shape_of(program, index, KV_FORM_USUAL),
                                         .forms = forms,
                                         .fuse = fused ? fuse_bits(program, &run) : 0};
    if (memcmp(&task, &recorder->asked, sizeof task) == 0)
        return; /* as the layer before */
    recorder->asked = task;
    ask_task(recorder, task, !op->params.attention.causal);
    if (opens) {
        task.shape = shape_of(program, index, KV_FORM_OPENING);
        ask_task(recorder, task, !op->params.attention.causal);
    }
}

void vulkan_attention_record_ahead(struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_batch *batch = recorder->recording->batch;
    uint32_t first = index + 1;
    uint32_t heads = first < program->plan->op_count ? program->notes[first].heads : 0;
    if (heads == 0 || !is_fused(recorder, first, heads))
        return;
    const struct plan_op *op = &program->plan->ops[first + heads];
    const struct vulkan_kv_layer *kv = &program->kv[op->params.attention.layer];
    const struct vulkan_attention_shape shape = shape_of(program, first + heads, KV_FORM_USUAL);
    struct vulkan_heads_choice choice;
    if (!vulkan_attention_policy_ahead(&program->device->facts, &shape,
                                       recorder->recording->shape.rows, &choice))
        return;
    const struct vulkan_kv_ahead_push push = {.keys = kv->keys,
                                              .values = kv->values,
                                              .sequences = batch->sequences_address,
                                              .tables = batch->tables.address};
    const struct vulkan_touch touch = {
        .reads = {vulkan_recorder_kv(recorder), PLAN_NONE, PLAN_NONE},
        .writes = {PLAN_NONE, PLAN_NONE}};
    vulkan_recorder_dispatch(recorder, choice.shader, &choice.specialization, &push, sizeof push,
                             choice.grid, &touch);
}

/* Keys and values of all patches into the cache that the op has to itself. */
static void record_patch_keys(struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[index];
    const struct patch_attention_params *params = &op->params.patch_attention;
    struct vulkan_rope_kv_write_push push = heads_push(recorder, op);
    const struct vulkan_heads_task task = {.parts = VULKAN_HEADS_WRITE,
                                           .rows = vulkan_recorder_rows(recorder, op->inputs[0]),
                                           .head_dim = params->queries.head_dim,
                                           .kv_heads = params->queries.heads};
    push.keys = program->patch_kv.keys;
    push.values = program->patch_kv.values;
    push.key_offset = params->keys;
    push.value_offset = params->values;
    dispatch_heads(recorder, op, &task, &push, false);
}

static void record_patches(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_recording *recording = recorder->recording;
    const struct plan_op *op = &program->plan->ops[index];
    bool windowed = op->params.patch_attention.windowed;
    const struct vulkan_patch_spans *spans =
        windowed ? &recording->patches->windows : &recording->patches->whole;
    const struct scratch_places places = places_of(program, true);
    const struct vulkan_attention_task task = {.shape = shape_of(program, index, KV_FORM_USUAL),
                                               .tiles = true,
                                               .items = windowed ? recording->shape.window_tiles
                                                                 : recording->shape.whole_tiles,
                                               .forms = forms,
                                               .spans = true};
    const struct vulkan_attention_rows_push push = {
        .qkv = program->tensors[op->inputs[0]].f32,
        .keys = program->patch_kv.keys,
        .values = program->patch_kv.values,
        .items = spans->tiles_address,
        .sequences = recording->batch->sequences_address,
        .tables = recording->batch->tables.address,
        .partials = places.partials,
        .counters = places.counters,
        .outputs = vulkan_recorder_outputs(recorder, op->output, forms),
        .query_norm = spans->sights_address,
    };
    struct vulkan_attention_choice choice =
        vulkan_attention_policy_choose(&program->device->facts, &task);
    must(choice.partial_bytes <= program->attention_scratch.tile_partial_bytes);
    const struct vulkan_touch touch = {
        .reads = {op->inputs[0], vulkan_recorder_kv(recorder), PLAN_NONE},
        .writes = {op->output, vulkan_recorder_scratch(recorder)},
        .cache_bytes = (uint64_t)recording->shape.patches * task.shape.heads * task.shape.head_dim *
                       2 * sizeof(uint16_t),
        .name = windowed ? "attention in windows" : "attention over pictures"};
    record_patch_keys(recorder, index);
    vulkan_recorder_dispatch(recorder, choice.shader, &choice.specialization, &push, sizeof push,
                             choice.grid, &touch);
}

/* Rows that see the form: decodes and tiles, side by side. */
static void record_form(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms,
                        enum kv_form form, uint64_t sequences, uint32_t first_tile, uint32_t tiles)
{
    const struct vulkan_shape *shape = &recorder->recording->shape;
    struct attention_part part = {.form = form, .count = shape->sequences, .sequences = sequences};
    if (shape->decodes > 0)
        record_part(recorder, index, forms, &part);
    part.tiles = true;
    part.beside = shape->decodes > 0;
    part.count = tiles;
    part.items =
        recorder->recording->batch->tiles_address + first_tile * sizeof(struct vulkan_step_tile);
    if (tiles > 0)
        record_part(recorder, index, forms, &part);
}

void vulkan_attention_record(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms)
{
    const struct vulkan_shape *shape = &recorder->recording->shape;
    const struct vulkan_batch *batch = recorder->recording->batch;
    const struct plan_op *op = &recorder->program->plan->ops[index];
    if (op->stem == OP_patch_attention) {
        record_patches(recorder, index, forms);
        return;
    }
    if (recorder->recording->least_rows > 0) {
        ask_kernels(recorder, index, forms);
        return;
    }
    uint32_t early = shape->opening_tiles;
    if (!shape->openings || !has_opening(recorder->program, op->params.attention.layer)) {
        record_form(recorder, index, forms, KV_FORM_USUAL, batch->sequences_address, 0,
                    shape->tiles);
        return;
    }
    record_form(recorder, index, forms, KV_FORM_OPENING, batch->opening_address, 0, early);
    record_form(recorder, index, forms, KV_FORM_USUAL, batch->behind_address, early,
                shape->tiles - early);
}

static bool is_attention(const struct plan_op *op)
{
    return op->stem == OP_attention || op->stem == OP_patch_attention;
}

/* Whether the op has that form; its shape then. */
static bool find_shape(const struct vulkan_program *program, uint32_t index, enum kv_form form,
                       struct vulkan_attention_shape *shape)
{
    const struct plan_op *op = &program->plan->ops[index];
    if (!is_attention(op))
        return false;
    bool layered = op->stem == OP_attention;
    if (form == KV_FORM_OPENING && !(layered && has_opening(program, op->params.attention.layer)))
        return false;
    *shape = shape_of(program, index, form);
    return true;
}

uint32_t vulkan_attention_tile_rows(const struct vulkan_program *program)
{
    uint32_t least = UINT32_MAX;
    struct vulkan_attention_shape shape;
    for (uint32_t i = 0; i < program->plan->op_count; i++) {
        for (enum kv_form form = KV_FORM_USUAL; form <= KV_FORM_OPENING; form++) {
            if (!find_shape(program, i, form, &shape))
                continue;
            uint32_t rows = vulkan_attention_policy_tile_rows(&program->device->facts, &shape);
            least = rows < least ? rows : least;
        }
    }
    return least == UINT32_MAX ? 1 : least;
}

static void raise(uint64_t *most, uint64_t bytes)
{
    bytes = (bytes + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
    if (bytes > *most)
        *most = bytes;
}

static void raise_scratch(const struct vulkan_program *program,
                          const struct vulkan_attention_shape *shape, bool patches,
                          struct vulkan_attention_scratch *most)
{
    const struct vulkan_facts *facts = &program->device->facts;
    struct vulkan_attention_task task = {
        .shape = *shape, .forms = VULKAN_FORM_F32, .spans = patches};
    uint32_t items = patches ? program->max_patch_rows : program->max_step_rows;
    for (task.items = 1; task.items <= items; task.items++) {
        task.tiles = true;
        struct vulkan_attention_choice choice = vulkan_attention_policy_choose(facts, &task);
        raise(&most->tile_counter_bytes, choice.counter_bytes);
        raise(&most->tile_partial_bytes, choice.partial_bytes);
        if (patches)
            continue; /* nothing but tiles */
        task.tiles = false;
        choice = vulkan_attention_policy_choose(facts, &task);
        raise(&most->decode_counter_bytes, choice.counter_bytes);
        raise(&most->decode_partial_bytes, choice.partial_bytes);
    }
}

struct vulkan_attention_scratch vulkan_attention_scratch_bytes(const struct vulkan_program *program)
{
    struct vulkan_attention_scratch most = {0};
    for (enum kv_form form = KV_FORM_USUAL; form <= KV_FORM_OPENING; form++) {
        struct vulkan_attention_shape shape, last = {0};
        for (uint32_t i = 0; i < program->plan->op_count; i++) {
            if (!find_shape(program, i, form, &shape) || memcmp(&shape, &last, sizeof last) == 0)
                continue;
            last = shape;
            bool patches = program->plan->ops[i].stem == OP_patch_attention;
            raise_scratch(program, &shape, patches, &most);
        }
    }
    return most;
}
