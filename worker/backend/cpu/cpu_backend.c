/*
 * The CPU as a backend: owns the program (weights, memory), the threads and the step state.
 *
 * A step is computed when it is launched, by the launching thread and its team, and its sampled
 * tokens are kept until the step is waited for. Launching a step before the previous one is read
 * saves no time on the CPU, so by default one step is in flight. Tests of the backend's callers use
 * a depth of 2.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/log.h"
#include "proto/must.h"
#include "worker/backend/cpu/cpu_image_encoder.h"
#include "worker/backend/cpu/cpu_walk.h"
#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/cpu/program/cpu_program.h"
#include "worker/backend/host/backend.h"

struct finished_step {
    uint32_t count;
    struct sampled_token *results;  /* [max_logit_rows] */
    float *passed[PLAN_PASSED_MAX]; /* copies of plan->passed, [max_step_rows, columns] */
};

#define KV_DEFAULT_BYTES_MAX (2ull << 30)
#define KV_DEFAULT_RAM_SHARE 4u

struct cpu_backend {
    struct backend base; /* first, so that both have one address */
    bool loaded;
    struct thread_pool *pool;
    struct cpu_program program;
    struct cpu_step step;
    struct cpu_adapters adapters;
    struct cpu_image_encoder vision;    /* zeroed where there is none */
    struct cpu_image_encoder sound;     /* the tower of sounds beside it; likewise */
    struct cpu_image_encoder *encoding; /* the one of the current batch */
    uint32_t depth;
    uint32_t launched; /* steps computed and not yet waited for */
    uint32_t newest;   /* index into finished */
    uint32_t read;     /* the one waited for last */
    struct finished_step finished[STEP_DEPTH_MAX];
    char description[64];
};

static struct cpu_backend *own(struct backend *backend)
{
    return (struct cpu_backend *)backend;
}

static const struct cpu_backend *own_const(const struct backend *backend)
{
    return (const struct cpu_backend *)backend;
}

static uint64_t machine_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
}

static enum result memory_of(struct backend *backend, const struct backend_options *options,
                             struct backend_memory *memory, struct error_text *error)
{
    (void)backend;
    (void)options;
    (void)error;
    *memory = (struct backend_memory){.bytes = machine_bytes(), .name = "the CPU"};
    memory->free_bytes = memory->bytes;
    return RESULT_OK;
}

/* A share of all memory, not of free memory, so that every worker process gets the same size. */
static enum result choose_kv_bytes(struct backend *backend, const struct plan *plan,
                                   const struct backend_options *options, uint64_t *kv_bytes,
                                   struct error_text *error)
{
    (void)backend;
    (void)plan;
    (void)error;
    uint32_t workers = options->device_workers > 0 ? options->device_workers : 1;
    uint64_t ram_bytes = machine_bytes();
    uint64_t share_bytes = ram_bytes / KV_DEFAULT_RAM_SHARE / workers;
    *kv_bytes = share_bytes < KV_DEFAULT_BYTES_MAX ? share_bytes : KV_DEFAULT_BYTES_MAX;
    if (options->kv_share_percent > 0)
        *kv_bytes = ram_bytes / 100 * options->kv_share_percent / workers;
    return RESULT_OK;
}

static void reserve_finished(struct cpu_backend *cpu, const struct plan *plan,
                             const struct backend_options *options)
{
    for (uint32_t i = 0; i < STEP_DEPTH_MAX; i++) {
        struct finished_step *step = &cpu->finished[i];
        step->results = must_alloc(options->max_logit_rows, sizeof *step->results);
        for (uint32_t t = 0; t < plan->passed_count; t++)
            step->passed[t] =
                must_alloc((size_t)options->max_step_rows * plan->tensors[plan->passed[t]].columns,
                           sizeof(float));
    }
}

static void share_kv(struct cpu_program *program, const struct cpu_program *lender)
{
    must(program->plan->kv.group_count == lender->plan->kv.group_count);
    for (uint32_t g = 0; g < program->plan->kv.group_count; g++) {
        must(program->kv[g].block_bytes == lender->kv[g].block_bytes &&
             program->kv[g].blocks == lender->kv[g].blocks);
        program->kv[g].memory = lender->kv[g].memory;
    }
}

static enum result load(struct backend *backend, const struct plan *plan,
                        const struct backend_options *options, backend_progress_fn *progress,
                        void *context, struct error_text *error)
{
    struct cpu_backend *cpu = own(backend);
    must(!cpu->pool);
    must(options->max_step_rows > 0 && options->max_step_rows <= LIMIT_STEP_ROWS);
    must(options->max_logit_rows > 0 && options->max_logit_rows <= LIMIT_STEP_ROWS);
    const struct cpu_kernels *kernels = cpu_kernels_choose(options->cpu_tier);
    if (!kernels)
        return error_set(error, RESULT_UNSUPPORTED,
                         "this CPU lacks the instructions of --cpu-tier %s",
                         cpu_tier_name(options->cpu_tier));
    const struct cpu_weights *lender =
        options->lender ? &own_const(options->lender)->program.weights : NULL;
    enum result result = thread_pool_create(options->threads, &cpu->pool, error);
    if (result == RESULT_OK)
        result = cpu_program_init(&cpu->program, plan, options, kernels, lender, error);
    if (result == RESULT_OK)
        result = cpu_walk_init(&cpu->step, &cpu->program, cpu->pool, error);
    if (result == RESULT_OK && options->vision)
        result = cpu_image_encoder_init(&cpu->vision, options, kernels, cpu->pool, progress,
                                        context, error);
    if (result == RESULT_OK && options->vision && options->vision->sound)
        result = cpu_image_encoder_init_sound(&cpu->sound, &cpu->vision, options, kernels,
                                              cpu->pool, progress, context, error);
    if (result == RESULT_OK && options->vision && cpu->program.pools_origin != KEPT_POOLS_PRIVATE)
        cpu_feature_pool_place(&cpu->vision.features, &cpu->program.feature_memory);
    if (result == RESULT_OK)
        result =
            cpu_weights_load(&cpu->program.weights, cpu->pool, options, progress, context, error);
    if (result != RESULT_OK)
        return result;
    uint32_t threads = thread_pool_threads(cpu->pool);
    snprintf(cpu->description, sizeof cpu->description, "cpu %s, %u thread%s", kernels->name,
             threads, threads == 1 ? "" : "s");
    cpu->step.heartbeat = options->heartbeat;
    cpu_adapters_init(&cpu->adapters, plan, options->max_step_rows, threads);
    cpu->step.adapters = &cpu->adapters;
    cpu->step.features = options->vision ? &cpu->vision.features : NULL;
    if (options->shares_kv)
        share_kv(&cpu->program, &own_const(options->lender)->program);
    if (options->sights && options->lender)
        cpu->step.features = &own_const(options->lender)->vision.features;
    cpu->depth = options->step_depth > 0 ? options->step_depth : 1;
    must(cpu->depth <= STEP_DEPTH_MAX);
    reserve_finished(cpu, plan, options);
    cpu->loaded = true;
    return RESULT_OK;
}

static uint32_t step_depth(const struct backend *backend)
{
    return own_const(backend)->depth;
}

/* The sampler reads counts and history in place. */
static bool draws_ahead(const struct backend *backend, const struct row_sampling *sampling)
{
    (void)backend;
    return !sampling->counts && !row_sampling_needs_history(sampling);
}

static void keep_passed(const struct cpu_backend *cpu, uint32_t rows, struct finished_step *step)
{
    const struct plan *plan = cpu->program.plan;
    for (uint32_t t = 0; t < plan->passed_count; t++) {
        const struct cpu_tensor *tensor = &cpu->program.tensors[plan->passed[t]];
        memcpy(step->passed[t], tensor->values, (size_t)rows * tensor->columns * sizeof(float));
    }
}

static enum result step_launch(struct backend *backend, const struct step_batch *batch,
                               struct error_text *error)
{
    (void)error; /* a CPU step cannot fail */
    struct cpu_backend *cpu = own(backend);
    must(cpu->loaded && cpu->launched < cpu->depth);
    const struct finished_step *before = &cpu->finished[cpu->newest];
    cpu->newest = (cpu->newest + 1) % STEP_DEPTH_MAX;
    struct finished_step *step = &cpu->finished[cpu->newest];
    cpu_walk_run(&cpu->step, batch, before->results, before->count, step->results);
    step->count = cpu->program.plan->logits != PLAN_NONE ? batch->logit_row_count : 0;
    if (cpu->program.plan->pools)
        memset(step->results, 0, step->count * sizeof *step->results);
    keep_passed(cpu, batch->row_count, step);
    cpu->launched++;
    return RESULT_OK;
}

static enum result step_wait(struct backend *backend, struct sampled_token *results,
                             struct error_text *error)
{
    (void)error;
    struct cpu_backend *cpu = own(backend);
    must(cpu->launched > 0);
    cpu->launched--;
    uint32_t oldest = (cpu->newest + STEP_DEPTH_MAX - cpu->launched) % STEP_DEPTH_MAX;
    uint32_t count = cpu->finished[oldest].count;
    cpu->read = oldest;
    if (count > 0) /* `results` may be NULL otherwise */
        memcpy(results, cpu->finished[oldest].results, count * sizeof *results);
    return RESULT_OK;
}

static enum result encode_begin(struct backend *backend, const struct encode_batch *batch,
                                struct error_text *error)
{
    (void)error;
    struct cpu_backend *cpu = own(backend);
    bool apart = batch->images[0].shape.sound && cpu->sound.program.plan;
    cpu->encoding = apart ? &cpu->sound : &cpu->vision;
    cpu_image_encoder_begin(cpu->encoding, batch);
    return RESULT_OK;
}

static enum result encode_part(struct backend *backend, uint64_t work, uint64_t *left,
                               struct error_text *error)
{
    (void)error;
    *left = cpu_image_encoder_run(own(backend)->encoding, work);
    return RESULT_OK;
}

static enum result adapter_load(struct backend *backend, uint32_t slot,
                                const struct lora_adapter *adapter, struct error_text *error)
{
    struct cpu_backend *cpu = own(backend);
    must(cpu->loaded);
    return cpu_adapters_load(&cpu->adapters, slot, adapter, error);
}

static void adapter_drop(struct backend *backend, uint32_t slot)
{
    cpu_adapters_drop(&own(backend)->adapters, slot);
}

static const float *last_logits(const struct backend *backend)
{
    const struct cpu_backend *cpu = own_const(backend);
    must(cpu->loaded);
    return cpu->program.tensors[cpu->program.plan->logits].values;
}

static const float *last_hidden(const struct backend *backend)
{
    const struct cpu_backend *cpu = own_const(backend);
    must(cpu->loaded && cpu->program.plan->keeps_hidden);
    return cpu->program.tensors[cpu->program.plan->hidden_out].values;
}

static const float *last_passed(const struct backend *backend, uint32_t index)
{
    const struct cpu_backend *cpu = own_const(backend);
    must(cpu->loaded && index < cpu->program.plan->passed_count);
    return cpu->finished[cpu->read].passed[index];
}

static const char *description(const struct backend *backend)
{
    return own_const(backend)->description;
}

static uint64_t weights_bytes(const struct backend *backend)
{
    return own_const(backend)->program.weights.packed_bytes;
}

static enum worker_weights weights_origin(const struct backend *backend, const char **reason)
{
    const struct cpu_weights *weights = &own_const(backend)->program.weights;
    *reason = weights->reason.text;
    return weights->origin;
}

static enum kept_pools_origin pools_origin(const struct backend *backend, const char **reason)
{
    *reason = own_const(backend)->program.pools_reason.text;
    return own_const(backend)->program.pools_origin;
}

static void destroy(struct backend *backend)
{
    struct cpu_backend *cpu = own(backend);
    cpu_image_encoder_fini(&cpu->sound);
    cpu_image_encoder_fini(&cpu->vision);
    cpu_walk_fini(&cpu->step);
    cpu_adapters_fini(&cpu->adapters);
    cpu_program_fini(&cpu->program);
    if (cpu->pool)
        log_debug("compute threads spun for %.3f s", thread_pool_spun_s(cpu->pool));
    thread_pool_destroy(cpu->pool);
    for (uint32_t i = 0; i < STEP_DEPTH_MAX; i++) {
        free(cpu->finished[i].results);
        for (uint32_t t = 0; t < PLAN_PASSED_MAX; t++)
            free(cpu->finished[i].passed[t]);
    }
    free(cpu);
}

uint32_t cpu_backend_usable_cpus(void)
{
    return thread_pool_usable_cpus();
}

struct backend *cpu_backend_create(void)
{
    static const struct backend_interface interface = {
        .memory = memory_of,
        .choose_kv_bytes = choose_kv_bytes,
        .load = load,
        .step_depth = step_depth,
        .draws_ahead = draws_ahead,
        .step_launch = step_launch,
        .step_wait = step_wait,
        .encode_begin = encode_begin,
        .encode_part = encode_part,
        .adapter_load = adapter_load,
        .adapter_drop = adapter_drop,
        .last_logits = last_logits,
        .last_hidden = last_hidden,
        .last_passed = last_passed,
        .description = description,
        .weights_bytes = weights_bytes,
        .weights_origin = weights_origin,
        .pools_origin = pools_origin,
        .destroy = destroy,
    };
    struct cpu_backend *cpu = must_alloc(1, sizeof *cpu);
    cpu->base.interface = &interface;
    return &cpu->base;
}
