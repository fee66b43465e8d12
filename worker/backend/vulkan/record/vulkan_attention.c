/*
 * Attention: queries, and keys and values in the cache, to heads.
 *
 * Kernels depend on the splits of contexts, and so on the numbers of sequences and tiles. While
 * kernels are made, all combinations that the scheduler can form are requested.
 *
 * Sequences with several rows are attended in tiles, the others as decodes: two dispatches that may
 * overlap, so each has scratch memory of its own.
 *
 * Where quantization starts after a number of tokens, attention is dispatched for the rows of each
 * form in turn. The host sorts them (vulkan_batch.h); kernels are not concerned.
 */
#include "worker/backend/vulkan/record/vulkan_attention.h"

#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/record/vulkan_heads.h"
#include "worker/backend/vulkan/record/vulkan_ops.h"
#include "worker/plan/kv_codec.h"

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

/* enum vulkan_attention_fuse bits of the run before the op. */
static uint32_t fuse_bits(const struct vulkan_program *program, const struct vulkan_heads_run *run)
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

static void fuse_run(const struct vulkan_recorder *recorder, const struct vulkan_heads_run *run,
                     struct vulkan_attention_rows_push *push)
{
    const struct vulkan_program *program = recorder->program;
    push->frequencies = program->weights.rope_address[run->query_rope->params.rope.rope];
    if (program->axes)
        push->items = recorder->recording->batch->sights_address;
    if (!run->query_norm)
        return;
    push->query_norm = vulkan_heads_norm_weights(program, run->query_norm);
    push->key_norm = vulkan_heads_norm_weights(program, run->key_norm);
    push->epsilon = run->query_norm->params.head_norm.epsilon;
    push->weight_offset = run->query_norm->params.head_norm.weight_offset;
}

/* Of the sequences with one row, or of tiles, those that see a form of the layer. */
struct attention_part {
    enum vulkan_kv_form form;
    bool tiles;
    uint32_t count; /* tiles, or sequences, of which some may be empty */
    uint64_t items; /* tiles */
    uint64_t sequences;
    bool beside; /* the dispatch before it has waited for the inputs of both, and writes other
                  * rows */
};

/* Bytes of the cache that the part reads of the step's sequences. */
static uint64_t cache_bytes(const struct vulkan_recorder *recorder,
                            const struct vulkan_attention_shape *shape,
                            const struct attention_part *part)
{
    const struct kv_layout *layout = &recorder->program->plan->kv;
    const struct kv_group *group = &layout->groups[shape->kv_group];
    uint64_t sides = group->latent ? 1 : 2;
    uint64_t head_bytes = sides * sizeof(uint16_t) * group->head_dim * KV_BLOCK_TOKENS;
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

/* Whether the attention kernel computes the run of heads before it too (decodes). */
static bool fuses_run(const struct vulkan_recorder *recorder, uint32_t index,
                      struct vulkan_heads_run *run)
{
    uint32_t first;
    uint32_t count = vulkan_heads_run_before(recorder->program, index, &first);
    if (count == 0 || !vulkan_heads_are_fused(recorder, first, count))
        return false;
    *run = vulkan_heads_run_read(recorder->program->plan, first, count);
    return true;
}

static void record_part(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms,
                        const struct attention_part *part)
{
    bool tiles = part->tiles;
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_batch *batch = recorder->recording->batch;
    const struct plan_op *op = &program->plan->ops[index];
    const struct vulkan_kv_store store =
        vulkan_kv_store_of(program, op->params.attention.layer, part->form);
    const struct scratch_places places = places_of(program, tiles);
    struct vulkan_heads_run run;
    bool fused = !tiles && fuses_run(recorder, index, &run);
    const struct vulkan_attention_task task = {
        .shape = vulkan_attention_shape_of(program, index, part->form),
        .tiles = tiles,
        .items = part->count,
        .single = tiles && recorder->recording->shape.rows == recorder->recording->shape.sequences,
        .forms = forms,
        .fuse = fused ? fuse_bits(program, &run) : 0,
        .spans = tiles && recorder->recording->shape.spans && !op->params.attention.causal,
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
        push.sinks = program->weights.vector_address[op->weights[0]];
    if (task.shape.codes.scheme != KV_QUANT_NONE)
        push.kv_tables = program->weights.kv_tables_address[task.shape.kv_group];
    if (task.spans)
        push.sights = op->params.attention.near > 0 ? batch->near_address : batch->sights_address;
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

/* Requests the kernels of `task` for each number of items from `min` to `max`. */
static void request_items(struct vulkan_recorder *recorder, struct vulkan_attention_task task,
                          uint32_t min, uint32_t max)
{
    struct vulkan_specialization before = {0};
    for (task.items = min; task.items <= max; task.items++) {
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

/* The same for decodes, for all context lengths of the model. */
static void request_decodes(struct vulkan_recorder *recorder, struct vulkan_attention_task task,
                            uint32_t min, uint32_t max)
{
    request_items(recorder, task, min, max);
    task.reach = VULKAN_REACH_FAR;
    if (recorder->program->plan->config.context_tokens > VULKAN_FAR_CONTEXT)
        request_items(recorder, task, min, max);
}

/* Requests the kernels of every step that the shape stands for: decodes alone, of up to so many
 * rows; or so many rows of which some, two at least, are a sequence's in tiles. With tiles of three
 * rows or more there are no more tiles than half the rows, since a sequence of one row has none;
 * but where a start of quantization cuts tiles, two rows may be two. */
static void request_task(struct vulkan_recorder *recorder, struct vulkan_attention_task task,
                         bool may_span)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_shape *shape = &recorder->recording->shape;
    if (program->device->facts.batch_invariant) { /* whatever the number of tiles */
        task.tiles = true;
        task.single = shape->rows == shape->sequences;
        request_items(recorder, task, 1, 1);
        task.spans = true;
        if (program->spans && may_span)
            request_items(recorder, task, 1, 1);
        return;
    }
    if (shape->rows == shape->sequences) { /* decodes alone */
        request_decodes(recorder, task, recorder->recording->min_rows, shape->rows);
        task.reach = VULKAN_REACH_SHORT;
        if (shape->whole)
            request_items(recorder, task, recorder->recording->min_rows, shape->rows);
        return;
    }
    uint32_t max =
        shape->rows - 1 < program->max_logit_rows ? shape->rows - 1 : program->max_logit_rows;
    request_decodes(recorder, task, 2, max);
    task.tiles = true;
    max = program->tile_rows > 2 && !shape->openings ? shape->rows / 2 : shape->rows;
    request_items(recorder, task, 1, max);
    task.spans = true;
    if (program->spans && may_span)
        request_items(recorder, task, 1, max);
}

static void request_kernels(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[index];
    struct vulkan_heads_run run;
    bool fused = fuses_run(recorder, index, &run);
    bool opens = vulkan_kv_has_opening(program, op->params.attention.layer);
    struct vulkan_attention_task task = {
        .shape = vulkan_attention_shape_of(program, index, VULKAN_KV_FORM_USUAL),
        .forms = forms,
        .fuse = fused ? fuse_bits(program, &run) : 0};
    if (memcmp(&task, &recorder->requested, sizeof task) == 0)
        return; /* as the layer before */
    recorder->requested = task;
    request_task(recorder, task, !op->params.attention.causal);
    if (opens) {
        task.shape = vulkan_attention_shape_of(program, index, VULKAN_KV_FORM_OPENING);
        request_task(recorder, task, !op->params.attention.causal);
    }
}

void vulkan_attention_record_ahead(struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_batch *batch = recorder->recording->batch;
    uint32_t first = index + 1;
    uint32_t heads = first < program->plan->op_count ? program->notes[first].heads : 0;
    if (heads == 0 || !vulkan_heads_are_fused(recorder, first, heads))
        return;
    const struct plan_op *op = &program->plan->ops[first + heads];
    const struct vulkan_kv_layer *kv = &program->kv[op->params.attention.layer];
    const struct vulkan_attention_shape shape =
        vulkan_attention_shape_of(program, first + heads, VULKAN_KV_FORM_USUAL);
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

/* Writes keys and values of all patches into the op's cache. */
static void record_patch_keys(struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[index];
    const struct patch_attention_params *params = &op->params.patch_attention;
    struct vulkan_rope_kv_write_push push = vulkan_heads_push(recorder, op);
    const struct vulkan_heads_task task = {.parts = VULKAN_HEADS_WRITE,
                                           .rows = vulkan_recorder_rows(recorder, op->inputs[0]),
                                           .head_dim = params->queries.head_dim,
                                           .kv_heads = params->queries.heads};
    push.keys = program->patch_kv.keys;
    push.values = program->patch_kv.values;
    push.key_offset = params->keys;
    push.value_offset = params->values;
    vulkan_heads_dispatch(recorder, op, &task, &push, false);
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
    const struct vulkan_attention_task task = {
        .shape = vulkan_attention_shape_of(program, index, VULKAN_KV_FORM_USUAL),
        .tiles = true,
        .items = windowed ? recording->shape.window_tiles : recording->shape.whole_tiles,
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
        .sights = spans->sights_address,
    };
    struct vulkan_attention_choice choice =
        vulkan_attention_policy_choose(&program->device->facts, &task);
    must(choice.partial_bytes <= program->attention_scratch.tile_partial_bytes);
    const struct vulkan_touch touch = {
        .reads = {op->inputs[0], vulkan_recorder_kv(recorder), PLAN_NONE},
        .writes = {op->output, vulkan_recorder_scratch(recorder)},
        .cache_bytes = (uint64_t)recording->shape.patches * task.shape.heads * task.shape.head_dim *
                       2 * sizeof(uint16_t),
        .name = windowed ? "attention in windows" : "attention over images"};
    record_patch_keys(recorder, index);
    vulkan_recorder_dispatch(recorder, choice.shader, &choice.specialization, &push, sizeof push,
                             choice.grid, &touch);
}

/* Rows that see the form: decodes and tiles, side by side. */
static void record_form(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms,
                        enum vulkan_kv_form form, uint64_t sequences, uint32_t first_tile,
                        uint32_t tiles)
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

static void record(struct vulkan_recorder *recorder, uint32_t index, uint32_t forms)
{
    const struct vulkan_shape *shape = &recorder->recording->shape;
    const struct vulkan_batch *batch = recorder->recording->batch;
    const struct plan_op *op = &recorder->program->plan->ops[index];
    if (op->stem == OP_patch_attention) {
        record_patches(recorder, index, forms);
        return;
    }
    if (recorder->recording->min_rows > 0) {
        request_kernels(recorder, index, forms);
        return;
    }
    uint32_t early = shape->opening_tiles;
    if (!shape->openings || !vulkan_kv_has_opening(recorder->program, op->params.attention.layer)) {
        record_form(recorder, index, forms, VULKAN_KV_FORM_USUAL, batch->sequences_address, 0,
                    shape->tiles);
        return;
    }
    record_form(recorder, index, forms, VULKAN_KV_FORM_OPENING, batch->opening_address, 0, early);
    record_form(recorder, index, forms, VULKAN_KV_FORM_USUAL, batch->beyond_address, early,
                shape->tiles - early);
}

void vulkan_record_attention(struct vulkan_recorder *recorder)
{
    record(recorder, recorder->op, recorder->forms[recorder->op]);
}

void vulkan_record_patch_attention(struct vulkan_recorder *recorder)
{
    record(recorder, recorder->op, recorder->forms[recorder->op]);
}
