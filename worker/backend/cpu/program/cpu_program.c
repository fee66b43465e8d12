/*
 * Builds a program from a plan: lays out memory and annotates ops.
 *
 * Weights: one mapping, used whole (cpu_weights.c). Tensors: one mapping sized for the largest
 * step; rows are the outer dimension, so a step touches only as much of it as it has rows. KV
 * pools: one mapping per group, touched block by block. Recurrent state (cpu_state.c): one mapping.
 * Pools and state are private memory or lie in a vault that outlives the process (kept_pools.h).
 *
 * Weights of products are repacked. Embedding rows stay in the checkpoint and are read one row per
 * token. Norm weights and biases become f32 vectors.
 */
#include "worker/backend/cpu/program/cpu_program.h"

#include <stdlib.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"

#define ALIGNMENT 64u

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void init_vector(struct cpu_program *program, plan_weight_id id)
{
    const struct plan_weight *weight = &program->plan->weights[id];
    uint64_t row_bytes = ggml_row_bytes(weight->type, weight->columns);
    must(weight->experts == 0);
    program->vectors[id] = must_alloc((size_t)weight->rows * weight->columns, sizeof(float));
    for (uint32_t row = 0; row < weight->rows; row++)
        ggml_dequantize_row(weight->type, (const uint8_t *)weight->data + row * row_bytes,
                            weight->columns, program->vectors[id] + (size_t)row * weight->columns);
}

/* Norm weights and biases are few and small: converted to f32 once. */
static void init_vectors(struct cpu_program *program)
{
    uint32_t ones = plan_ones(program->plan);
    program->ones = must_alloc(ones, sizeof(float));
    for (uint32_t d = 0; d < ones; d++)
        program->ones[d] = 1.0f;
    for (uint32_t i = 0; i < program->plan->op_count; i++) {
        const struct plan_op *op = &program->plan->ops[i];
        if (op_facts(op->stem)->weights != OP_WEIGHTS_VECTORS)
            continue;
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX && op->weights[w] != PLAN_NONE; w++)
            if (!program->vectors[op->weights[w]])
                init_vector(program, op->weights[w]);
    }
}

/* Marks the tensors that some op quantizes. */
static void find_quantized(const struct cpu_program *program, bool *quantized)
{
    const struct plan *plan = program->plan;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        if (program->notes[i].quantize_output)
            quantized[plan->ops[i].output] = true;
        if (program->notes[i].quantize_input)
            quantized[plan->ops[i].inputs[0]] = true;
    }
}

static uint64_t tensor_rows(const struct cpu_program *program, enum plan_rows rows)
{
    const uint32_t merged = model_vision_square(&program->plan->vision);
    switch (rows) {
    case PLAN_ROWS_STEP: return program->max_step_rows;
    case PLAN_ROWS_LOGITS: return program->max_logit_rows;
    case PLAN_ROWS_PATCHES: return program->max_patch_rows;
    default: return program->max_patch_rows / merged;
    }
}

uint32_t cpu_rope_table_columns(const struct rope_config *rope)
{
    return rope->divided ? 2 * rope->dims : rope->dims;
}

static enum result init_tensors(struct cpu_program *program, struct error_text *error)
{
    const struct plan *plan = program->plan;
    bool *quantized = must_alloc(plan->tensor_count + 1, sizeof *quantized);
    find_quantized(program, quantized);
    uint64_t bytes = 0;
    enum result result = RESULT_OK;
    for (int pass = 0; pass < 2 && result == RESULT_OK; pass++) {
        uint8_t *base = program->tensor_memory.bytes;
        uint64_t at = 0;
        for (uint32_t t = 0; t < plan->tensor_count; t++) {
            const struct plan_tensor *tensor = &plan->tensors[t];
            struct cpu_tensor *target = &program->tensors[t];
            uint64_t rows = tensor_rows(program, tensor->rows);
            *target = (struct cpu_tensor){.rows = tensor->rows, .columns = tensor->columns};
            target->values = base ? (float *)(void *)(base + at) : NULL;
            at += align_up(rows * tensor->columns * sizeof(float));
            if (!quantized[t])
                continue;
            must(tensor->columns % 32 == 0);
            target->quantized = base ? (struct quantized_block *)(void *)(base + at) : NULL;
            at += align_up(rows * (tensor->columns / 32) * sizeof(struct quantized_block));
        }
        uint64_t positions =
            tensor_rows(program, plan->vision.patch_side > 0 ? PLAN_ROWS_PATCHES : PLAN_ROWS_STEP);
        for (uint32_t r = 0; r < plan->config.rope_count; r++) {
            program->rope_tables[r] = base ? (float *)(void *)(base + at) : NULL;
            at += align_up(positions * cpu_rope_table_columns(&plan->config.ropes[r]) *
                           sizeof(float));
        }
        bytes = at;
        if (pass == 0)
            result = lazy_memory_reserve(&program->tensor_memory, bytes, false, "tensors", error);
    }
    free(quantized);
    return result;
}

static void describe_pools(struct cpu_program *program, const struct backend_options *options)
{
    const struct kv_layout *layout = &program->plan->kv;
    must(layout->group_count <= KV_GROUPS_MAX);
    for (uint32_t g = 0; g < layout->group_count; g++) {
        struct kv_pool *pool = &program->kv[g];
        pool->type = options->kv_type;
        pool->blocks = options->kv_blocks[g];
        if (layout->groups[g].quantized) {
            pool->codec = must_alloc(1, sizeof *pool->codec);
            kv_codec_init(pool->codec, &layout->quantization, layout->groups[g].head_dim);
        }
        pool->block_bytes = kv_layout_block_bytes(layout, g, kv_cache_type_bytes(pool->type));
    }
    program->state_slots = options->state_slots;
    program->deferred_places = program->plan->state.layers > 0 ? options->deferred_places : 0;
}

static void release_pools(struct cpu_program *program)
{
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++)
        lazy_memory_release(&program->kv_memory[g]);
    lazy_memory_release(&program->state_memory);
    lazy_memory_release(&program->feature_memory);
}

/* KV pools, recurrent state and features in memory that outlives this process. */
static enum result map_kept_pools(struct cpu_program *program,
                                  const struct backend_options *options)
{
    const struct plan *plan = program->plan;
    const struct kept_pools *kept = &options->kept;
    uint64_t feature_bytes = backend_feature_bytes(options);
    uint32_t blocks[KV_GROUPS_MAX] = {0};
    for (uint32_t g = 0; g < plan->kv.group_count; g++)
        blocks[g] = program->kv[g].blocks;
    struct kept_pools_places places =
        kept_pools_lay(plan, program->kv[0].type, blocks, program->state_slots, feature_bytes);
    enum result result = RESULT_OK;
    for (uint32_t g = 0; g < plan->kv.group_count && result == RESULT_OK; g++)
        result = lazy_memory_map(&program->kv_memory[g], kept->memory_fd,
                                 kept->memory_offset + places.groups[g],
                                 program->kv[g].block_bytes * blocks[g], &program->pools_reason);
    if (result == RESULT_OK)
        result = lazy_memory_map(
            &program->state_memory, kept->memory_fd, kept->memory_offset + places.state,
            program->state_slots * state_layout_slot_bytes(&plan->state), &program->pools_reason);
    if (result == RESULT_OK)
        result = lazy_memory_map(&program->feature_memory, kept->memory_fd,
                                 kept->memory_offset + places.features, feature_bytes,
                                 &program->pools_reason);
    return result;
}

static enum result reserve_private_pools(struct cpu_program *program, bool shares_kv,
                                         struct error_text *error)
{
    enum result result = RESULT_OK;
    for (uint32_t g = 0; g < program->plan->kv.group_count && result == RESULT_OK; g++)
        result =
            lazy_memory_reserve(&program->kv_memory[g],
                                shares_kv ? 0 : program->kv[g].block_bytes * program->kv[g].blocks,
                                false, "KV cache", error);
    if (result == RESULT_OK)
        result = lazy_memory_reserve(&program->state_memory,
                                     program->state_slots *
                                         state_layout_slot_bytes(&program->plan->state),
                                     false, "recurrent state", error);
    return result;
}

static enum result init_pools(struct cpu_program *program, const struct backend_options *options,
                              struct error_text *error)
{
    const struct kept_pools *kept = &options->kept;
    describe_pools(program, options);
    program->pools_origin = KEPT_POOLS_PRIVATE;
    if (kept->is_given && map_kept_pools(program, options) == RESULT_OK) {
        program->pools_origin = kept->adopt ? KEPT_POOLS_ADOPTED : KEPT_POOLS_NEW;
    } else {
        release_pools(program);
        enum result result = reserve_private_pools(program, options->shares_kv, error);
        if (result != RESULT_OK)
            return result;
    }
    for (uint32_t g = 0; g < program->plan->kv.group_count; g++)
        program->kv[g].memory = program->kv_memory[g].bytes;
    return lazy_memory_reserve(&program->deferred_memory,
                               program->deferred_places *
                                   state_layout_row_bytes(&program->plan->state),
                               false, "deferred rows", error);
}

enum result cpu_program_init(struct cpu_program *program, const struct plan *plan,
                             const struct backend_options *options,
                             const struct cpu_kernels *kernels, const struct cpu_weights *lender,
                             struct error_text *error)
{
    program->plan = plan;
    program->kernels = kernels;
    program->outlier = options->activation_bits == 16 ? QUANTIZE_ALL : QUANTIZE_OUTLIER;
    program->max_step_rows = options->max_step_rows;
    program->max_logit_rows = options->max_logit_rows;
    program->max_patch_rows = options->max_patch_rows;
    program->notes = must_alloc(plan->op_count, sizeof *program->notes);
    program->tensors = must_alloc(plan->tensor_count, sizeof *program->tensors);
    program->vectors = must_alloc(plan->weight_count, sizeof *program->vectors);
    op_order_annotate(plan, program->notes);
    init_vectors(program);
    cpu_weights_init(&program->weights, plan, lender);
    program->packed = program->weights.packed;
    enum result result = init_tensors(program, error);
    if (result == RESULT_OK)
        result = init_pools(program, options, error);
    return result;
}

void cpu_program_fini(struct cpu_program *program)
{
    for (uint32_t w = 0; program->vectors && w < program->plan->weight_count; w++)
        free(program->vectors[w]);
    free(program->vectors);
    free(program->ones);
    free(program->tensors);
    free(program->notes);
    cpu_weights_fini(&program->weights);
    lazy_memory_release(&program->tensor_memory);
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++) {
        if (program->kv[g].codec)
            kv_codec_fini(program->kv[g].codec);
        free(program->kv[g].codec);
    }
    release_pools(program);
    lazy_memory_release(&program->deferred_memory);
}
