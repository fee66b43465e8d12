/*
 * The Vulkan backend: a device, the plan's program on it, and its steps.
 *
 * Loading: open the device, lay out memory, adopt the weights of an earlier worker or pack and
 * upload them, then make every kernel that a step may need. The pipeline cache is written if it
 * lacked some of the kernels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/log.h"
#include "proto/must.h"
#include "worker/backend/host/backend.h"
#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/device/vulkan_register_probe.h"
#include "worker/backend/vulkan/device/vulkan_work_marks.h"
#include "worker/backend/vulkan/policy/vulkan_kv_policy.h"
#include "worker/backend/vulkan/program/vulkan_kept_blocks.h"
#include "worker/backend/vulkan/program/vulkan_linear_way.h"
#include "worker/backend/vulkan/program/vulkan_program_memory.h"
#include "worker/backend/vulkan/step/vulkan_image_encoder.h"
#include "worker/backend/vulkan/step/vulkan_step.h"
#include "worker/backend/vulkan/weights/vulkan_vault.h"
#include "worker/backend/vulkan/weights/vulkan_weight_loader.h"

#define PATH_BYTES 4096u
#define MEGABYTE   1000000.0

#define FORMS_BYTES 8u /* of an element as f32, f16 and 8 bits with its terms: 7.25 */

/* The stages of loading, in order. */
enum load_stage {
    STAGE_DEVICE,    /* instance and device */
    STAGE_PIPELINES, /* reading the cache of compiled kernels */
    STAGE_MEMORY,    /* KV cache and tensors */
    STAGE_WEIGHTS,
    STAGE_KERNELS, /* step data, and every kernel that a step may need */
    STAGE_COUNT
};

struct vulkan_backend {
    struct backend base;
    const struct vulkan_backend
        *lender; /* has the device and the kernels; NULL: they are its own */
    struct vulkan_device *device;
    struct vulkan_kernels *kernels;
    struct vulkan_program program;
    struct vulkan_steps *steps;
    struct vulkan_image_encoder *vision;    /* NULL where there is none */
    struct vulkan_image_encoder *sound;     /* the tower of sounds beside it; likewise */
    struct vulkan_image_encoder *encoding;  /* the one of the current batch */
    struct vulkan_kept_blocks *kept_blocks; /* NULL before the first copy */
    struct vulkan_weight_origin origin;
    uint32_t depth;
    double stage_ms[STAGE_COUNT];
    char description[1024];
};

static struct vulkan_backend *own(struct backend *backend)
{
    return (struct vulkan_backend *)backend;
}

static const struct vulkan_backend *own_const(const struct backend *backend)
{
    return (const struct vulkan_backend *)backend;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Ends the stage; returns the start time of the next one. */
static double stage_end(struct vulkan_backend *vulkan, enum load_stage stage, double begun_ms)
{
    double end_ms = now_ms();
    vulkan->stage_ms[stage] = end_ms - begun_ms;
    return end_ms;
}

static void stages_log(const struct vulkan_backend *vulkan)
{
    const double *ms = vulkan->stage_ms;
    log_info("loaded in ms: device %.1f, pipeline cache %.1f, KV cache and tensors %.1f, weights "
             "%.1f, kernels %.1f",
             ms[STAGE_DEVICE], ms[STAGE_PIPELINES], ms[STAGE_MEMORY], ms[STAGE_WEIGHTS],
             ms[STAGE_KERNELS]);
}

/* Without marks a standby waits until this process can be reaped. */
static void open_marks(struct vulkan_backend *vulkan, struct device_work *work)
{
    struct error_text why;
    if (vulkan_work_marks_create(vulkan->device, work, &vulkan->device->marks, &why) != RESULT_OK)
        log_info("work of the device is not marked: %s", why.text);
}

static enum result open_device(struct vulkan_backend *vulkan, const struct backend_options *options,
                               struct error_text *error)
{
    if (vulkan->device)
        return RESULT_OK;
    if (options->lender) {
        vulkan->lender = own_const(options->lender);
        vulkan->device = vulkan->lender->device;
        return RESULT_OK;
    }
    const struct vulkan_device_options wanted = {.index = options->vulkan.device,
                                                 .validation = options->vulkan.validation,
                                                 .tier_limit = options->vulkan.tier_limit};
    double begun_ms = now_ms();
    enum result result = vulkan_device_open(&wanted, &vulkan->device, error);
    if (result == RESULT_OK && options->vulkan.work)
        open_marks(vulkan, options->vulkan.work);
    (void)stage_end(vulkan, STAGE_DEVICE, begun_ms);
    return result;
}

/* One file per device and driver version. */
static const char *cache_path(const struct vulkan_backend *vulkan, const char *folder,
                              char path[PATH_BYTES])
{
    if (!folder)
        return NULL;
    int length = snprintf(path, PATH_BYTES, "%s/pipelines-", folder);
    for (uint32_t i = 0; i < VK_UUID_SIZE && length > 0 && (uint32_t)length < PATH_BYTES; i++)
        length += snprintf(path + length, PATH_BYTES - (uint32_t)length, "%02x",
                           vulkan->device->facts.pipeline_cache_id[i]);
    return length > 0 && (uint32_t)length < PATH_BYTES ? path : NULL;
}

static enum result memory_of(struct backend *backend, const struct backend_options *options,
                             struct backend_memory *memory, struct error_text *error)
{
    struct vulkan_backend *vulkan = own(backend);
    enum result result = open_device(vulkan, options, error);
    if (result != RESULT_OK)
        return result;
    memory->bytes = vulkan->device->facts.memory_bytes;
    memory->free_bytes = vulkan_device_free_bytes(vulkan->device);
    snprintf(memory->name, sizeof memory->name, "%.60s", vulkan->device->facts.name);
    return RESULT_OK;
}

static uint64_t weight_bytes(const struct plan *plan)
{
    uint64_t bytes = 0;
    for (uint32_t w = 0; w < plan->weight_count; w++)
        bytes += plan->weights[w].data_bytes;
    return bytes;
}

static bool has_weight(const struct plan *plan, const struct plan_weight *weight)
{
    for (uint32_t w = 0; plan && w < plan->weight_count; w++)
        if (plan->weights[w].data == weight->data)
            return true;
    return false;
}

/* Of the plans that are loaded beside, the weights that this one has not. */
static uint64_t beside_weight_bytes(const struct plan *plan, const struct backend_options *options)
{
    const struct plan *beside = options->beside, *context = options->beside_context;
    uint64_t bytes = 0;
    for (uint32_t w = 0; beside && w < beside->weight_count; w++)
        bytes += has_weight(plan, &beside->weights[w]) ? 0 : beside->weights[w].data_bytes;
    for (uint32_t w = 0; context && w < context->weight_count; w++)
        bytes += has_weight(plan, &context->weights[w]) || has_weight(beside, &context->weights[w])
                     ? 0
                     : context->weights[w].data_bytes;
    return bytes;
}

static uint64_t tensor_bytes(const struct plan *plan, uint32_t step_rows, uint32_t logit_rows)
{
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        uint64_t rows = plan->tensors[t].rows == PLAN_ROWS_STEP ? step_rows : logit_rows;
        bytes += rows * plan->tensors[t].columns * FORMS_BYTES;
    }
    return bytes;
}

/* Tensors in all their forms, and one matrix unpacked. */
static uint64_t step_bytes(const struct plan *plan, const struct backend_options *options)
{
    uint64_t largest = 0;
    uint64_t tensors = tensor_bytes(plan, options->max_step_rows, options->max_logit_rows);
    if (options->beside)
        tensors += tensor_bytes(options->beside, options->beside_rows, options->max_logit_rows);
    if (options->beside_context)
        tensors +=
            tensor_bytes(options->beside_context, options->beside_rows, options->max_logit_rows);
    if (options->adapters)
        tensors += options->adapter_bytes + vulkan_adapters_bytes(plan, options->max_step_rows);
    for (uint32_t w = 0; w < plan->weight_count; w++) {
        uint64_t unpacked = (uint64_t)plan->weights[w].rows * plan->weights[w].columns * 2;
        if (unpacked > largest && unpacked <= VULKAN_LINEAR_UNPACKED_MAX)
            largest = unpacked;
    }
    return tensors + largest + vulkan_image_encoder_bytes(options) +
           options->deferred_places * state_layout_row_bytes(&plan->state);
}

/* Pools of an earlier worker that this one cannot adopt take memory that is free. */
static void discard_kept_pools(const struct kept_pools *kept)
{
    const struct vulkan_vault vault = {.fd = kept->vault_fd, .send_fd = kept->send_fd};
    struct error_text why;
    if (kept->is_given && vault.send_fd >= 0 && vulkan_vault_empty(&vault, &why) != RESULT_OK)
        log_warn("KV cache of an earlier worker: %s", why.text);
}

static enum result choose_kv_bytes(struct backend *backend, const struct plan *plan,
                                   const struct backend_options *options, uint64_t *kv_bytes,
                                   struct error_text *error)
{
    struct vulkan_backend *vulkan = own(backend);
    enum result result = open_device(vulkan, options, error);
    if (result != RESULT_OK)
        return result;
    const struct vulkan_facts *facts = &vulkan->device->facts;
    discard_kept_pools(&options->kept);
    const struct vulkan_vault vault = {options->vault_fd, options->vault_send_fd};
    struct vulkan_kv_question question = {
        .own_memory = facts->type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
        .memory_bytes = facts->memory_bytes,
        .free_bytes = vulkan_device_free_bytes(vulkan->device),
        .weights_bytes =
            weight_bytes(plan) + (options->vision ? weight_bytes(options->vision) : 0) +
            (options->vision && options->vision->sound ? weight_bytes(options->vision->sound) : 0) +
            beside_weight_bytes(plan, options),
        .step_bytes = step_bytes(plan, options),
        .weights_there = options->has_vault && vulkan_vault_is_filled(&vault),
        .share_percent = options->kv_share_percent,
        .workers = options->device_workers > 0 ? options->device_workers : 1};
    *kv_bytes = vulkan_kv_policy_bytes(&question);
    if (question.share_percent > 0 && *kv_bytes > vulkan_kv_policy_most(&question))
        return error_set(error, RESULT_TOO_LARGE,
                         "%u %% of the %.1f MB of %s are %.1f MB for each of %u workers' KV cache; "
                         "weights of %.1f MB and a step leave %.1f MB",
                         question.share_percent, (double)question.memory_bytes / MEGABYTE,
                         facts->name, (double)*kv_bytes / MEGABYTE, question.workers,
                         (double)question.weights_bytes / MEGABYTE,
                         (double)vulkan_kv_policy_most(&question) / MEGABYTE);
    log_info(
        "memory: %s has %.1f MB, %.1f MB free%s; weights %.1f MB, %u workers share it: at most "
        "%.1f MB for this one's KV cache",
        facts->name, (double)question.memory_bytes / MEGABYTE,
        (double)question.free_bytes / MEGABYTE, question.weights_there ? " beside the weights" : "",
        (double)question.weights_bytes / MEGABYTE, question.workers, (double)*kv_bytes / MEGABYTE);
    return RESULT_OK;
}

static enum result load_weights(struct vulkan_backend *vulkan,
                                const struct backend_options *options,
                                backend_progress_fn *progress, void *context,
                                struct error_text *error)
{
    struct vulkan_weights *weights = &vulkan->program.weights;
    enum result result =
        vulkan_weight_loader_run(weights, options, progress, context, &vulkan->origin, error);
    return result == RESULT_OK ? vulkan_weights_upload_vectors(weights, error) : result;
}

static void describe(struct vulkan_backend *vulkan)
{
    const struct vulkan_facts *facts = &vulkan->device->facts;
    /* The gauge truncates it, so the driver comes last. */
    snprintf(vulkan->description, sizeof vulkan->description, "vulkan %.200s, %s%s, %.200s",
             facts->name, vulkan_tier_name(facts->tier),
             facts->batch_invariant ? ", batch-invariant" : "", facts->driver);
}

static enum result open_kernels(struct vulkan_backend *vulkan,
                                const struct backend_options *options, struct error_text *error)
{
    char path[PATH_BYTES];
    if (vulkan->lender) {
        vulkan->kernels = vulkan->lender->kernels;
        return RESULT_OK;
    }
    enum result result = vulkan_kernels_create(
        vulkan->device, cache_path(vulkan, options->vulkan.pipeline_cache, path), &vulkan->kernels,
        error);
    if (result != RESULT_OK)
        return result;
    vulkan->device->facts.matrix_registers = vulkan_register_probe(vulkan->device, vulkan->kernels);
    vulkan->device->facts.batch_invariant = options->vulkan.batch_invariant;
    return RESULT_OK;
}

static void borrow(struct vulkan_backend *vulkan, const struct backend_options *options)
{
    const struct vulkan_program *lender = &vulkan->lender->program;
    vulkan_weights_borrow(&vulkan->program.weights, &lender->weights);
    if (options->shares_kv)
        vulkan_program_share_kv(&vulkan->program, lender);
    if (!options->sights)
        return;
    vulkan->program.feature_columns = lender->feature_columns;
    vulkan->program.features_address = lender->features_address;
}

/* Those of images, and of sounds beside them. */
static enum result create_encoders(struct vulkan_backend *vulkan,
                                   const struct backend_options *options,
                                   backend_progress_fn *progress, void *context,
                                   struct error_text *error)
{
    struct backend_options sound = *options;
    sound.vision = options->vision->sound;
    enum result result = vulkan_image_encoder_create(&vulkan->program, options, progress, context,
                                                     &vulkan->vision, error);
    if (result == RESULT_OK && sound.vision)
        result = vulkan_image_encoder_create(&vulkan->program, &sound, progress, context,
                                             &vulkan->sound, error);
    return result;
}

/* Marks of the device's work for the process that takes over from this one; and, in a standby, what it needs
 * for its first steps while the driver takes down the process before. */
static enum result prepare_takeover(struct vulkan_backend *vulkan,
                                    const struct backend_options *options, struct error_text *error)
{
    struct vulkan_device *device = vulkan->device;
    enum result result = vulkan_work_marks_begin(device->marks, vulkan->kernels, error);
    if (result == RESULT_OK && options->kept.in_use)
        result =
            vulkan_spare_commands_create(device, VULKAN_SPARE_COMMANDS_MAX, &device->spare, error);
    return result;
}

static enum result load(struct backend *backend, const struct plan *plan,
                        const struct backend_options *options, backend_progress_fn *progress,
                        void *context, struct error_text *error)
{
    struct vulkan_backend *vulkan = own(backend);
    vulkan->depth = options->step_depth == 1 ? 1 : STEP_DEPTH_MAX;
    const struct vulkan_steps_options step_options = {.depth = vulkan->depth,
                                                      .heartbeat = options->heartbeat,
                                                      .profile = options->profile,
                                                      .keeps_logits = options->keeps_logits,
                                                      .kernels_when_needed =
                                                          options->vulkan.kernels_when_needed};
    enum result result = open_device(vulkan, options, error);
    double begun_ms = now_ms();
    if (result == RESULT_OK)
        result = open_kernels(vulkan, options, error);
    if (result == RESULT_OK && vulkan->device->marks && !vulkan->lender)
        result = prepare_takeover(vulkan, options, error);
    begun_ms = stage_end(vulkan, STAGE_PIPELINES, begun_ms);
    if (result == RESULT_OK)
        result = vulkan_program_init(&vulkan->program, vulkan->device, vulkan->kernels, plan,
                                     options, error);
    begun_ms = stage_end(vulkan, STAGE_MEMORY, begun_ms);
    if (result == RESULT_OK && vulkan->lender)
        borrow(vulkan, options);
    if (result == RESULT_OK)
        result = load_weights(vulkan, options, progress, context, error);
    if (result == RESULT_OK && options->vision)
        result = create_encoders(vulkan, options, progress, context, error);
    begun_ms = stage_end(vulkan, STAGE_WEIGHTS, begun_ms);
    if (result == RESULT_OK)
        result = vulkan_steps_create(&vulkan->program, &step_options, &vulkan->steps, error);
    if (result == RESULT_OK && !options->vulkan.kernels_when_needed)
        result = vulkan_steps_warm(
            vulkan->steps,
            (const struct vulkan_image_encoder *const[]){vulkan->vision, vulkan->sound},
            options->threads, progress, context, error);
    if (result != RESULT_OK)
        return result;
    (void)stage_end(vulkan, STAGE_KERNELS, begun_ms);
    vulkan_kernels_save(vulkan->kernels);
    describe(vulkan);
    stages_log(vulkan);
    return RESULT_OK;
}

static uint32_t step_depth(const struct backend *backend)
{
    return own_const(backend)->depth;
}

static bool draws_ahead(const struct backend *backend, const struct row_sampling *sampling)
{
    return vulkan_steps_draw_ahead(own_const(backend)->steps, sampling);
}

static enum result step_launch(struct backend *backend, const struct step_batch *batch,
                               struct error_text *error)
{
    return vulkan_steps_launch(own(backend)->steps, batch, error);
}

static enum result step_draw(struct backend *backend, const struct row_sampling *samplings,
                             struct error_text *error)
{
    return vulkan_steps_draw(own(backend)->steps, samplings, error);
}

static enum result step_wait(struct backend *backend, struct sampled_token *results,
                             struct error_text *error)
{
    return vulkan_steps_wait(own(backend)->steps, results, error);
}

static enum result encode_begin(struct backend *backend, const struct encode_batch *batch,
                                struct error_text *error)
{
    struct vulkan_backend *vulkan = own(backend);
    bool apart = batch->images[0].shape.sound && vulkan->sound;
    vulkan->encoding = apart ? vulkan->sound : vulkan->vision;
    return vulkan_image_encoder_begin(vulkan->encoding, batch, error);
}

static enum result encode_part(struct backend *backend, uint64_t work, uint64_t *left,
                               struct error_text *error)
{
    return vulkan_image_encoder_run(own(backend)->encoding, work, left, error);
}

static enum result adapter_load(struct backend *backend, uint32_t slot,
                                const struct lora_adapter *adapter, struct error_text *error)
{
    struct vulkan_backend *vulkan = own(backend);
    must(vulkan->program.adapters);
    vulkan_steps_forget(vulkan->steps);
    return vulkan_adapters_load(vulkan->program.adapters, slot, adapter, error);
}

static void adapter_drop(struct backend *backend, uint32_t slot)
{
    struct vulkan_backend *vulkan = own(backend);
    must(vulkan->program.adapters);
    vulkan_steps_forget(vulkan->steps);
    vulkan_adapters_drop(vulkan->program.adapters, slot);
}

static const float *last_logits(const struct backend *backend)
{
    return vulkan_steps_last_logits(own_const(backend)->steps);
}

static const float *last_hidden(const struct backend *backend)
{
    return vulkan_steps_last_hidden(own_const(backend)->steps);
}

static const float *last_passed(const struct backend *backend, uint32_t index)
{
    return vulkan_steps_last_passed(own_const(backend)->steps, index);
}

static const char *description(const struct backend *backend)
{
    return own_const(backend)->description;
}

static uint64_t weights_bytes(const struct backend *backend)
{
    return own_const(backend)->program.weights.matrix_bytes;
}

static enum worker_weights weights_origin(const struct backend *backend, const char **reason)
{
    const struct vulkan_backend *vulkan = own_const(backend);
    *reason = vulkan->origin.reason.text;
    return vulkan->origin.kind;
}

static bool is_gpu(const struct backend *backend)
{
    return own_const(backend)->device->facts.type != VK_PHYSICAL_DEVICE_TYPE_CPU;
}

static enum kept_pools_origin pools_origin(const struct backend *backend, const char **reason)
{
    *reason = own_const(backend)->program.pools_reason.text;
    return own_const(backend)->program.pools_origin;
}

static struct kept_pools_blocks kept_blocks(const struct backend *backend)
{
    return vulkan_kept_blocks_describe(&own_const(backend)->program);
}

static enum result kept_block_copy(struct backend *backend, const struct kept_pools_copy *copy,
                                   struct error_text *error)
{
    struct vulkan_backend *vulkan = own(backend);
    enum result result = RESULT_OK;
    if (!vulkan->kept_blocks)
        result = vulkan_kept_blocks_create(&vulkan->program, &vulkan->kept_blocks, error);
    return result == RESULT_OK ? vulkan_kept_blocks_copy(vulkan->kept_blocks, copy, error) : result;
}

static void destroy(struct backend *backend)
{
    struct vulkan_backend *vulkan = own(backend);
    vulkan_kept_blocks_destroy(vulkan->kept_blocks);
    vulkan_steps_destroy(vulkan->steps);
    vulkan_image_encoder_destroy(vulkan->sound);
    vulkan_image_encoder_destroy(vulkan->vision);
    vulkan_program_fini(&vulkan->program);
    if (!vulkan->lender && vulkan->device) {
        vulkan_kernels_destroy(vulkan->kernels);
        vulkan_spare_commands_destroy(vulkan->device->spare);
        vulkan_work_marks_destroy(vulkan->device, vulkan->device->marks);
        vulkan_device_close(vulkan->device);
    }
    free(vulkan);
}

const struct vulkan_program *vulkan_backend_program(const struct backend *backend)
{
    return &own_const(backend)->program;
}

struct backend *vulkan_backend_create(void)
{
    static const struct backend_interface interface = {
        .memory = memory_of,
        .choose_kv_bytes = choose_kv_bytes,
        .load = load,
        .step_depth = step_depth,
        .draws_ahead = draws_ahead,
        .step_launch = step_launch,
        .step_draw = step_draw,
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
        .is_gpu = is_gpu,
        .weights_origin = weights_origin,
        .pools_origin = pools_origin,
        .kept_blocks = kept_blocks,
        .kept_block_copy = kept_block_copy,
        .destroy = destroy,
    };
    struct vulkan_backend *vulkan = must_alloc(1, sizeof *vulkan);
    vulkan->base.interface = &interface;
    return &vulkan->base;
}
