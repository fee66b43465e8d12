/*
 * Lays a program out in device memory.
 *
 * Tensors are sized for the largest step. Only tensors that a linear op reads have the forms f16
 * and q8, which need a multiple of 32 columns (vulkan_padding.h). The KV cache is one region per
 * layer for keys and one for values, so that a region needs more than one allocation only if a
 * layer's cache is larger than 4 GiB.
 */
#include "worker/backend/vulkan/program/vulkan_program_memory.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/policy/vulkan_matrix_policy.h"
#include "worker/backend/vulkan/policy/vulkan_whole_plan.h"
#include "worker/backend/vulkan/program/vulkan_attention_shape.h"
#include "worker/backend/vulkan/program/vulkan_linear_way.h"
#include "worker/backend/vulkan/program/vulkan_moe_way.h"
#include "worker/backend/vulkan/program/vulkan_recurrent_states.h"
#include "worker/backend/vulkan/weights/vulkan_padding.h"
#include "worker/plan/kv_codec.h"

#define TILE_COLUMNS 128u /* of the tiled form */

static uint64_t align_piece(uint64_t bytes)
{
    return (bytes + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
}

/* Sets the addresses of a tensor's forms, one after the other; returns their bytes. */
static uint64_t lay_tensor(const struct vulkan_program *program, struct vulkan_tensor *tensor,
                           bool forms, uint64_t address)
{
    uint64_t rows = vulkan_program_rows(program, tensor->rows);
    uint64_t half_rows = (rows + VULKAN_MATRIX_ROWS - 1) / VULKAN_MATRIX_ROWS * VULKAN_MATRIX_ROWS;
    rows = (rows + VULKAN_ROW_PADDING - 1) / VULKAN_ROW_PADDING * VULKAN_ROW_PADDING;
    uint64_t at = address;
    tensor->f32 = at;
    at += align_piece(rows * tensor->columns * sizeof(float));
    if (forms) {
        tensor->f16 = at;
        uint64_t tiles = (tensor->columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
        at += align_piece(half_rows * tiles * TILE_COLUMNS * sizeof(uint16_t));
        tensor->q8 = at;
        at += align_piece(rows * tensor->columns);
        tensor->q8_terms = at;
        at += align_piece(rows * (tensor->columns / VULKAN_FORM_COLUMNS) * 2 * sizeof(float));
    }
    return at - address;
}

static void find_linear_inputs(const struct plan *plan, bool *inputs)
{
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].stem == OP_linear || plan->ops[i].stem == OP_linear_add ||
            plan->ops[i].stem == OP_moe_linear)
            inputs[plan->ops[i].inputs[0]] = true;
}

static enum result place_tensors(struct vulkan_program *program, struct error_text *error)
{
    const struct plan *plan = program->plan;
    bool *inputs = must_alloc(plan->tensor_count + 1, sizeof *inputs);
    uint64_t *bytes = must_alloc(plan->tensor_count + 1, sizeof *bytes);
    uint64_t total = 0;
    find_linear_inputs(plan, inputs);
    find_linear_inputs(&program->whole_plan, inputs);
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        program->tensors[t].rows = plan->tensors[t].rows;
        program->tensors[t].columns = vulkan_padding_columns(plan, (plan_tensor_id)t);
        inputs[t] = inputs[t] && program->tensors[t].columns % VULKAN_FORM_COLUMNS == 0;
        bytes[t] = lay_tensor(program, &program->tensors[t], inputs[t], 0);
        total += align_piece(bytes[t]);
    }
    program->tensor_memory = vulkan_arena_create(program->device, total, false);
    enum result result = RESULT_OK;
    for (uint32_t t = 0; t < plan->tensor_count && result == RESULT_OK; t++) {
        struct vulkan_piece piece;
        result = vulkan_arena_take(program->tensor_memory, bytes[t], "tensors", &piece, error);
        if (result != RESULT_OK)
            break;
        (void)lay_tensor(program, &program->tensors[t], inputs[t], piece.address);
        program->tensors[t].whole = piece;
    }
    free(inputs);
    free(bytes);
    return result;
}

uint64_t vulkan_program_kv_bytes(const struct kv_layout *layout, uint32_t g, bool values,
                                 uint32_t blocks)
{
    const struct kv_group *group = &layout->groups[g];
    uint64_t heads = (uint64_t)blocks * group->kv_heads;
    if (group->latent && values)
        return 0;
    if (!group->quantized)
        return heads * KV_BLOCK_TOKENS * group->head_dim * sizeof(uint16_t);
    return heads * (values ? kv_codec_value_bytes(&layout->quantization, group->head_dim)
                           : kv_codec_key_bytes(&layout->quantization, group->head_dim));
}

static enum result place_layer(struct vulkan_program *program, uint32_t group, uint32_t blocks,
                               struct vulkan_kv_layer *layer, struct error_text *error)
{
    const struct kv_layout *layout = &program->plan->kv;
    uint64_t key_bytes = vulkan_program_kv_bytes(layout, group, false, blocks);
    uint64_t value_bytes = vulkan_program_kv_bytes(layout, group, true, blocks);
    struct vulkan_piece keys = {0}, values;
    enum result result = vulkan_arena_take(program->kv_memory, key_bytes, "KV cache", &keys, error);
    values = keys; /* of a latent layer */
    if (result == RESULT_OK && value_bytes > 0)
        result = vulkan_arena_take(program->kv_memory, value_bytes, "KV cache", &values, error);
    if (result == RESULT_OK)
        *layer = (struct vulkan_kv_layer){keys.address, values.address};
    return result;
}

static enum result place_kv(struct vulkan_program *program, const struct vulkan_kept_pools *kept,
                            const uint32_t *kv_blocks, struct error_text *error)
{
    const struct kv_layout *layout = &program->plan->kv;
    /* Only a group that keeps every position has the whole token history, and only a plan that embeds
     * tokens writes it. */
    bool keeps_all = layout->group_count > 0 && layout->groups[0].kind == KV_FULL &&
                     program->plan->taken_count == 0;
    uint64_t history_bytes =
        keeps_all ? (uint64_t)kv_blocks[0] * KV_BLOCK_TOKENS * sizeof(uint32_t) : 0;
    uint64_t total = align_piece(history_bytes);
    for (uint32_t g = 0; g < layout->group_count; g++)
        total += layout->groups[g].layers *
                 (align_piece(vulkan_program_kv_bytes(layout, g, false, kv_blocks[g])) +
                  align_piece(vulkan_program_kv_bytes(layout, g, true, kv_blocks[g])));
    program->kv_memory = vulkan_kept_pools_kv(kept, total);
    enum result result = RESULT_OK;
    if (history_bytes > 0)
        result = vulkan_arena_take(program->kv_memory, history_bytes, "token history",
                                   &program->history, error);
    uint32_t placed[KV_GROUPS_MAX] = {0}; /* layers of each group, in their order */
    for (uint32_t l = 0; l < layout->layer_count && result == RESULT_OK; l++) {
        uint32_t group = layout->layer_group[l];
        if (group == KV_GROUP_NONE || layout->layer_index[l] != placed[group])
            continue; /* none, or an earlier layer's, which its ops name */
        result = place_layer(program, group, kv_blocks[group], &program->kv[l], error);
        uint32_t opening = kv_layout_opening(layout, group);
        if (result == RESULT_OK && opening != KV_GROUP_NONE)
            result =
                place_layer(program, opening, kv_blocks[opening], &program->openings[l], error);
        placed[group]++;
    }
    return result;
}

static void release_pools(struct vulkan_program *program)
{
    vulkan_arena_destroy(program->kv_memory);
    vulkan_arena_destroy(program->state_memory);
    free(program->states);
    program->kv_memory = program->state_memory = NULL;
    program->states = NULL;
}

/* After the recurrent states, in their arena. */
static enum result place_features(struct vulkan_program *program,
                                  const struct backend_options *options, struct error_text *error)
{
    const struct model_vision *vision =
        options->vision ? &options->vision->vision : options->sights;
    /* Rows see all of their sequence, and have segments; or all rows of a block. */
    if (program->plan->config.encoder || program->plan->config.sees_block)
        program->sees = program->spans = true;
    if (program->plan->config.borrows_caches)
        program->sees = program->axes = true;
    /* Without a tower rows attend to no features, which their sights say. */
    program->sees = program->sees || program->plan->config.crossed_layers > 0;
    if (!vision)
        return RESULT_OK;
    program->sees = true;
    program->axes = vision->grid_positions;
    program->spans = vision->spans_whole;
    if (!options->vision)
        return RESULT_OK;
    program->feature_columns = model_vision_feature_columns(vision);
    enum result result = vulkan_arena_take(program->state_memory, backend_feature_bytes(options),
                                           "features of images", &program->features, error);
    program->features_address = program->features.address;
    return result;
}

/* KV pools, recurrent state and features: of an earlier worker, or new ones that outlive this process,
 * or private ones. */
static enum result place_pools(struct vulkan_program *program,
                               const struct backend_options *options, struct error_text *error)
{
    struct vulkan_kept_pools kept;
    enum result result;
    vulkan_kept_pools_begin(&kept, program->device, &options->kept);
    for (;;) {
        result = RESULT_OK;
        if (options->shares_kv) /* vulkan_program_share_kv() follows */
            program->kv_memory = vulkan_kept_pools_kv(&kept, 0);
        else
            result = place_kv(program, &kept, options->kv_blocks, error);
        if (result == RESULT_OK)
            result = vulkan_recurrent_states_place(program, &kept, options->state_slots,
                                                   backend_feature_bytes(options), error);
        if (result == RESULT_OK)
            result = place_features(program, options, error);
        if (result == RESULT_OK)
            result =
                vulkan_kept_pools_finish(&kept, program->kv_memory, program->state_memory, error);
        if (result == RESULT_OK)
            break;
        if (!vulkan_kept_pools_retry(&kept, error->text))
            break;
        release_pools(program);
    }
    vulkan_kept_pools_end(&kept, &program->pools_origin);
    program->pools_reason = kept.reason;
    return result;
}

static enum result place_deferred(struct vulkan_program *program,
                                  const struct backend_options *options, struct error_text *error)
{
    uint64_t bytes = options->deferred_places * state_layout_row_bytes(&program->plan->state);
    if (bytes == 0)
        return RESULT_OK;
    program->deferred_places = options->deferred_places;
    program->deferred_memory = vulkan_arena_create(program->device, align_piece(bytes), false);
    return vulkan_arena_take(program->deferred_memory, bytes, "deferred rows", &program->deferred,
                             error);
}

/* Of a vision plan: keys and values of the patches, shared by all attention ops, which run one
 * after the other. */
static enum result place_patches(struct vulkan_program *program, struct error_text *error)
{
    const struct plan *plan = program->plan;
    uint64_t max = 0;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct column_slice *queries = &plan->ops[i].params.patch_attention.queries;
        uint64_t columns = (uint64_t)queries->heads * queries->head_dim;
        if (plan->ops[i].stem == OP_patch_attention && columns > max)
            max = columns;
    }
    if (max == 0)
        return RESULT_OK;
    uint64_t bytes = align_piece((uint64_t)(program->max_patch_rows / KV_BLOCK_TOKENS + 1) *
                                 KV_BLOCK_TOKENS * max * sizeof(uint16_t));
    struct vulkan_piece keys, values;
    program->patch_memory = vulkan_arena_create(program->device, 2 * bytes, false);
    enum result result =
        vulkan_arena_take(program->patch_memory, bytes, "keys of patches", &keys, error);
    if (result == RESULT_OK)
        result =
            vulkan_arena_take(program->patch_memory, bytes, "values of patches", &values, error);
    if (result == RESULT_OK)
        program->patch_kv = (struct vulkan_kv_layer){keys.address, values.address};
    program->axes = true;
    return result;
}

/* Counters are zero whenever no kernel runs. */
static enum result clear_scratch(struct vulkan_program *program, struct error_text *error)
{
    struct vulkan_commands *commands;
    const struct vulkan_piece *pieces[2] = {&program->scratch, &program->attention_memory};
    enum result result =
        vulkan_commands_create(program->device, VULKAN_QUEUE_COMPUTE, 0, &commands, error);
    if (result != RESULT_OK)
        return result;
    result = vulkan_commands_begin(commands, error);
    for (uint32_t i = 0; i < 2 && result == RESULT_OK; i++)
        vulkan_commands_fill(commands, pieces[i]->buffer, pieces[i]->offset, pieces[i]->bytes, 0);
    if (result == RESULT_OK)
        result = vulkan_commands_end(commands, error);
    if (result == RESULT_OK)
        result = vulkan_commands_run(commands, error);
    vulkan_commands_destroy(commands);
    return result;
}

static enum result place_scratch(struct vulkan_program *program, struct error_text *error)
{
    program->attention_scratch = vulkan_attention_shape_scratch_bytes(program);
    program->tile_rows = vulkan_attention_shape_tile_rows(program);
    const struct vulkan_attention_scratch *attention = &program->attention_scratch;
    uint64_t linear_bytes = align_piece(vulkan_linear_scratch_bytes(program));
    uint64_t attention_bytes = VULKAN_ALIGNMENT + attention->decode_counter_bytes +
                               attention->tile_counter_bytes + attention->decode_partial_bytes +
                               attention->tile_partial_bytes;
    uint64_t moe_bytes = align_piece(vulkan_moe_memory_bytes(program));
    program->scratch_memory =
        vulkan_arena_create(program->device, linear_bytes + attention_bytes + moe_bytes, false);
    enum result result = vulkan_arena_take(program->scratch_memory, linear_bytes, "scratch memory",
                                           &program->scratch, error);
    if (result == RESULT_OK)
        result = vulkan_arena_take(program->scratch_memory, attention_bytes, "scratch memory",
                                   &program->attention_memory, error);
    if (result == RESULT_OK && moe_bytes > 0)
        result = vulkan_arena_take(program->scratch_memory, moe_bytes, "scratch memory",
                                   &program->moe_memory, error);
    return result == RESULT_OK ? clear_scratch(program, error) : result;
}

static void annotate(struct vulkan_program *program, bool adapters)
{
    const struct plan *plan = program->plan;
    struct vulkan_fusion_note **notes[] = {&program->notes, &program->adapted_notes[0],
                                           &program->whole_notes, &program->adapted_notes[1]};
    vulkan_whole_plan_init(plan, &program->whole_plan);
    for (uint32_t i = 0; i < 4; i++) {
        const struct plan *own = i < 2 ? plan : &program->whole_plan;
        bool adapted = i % 2 == 1;
        if (adapted && !adapters)
            continue;
        *notes[i] = must_alloc(plan->op_count, sizeof **notes[i]);
        vulkan_fusion_annotate(own, *notes[i]);
        /* A row without an adapter has the same bits beside one that has. */
        if (adapted || (adapters && program->device->facts.batch_invariant))
            vulkan_fusion_part(own, *notes[i]);
    }
}

enum result vulkan_program_init(struct vulkan_program *program, const struct vulkan_device *device,
                                struct vulkan_kernels *kernels, const struct plan *plan,
                                const struct backend_options *options, struct error_text *error)
{
    *program = (struct vulkan_program){.device = device,
                                       .plan = plan,
                                       .kernels = kernels,
                                       .max_step_rows = options->max_step_rows,
                                       .max_logit_rows = options->max_logit_rows,
                                       .max_patch_rows = options->max_patch_rows};
    if (options->kv_type != KV_CACHE_F16)
        return error_set(error, RESULT_UNSUPPORTED, "on Vulkan the KV cache is f16");
    program->tensors = must_alloc(plan->tensor_count + 1, sizeof *program->tensors);
    program->kv = must_alloc(plan->kv.layer_count + 1, sizeof *program->kv);
    program->openings = must_alloc(plan->kv.layer_count + 1, sizeof *program->openings);
    annotate(program, options->adapters);
    vulkan_weights_init(&program->weights, device, plan);
    enum result result = place_tensors(program, error);
    if (result == RESULT_OK && options->adapters)
        result =
            vulkan_adapters_create(device, plan, options->max_step_rows, &program->adapters, error);
    if (result == RESULT_OK)
        result = place_pools(program, options, error);
    if (result == RESULT_OK)
        result = place_deferred(program, options, error);
    if (result == RESULT_OK)
        result = place_patches(program, error);
    if (result == RESULT_OK)
        result = place_scratch(program, error);
    return result;
}

void vulkan_program_share_kv(struct vulkan_program *program, const struct vulkan_program *lender)
{
    const struct kv_layout *own = &program->plan->kv, *lent = &lender->plan->kv;
    for (uint32_t l = 0; l < own->layer_count; l++) {
        uint32_t of = 0;
        while (lent->layer_group[of] != own->layer_group[l] ||
               lent->layer_index[of] != own->layer_index[l])
            must(++of < lent->layer_count);
        program->kv[l] = lender->kv[of];
        program->openings[l] = lender->openings[of];
    }
}

void vulkan_program_fini(struct vulkan_program *program)
{
    if (!program->device)
        return;
    vulkan_weights_fini(&program->weights);
    vulkan_arena_destroy(program->tensor_memory);
    release_pools(program);
    vulkan_arena_destroy(program->scratch_memory);
    vulkan_arena_destroy(program->patch_memory);
    vulkan_arena_destroy(program->deferred_memory);
    vulkan_adapters_destroy(program->adapters);
    free(program->notes);
    free(program->whole_notes);
    free(program->adapted_notes[0]);
    free(program->adapted_notes[1]);
    free(program->whole_plan.ops);
    free(program->tensors);
    free(program->kv);
    free(program->openings);
    *program = (struct vulkan_program){0};
}
