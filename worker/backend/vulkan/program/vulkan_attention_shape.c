/*
 * A run of norms, rotations and the KV write over one tensor has the usual form when queries and
 * keys are rotated, both or neither normed, and values normed without weight or not at all.
 */
#include "worker/backend/vulkan/program/vulkan_attention_shape.h"

#include <string.h>

#include "worker/backend/vulkan/device/vulkan_attention_push.h"
#include "worker/plan/kv_codec.h"

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

struct vulkan_kv_store vulkan_kv_store_of(const struct vulkan_program *program, uint32_t layer,
                                          enum vulkan_kv_form form)
{
    const struct kv_layout *layout = &program->plan->kv;
    const struct kv_quantization *quantization = &layout->quantization;
    struct vulkan_kv_store store = {.group = layout->layer_group[layer], .kv = &program->kv[layer]};
    if (form == VULKAN_KV_FORM_OPENING) {
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

bool vulkan_kv_has_opening(const struct vulkan_program *program, uint32_t layer)
{
    return vulkan_kv_store_of(program, layer, VULKAN_KV_FORM_OPENING).group != KV_GROUP_NONE;
}

struct vulkan_heads_run vulkan_heads_run_read(const struct plan *plan, uint32_t first,
                                              uint32_t count)
{
    struct vulkan_heads_run run = {.write = &plan->ops[first + count - 1]};
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
                    q->slice.head_dim == run.query_rope->params.rope.slice.head_dim &&
                    k->slice.head_dim == run.key_rope->params.rope.slice.head_dim &&
                    run.query_norm < run.query_rope && run.key_norm < run.key_rope;
    }
    if (run.usual && run.value_norm)
        run.usual = run.query_norm && run.value_norm->weights[0] == PLAN_NONE &&
                    float_bits(run.value_norm->params.head_norm.epsilon) ==
                        float_bits(run.query_norm->params.head_norm.epsilon);
    return run;
}

/* The run of heads right before the attention op, or a count of 0. */
uint32_t vulkan_heads_run_before(const struct vulkan_program *program, uint32_t index,
                                 uint32_t *first)
{
    for (uint32_t i = index; i-- > 0 && program->notes[i].in_heads;) {
        *first = i;
        if (program->notes[i].heads > 0)
            return program->notes[i].heads;
    }
    return 0;
}

/* Each query head has keys and values of its own; the attention kernel rotates none of them. */
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

struct vulkan_attention_shape vulkan_attention_shape_of(const struct vulkan_program *program,
                                                        uint32_t index, enum vulkan_kv_form form)
{
    const struct plan_op *op = &program->plan->ops[index];
    const struct attention_params *params = &op->params.attention;
    if (op->stem == OP_patch_attention)
        return patch_shape(program, index);
    const struct vulkan_kv_store store = vulkan_kv_store_of(program, params->layer, form);
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
    uint32_t count = vulkan_heads_run_before(program, index, &first);
    if (count == 0)
        return shape;
    const struct vulkan_heads_run run = vulkan_heads_run_read(program->plan, first, count);
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

uint32_t vulkan_attention_shape_forms(const struct vulkan_program *program, uint32_t index)
{
    const struct vulkan_attention_shape shape =
        vulkan_attention_shape_of(program, index, VULKAN_KV_FORM_USUAL);
    return vulkan_attention_policy_forms(&shape); /* depends on the head's size only */
}

/* Whether the op has that form; if so, *shape is set. */
static bool find_shape(const struct vulkan_program *program, uint32_t index,
                       enum vulkan_kv_form form, struct vulkan_attention_shape *shape)
{
    const struct plan_op *op = &program->plan->ops[index];
    bool layered = op->stem == OP_attention;
    if (!layered && op->stem != OP_patch_attention)
        return false;
    if (form == VULKAN_KV_FORM_OPENING &&
        !(layered && vulkan_kv_has_opening(program, op->params.attention.layer)))
        return false;
    *shape = vulkan_attention_shape_of(program, index, form);
    return true;
}

uint32_t vulkan_attention_shape_tile_rows(const struct vulkan_program *program)
{
    uint32_t min = UINT32_MAX;
    struct vulkan_attention_shape shape;
    for (uint32_t i = 0; i < program->plan->op_count; i++) {
        for (enum vulkan_kv_form form = VULKAN_KV_FORM_USUAL; form <= VULKAN_KV_FORM_OPENING;
             form++) {
            if (!find_shape(program, i, form, &shape))
                continue;
            uint32_t rows = vulkan_attention_policy_tile_rows(&program->device->facts, &shape);
            min = rows < min ? rows : min;
        }
    }
    return min == UINT32_MAX ? 1 : min;
}

static void grow_to(uint64_t *max, uint64_t bytes)
{
    bytes = (bytes + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
    if (bytes > *max)
        *max = bytes;
}

static void grow_scratch(const struct vulkan_program *program,
                         const struct vulkan_attention_shape *shape, bool patches,
                         struct vulkan_attention_scratch *max)
{
    const struct vulkan_facts *facts = &program->device->facts;
    struct vulkan_attention_task task = {
        .shape = *shape, .forms = VULKAN_FORM_F32, .spans = patches};
    uint32_t items = patches ? program->max_patch_rows : program->max_step_rows;
    for (task.items = 1; task.items <= items; task.items++) {
        task.tiles = true;
        struct vulkan_attention_choice choice = vulkan_attention_policy_choose(facts, &task);
        grow_to(&max->tile_counter_bytes, choice.counter_bytes);
        grow_to(&max->tile_partial_bytes, choice.partial_bytes);
        if ((vulkan_attention_policy_forms(shape) & VULKAN_FORM_TILED) != 0) {
            task.forms = VULKAN_FORM_TILED; /* no kernel in PTX writes it */
            choice = vulkan_attention_policy_choose(facts, &task);
            grow_to(&max->tile_counter_bytes, choice.counter_bytes);
            grow_to(&max->tile_partial_bytes, choice.partial_bytes);
            task.forms = VULKAN_FORM_F32;
        }
        if (patches)
            continue; /* nothing but tiles */
        task.tiles = false;
        choice = vulkan_attention_policy_choose(facts, &task);
        grow_to(&max->decode_counter_bytes, choice.counter_bytes);
        grow_to(&max->decode_partial_bytes, choice.partial_bytes);
        if (!vulkan_attention_policy_fuses(facts, shape, task.items))
            continue;
        task.fuse = VULKAN_ATTENTION_FUSE_ROPE;
        choice = vulkan_attention_policy_choose(facts, &task);
        grow_to(&max->decode_counter_bytes, choice.counter_bytes);
        grow_to(&max->decode_partial_bytes, choice.partial_bytes);
        task.fuse = 0;
    }
}

struct vulkan_attention_scratch
vulkan_attention_shape_scratch_bytes(const struct vulkan_program *program)
{
    struct vulkan_attention_scratch max = {0};
    for (enum vulkan_kv_form form = VULKAN_KV_FORM_USUAL; form <= VULKAN_KV_FORM_OPENING; form++) {
        struct vulkan_attention_shape shape, last = {0};
        for (uint32_t i = 0; i < program->plan->op_count; i++) {
            if (!find_shape(program, i, form, &shape) || memcmp(&shape, &last, sizeof last) == 0)
                continue;
            last = shape;
            bool patches = program->plan->ops[i].stem == OP_patch_attention;
            grow_scratch(program, &shape, patches, &max);
        }
    }
    return max;
}
