/*
 * Turning a plan into a program: memory is laid out, weights are repacked, notes are taken.
 *
 * Three kinds of memory. Weights: one mapping, used whole. Tensors: one mapping sized for the
 * largest step and touched only as far as steps reach, since rows come first. KV pools: one mapping
 * per group, touched block by block.
 *
 * Weights that linear ops use are repacked; the source pages are then given back to the kernel when
 * they belong to a read-only file mapping, so that a weight is resident once. Embedding rows keep
 * being read from the checkpoint, one row per token. Norm weights become f32 vectors.
 */
#include "worker/backend/cpu/cpu_program.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/must.h"
#include "worker/backend/cpu/ggml_dequantize.h"
#include "worker/backend/cpu/op_order.h"

#define ALIGNMENT 64u
#define SLICE_BYTES                                                                                \
    (8u << 20) /* of a checkpoint between two progress calls: some 10 ms of work                   \
                */

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool is_linear(enum op_stem stem)
{
    return stem == OP_linear || stem == OP_linear_add;
}

static bool is_norm(enum op_stem stem)
{
    return stem == OP_rms_norm || stem == OP_rms_norm_add || stem == OP_head_norm;
}

/* Gives every linear weight its place, and norm weights their vectors. */
static enum result init_weights(struct cpu_program *program, struct error_text *error)
{
    const struct plan *plan = program->plan;
    bool *used = must_alloc(plan->weight_count + 1, sizeof *used);
    for (uint32_t i = 0; i < plan->op_count; i++)
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX && is_linear(plan->ops[i].stem); w++)
            if (plan->ops[i].weights[w] != PLAN_NONE)
                used[plan->ops[i].weights[w]] = true;
    uint64_t bytes = 0;
    for (uint32_t w = 0; w < plan->weight_count; w++) {
        const struct plan_weight *weight = &plan->weights[w];
        if (!used[w])
            continue;
        must(weight->data_bytes >= weight->rows * ggml_row_bytes(weight->type, weight->columns));
        program->packed[w] = packed_weight_describe(weight->type, weight->rows, weight->columns);
        bytes += align_up(packed_weight_bytes(&program->packed[w]));
        program->packed_bytes += packed_weight_bytes(&program->packed[w]);
    }
    enum result result = cpu_memory_reserve(&program->weight_memory, bytes, true, "weights", error);
    uint8_t *next = program->weight_memory.bytes;
    for (uint32_t w = 0; w < plan->weight_count && result == RESULT_OK; w++) {
        if (!used[w])
            continue;
        program->packed[w].data = next;
        next += align_up(packed_weight_bytes(&program->packed[w]));
    }
    free(used);
    return result;
}

static void init_vectors(struct cpu_program *program)
{
    const struct plan *plan = program->plan;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        plan_weight_id id = plan->ops[i].weights[0];
        if (!is_norm(plan->ops[i].stem) || program->vectors[id])
            continue;
        const struct plan_weight *weight = &plan->weights[id];
        must(weight->rows == 1);
        program->vectors[id] = must_alloc(weight->columns, sizeof(float));
        ggml_dequantize_row(weight->type, weight->data, weight->columns, program->vectors[id]);
    }
}

/* Which tensors some op quantizes. */
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
    return rows == PLAN_ROWS_STEP ? program->max_step_rows : program->max_logit_rows;
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
            struct cpu_tensor *mine = &program->tensors[t];
            uint64_t rows = tensor_rows(program, tensor->rows);
            *mine = (struct cpu_tensor){.rows = tensor->rows, .columns = tensor->columns};
            mine->values = base ? (float *)(void *)(base + at) : NULL;
            at += align_up(rows * tensor->columns * sizeof(float));
            if (!quantized[t])
                continue;
            must(tensor->columns % 32 == 0);
            mine->quantized = base ? (struct quantized_block *)(void *)(base + at) : NULL;
            at += align_up(rows * (tensor->columns / 32) * sizeof(struct quantized_block));
        }
        for (uint32_t r = 0; r < plan->config.rope_count; r++) {
            program->rope_tables[r] = base ? (float *)(void *)(base + at) : NULL;
            at += align_up((uint64_t)program->max_step_rows * plan->config.ropes[r].dims *
                           sizeof(float));
        }
        bytes = at;
        if (pass == 0)
            result = cpu_memory_reserve(&program->tensor_memory, bytes, false, "tensors", error);
    }
    free(quantized);
    return result;
}

static enum result init_kv(struct cpu_program *program, const uint32_t *kv_blocks,
                           struct error_text *error)
{
    const struct kv_layout *layout = &program->plan->kv;
    must(layout->group_count <= KV_GROUPS_MAX);
    for (uint32_t g = 0; g < layout->group_count; g++) {
        const struct kv_group *group = &layout->groups[g];
        struct kv_pool *pool = &program->kv[g];
        pool->blocks = kv_blocks[g];
        pool->block_elements =
            (size_t)2 * KV_BLOCK_TOKENS * group->head_dim * group->kv_heads * group->layers;
        enum result result = cpu_memory_reserve(
            &program->kv_memory[g], pool->block_elements * sizeof(uint16_t) * pool->blocks, false,
            "KV cache", error);
        if (result != RESULT_OK)
            return result;
        pool->elements = program->kv_memory[g].bytes;
    }
    return RESULT_OK;
}

enum result cpu_program_init(struct cpu_program *program, const struct plan *plan,
                             const struct backend_options *options,
                             const struct cpu_kernels *kernels, struct error_text *error)
{
    program->plan = plan;
    program->kernels = kernels;
    program->max_step_rows = options->max_step_rows;
    program->max_logit_rows = options->max_logit_rows;
    program->notes = must_alloc(plan->op_count, sizeof *program->notes);
    program->tensors = must_alloc(plan->tensor_count, sizeof *program->tensors);
    program->packed = must_alloc(plan->weight_count, sizeof *program->packed);
    program->vectors = must_alloc(plan->weight_count, sizeof *program->vectors);
    op_order_annotate(plan, program->notes);
    init_vectors(program);
    enum result result = init_weights(program, error);
    if (result == RESULT_OK)
        result = init_tensors(program, error);
    if (result == RESULT_OK)
        result = init_kv(program, options->kv_blocks, error);
    return result;
}

/* Groups [next_group, end_group) of one weight. */
struct pack_job {
    const struct packed_weight *packed;
    const struct plan_weight *source;
    _Atomic uint32_t next_group;
    uint32_t end_group;
};

static void pack_groups(void *context, uint32_t thread)
{
    (void)thread;
    struct pack_job *job = context;
    for (;;) {
        uint32_t group = atomic_fetch_add_explicit(&job->next_group, 1, memory_order_relaxed);
        if (group >= job->end_group)
            return;
        packed_weight_fill_group(job->packed, job->source->type, job->source->data, group);
    }
}

/* Whole pages around the bytes: neighbours there are file pages too, and come back when read. */
static void drop_pages(const uint8_t *first, uint64_t byte_count)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)first / page * page;
    uintptr_t end = (uintptr_t)first + (uintptr_t)byte_count;
    (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* only memory is lost if it fails */
}

void cpu_program_pack_weights(struct cpu_program *program, struct cpu_thread_pool *pool,
                              bool drop_source_pages, backend_progress_fn *progress, void *context)
{
    uint64_t done = 0;
    for (uint32_t w = 0; w < program->plan->weight_count; w++) {
        const struct plan_weight *source = &program->plan->weights[w];
        const struct packed_weight *packed = &program->packed[w];
        if (!packed->data)
            continue;
        uint64_t group_source = PACKED_ROWS * ggml_row_bytes(source->type, source->columns);
        uint32_t slice = (uint32_t)(SLICE_BYTES / group_source) + 1;
        for (uint32_t first = 0; first < packed->groups; first += slice) {
            uint32_t left = packed->groups - first;
            uint32_t count = left < slice ? left : slice;
            struct pack_job job = {packed, source, first, first + count};
            cpu_thread_pool_run(pool, pack_groups, &job);
            if (drop_source_pages)
                drop_pages((const uint8_t *)source->data + first * group_source,
                           count * group_source);
            done += count * packed->group_bytes;
            if (progress)
                progress(context, done, program->packed_bytes);
        }
    }
}

void cpu_program_fini(struct cpu_program *program)
{
    for (uint32_t w = 0; program->vectors && w < program->plan->weight_count; w++)
        free(program->vectors[w]);
    free(program->vectors);
    free(program->packed);
    free(program->tensors);
    free(program->notes);
    cpu_memory_release(&program->weight_memory);
    cpu_memory_release(&program->tensor_memory);
    for (uint32_t g = 0; g < KV_GROUPS_MAX; g++)
        cpu_memory_release(&program->kv_memory[g]);
}
