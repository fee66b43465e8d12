/*
 * One model on several devices: backends that each compute a run of its layers.
 *
 * The plan is cut when memory is decided, by the devices' memory, or as options->stages says. The cut
 * does not depend on free memory, so it is the same after a restart. Each part is loaded by a backend
 * of its own, with the KV blocks and slots of recurrent state of its layers; block ids and slots are
 * the same on all devices. Images are encoded by the first device, tokens drawn by the last.
 *
 * Steps: split_stage.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/log.h"
#include "proto/must.h"
#include "worker/backend/host/backend.h"
#include "worker/backend/split/split_policy.h"
#include "worker/backend/split/split_stage.h"

#define MEGABYTE 1000000.0

struct split_backend {
    struct backend base; /* first, so that both have one address */
    const struct plan *plan;
    struct split_pipeline pipeline;
    uint32_t depth;
    char description[1024];
};

static struct split_backend *own(struct backend *backend)
{
    return (struct split_backend *)backend;
}

static const struct split_backend *own_const(const struct backend *backend)
{
    return (const struct split_backend *)backend;
}

static const struct split_stage *last_of(const struct backend *backend)
{
    const struct split_pipeline *pipeline = &own_const(backend)->pipeline;
    return &pipeline->stages[pipeline->stage_count - 1];
}

static const char *device_text(const struct split_stage *stage, char text[DEVICE_NAME_BYTES])
{
    device_name_write(stage->options.device, text);
    return text;
}

/* --- cutting ---------------------------------------------------------------------------------- */

/* Stages on the same device as this one, itself included. */
static uint32_t count_same_device(const struct split_pipeline *pipeline, uint32_t index)
{
    uint32_t same = 0;
    for (uint32_t i = 0; i < pipeline->stage_count; i++)
        same += device_name_equal(pipeline->stages[i].options.device,
                                  pipeline->stages[index].options.device);
    return same;
}

/* The options of one stage's backend. */
static struct backend_options stage_options(const struct split_pipeline *pipeline, uint32_t index,
                                            const struct backend_options *options)
{
    const struct split_stage *stage = &pipeline->stages[index];
    struct backend_options own = *options;
    uint32_t same = count_same_device(pipeline, index);
    bool is_last = index + 1 == pipeline->stage_count;
    own.stage_count = 0;
    own.vulkan.device = stage->options.device.index;
    own.device_workers = same * (options->device_workers > 0 ? options->device_workers : 1);
    own.step_depth = 1;
    own.keeps_logits = options->keeps_logits && is_last;
    own.lender = NULL;
    own.has_vault = false;
    own.kept = (struct kept_pools){.is_given = false};
    if (stage->options.device.kind == DEVICE_CPU && options->threads != 1 && same > 1) {
        uint32_t threads = options->threads > 0 ? options->threads : cpu_backend_usable_cpus();
        own.threads = threads / same > 0 ? threads / same : 1;
    }
    if (index > 0 && options->vision) {
        own.sights = &options->vision->vision;
        own.vision = NULL;
        own.feature_rows = own.max_patch_rows = 0;
    }
    return own;
}

/* Ops and layers at the end of each piece: those of the cuts, and of the whole plan. */
static uint32_t list_ends(const struct plan *plan, struct plan_cut ends[LIMIT_LAYERS + 1])
{
    uint32_t count = plan_split_cuts(plan, ends);
    ends[count] = (struct plan_cut){plan->op_count, plan->config.layers};
    return count + 1;
}

static uint64_t kv_bytes(const struct plan *plan, const struct backend_options *options)
{
    uint64_t bytes = state_layout_slot_bytes(&plan->state) / 1024; /* of a sequence's tokens */
    for (uint32_t g = 0; g < plan->kv.group_count; g++)
        bytes += kv_layout_block_bytes(&plan->kv, g, kv_cache_type_bytes(options->kv_type));
    return bytes;
}

/* Bytes that the stages may take: less than all, as steps and drivers take some. */
static enum result read_memory(struct split_pipeline *pipeline,
                               const struct backend_options *options,
                               struct backend_memory memory[LIMIT_SPLIT_DEVICES],
                               uint64_t bytes[LIMIT_SPLIT_DEVICES], struct error_text *error)
{
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < pipeline->stage_count && result == RESULT_OK; i++) {
        struct split_stage *stage = &pipeline->stages[i];
        const struct backend_options own = stage_options(pipeline, i, options);
        result = stage->backend->interface->memory(stage->backend, &own, &memory[i], error);
        if (result == RESULT_OK)
            bytes[i] = memory[i].bytes / 100 * 95 / own.device_workers;
    }
    return result;
}

static enum result refuse(const struct backend_memory *memory, uint32_t devices,
                          uint64_t weight_bytes, struct error_text *error)
{
    char text[160] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < devices && length < sizeof text; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%.1f MB", i ? " + " : "",
                                   (double)memory[i].bytes / MEGABYTE);
    return error_set(
        error, RESULT_TOO_LARGE,
        "weights of %.1f MB do not fit the devices' memory of %s, however their layers "
        "are divided",
        (double)weight_bytes / MEGABYTE, text);
}

/* Chooses the last piece of each stage by the devices' memory. */
static enum result divide(struct split_pipeline *pipeline, const struct plan *plan,
                          const struct backend_options *options, const struct plan_cut *ends,
                          uint32_t piece_count, uint32_t chosen[LIMIT_SPLIT_DEVICES],
                          struct error_text *error)
{
    struct split_piece *pieces = must_alloc(piece_count, sizeof *pieces);
    struct backend_memory memory[LIMIT_SPLIT_DEVICES];
    uint64_t bytes[LIMIT_SPLIT_DEVICES];
    for (uint32_t p = 0, begin = 0; p < piece_count; begin = ends[p++].ops) {
        struct plan *part = plan_split_part(plan, begin, ends[p].ops);
        pieces[p].weight_bytes = plan_split_weight_bytes(plan, begin, ends[p].ops);
        pieces[p].kv_bytes = kv_bytes(part, options);
        plan_destroy(part);
    }
    enum result result = read_memory(pipeline, options, memory, bytes, error);
    if (result == RESULT_OK &&
        split_policy_divide(pieces, piece_count, bytes, pipeline->stage_count, chosen) > 0)
        result = refuse(memory, pipeline->stage_count,
                        plan_split_weight_bytes(plan, 0, plan->op_count), error);
    free(pieces);
    return result;
}

/* Takes the last piece of each stage from the options' numbers of layers. */
static enum result follow(const struct split_pipeline *pipeline, const struct plan_cut *ends,
                          uint32_t piece_count, uint32_t chosen[LIMIT_SPLIT_DEVICES],
                          struct error_text *error)
{
    uint32_t layers = 0;
    for (uint32_t i = 0; i < pipeline->stage_count; i++) {
        uint32_t piece = 0;
        layers += pipeline->stages[i].options.layers;
        while (piece < piece_count && ends[piece].layers != layers)
            piece++;
        if (piece == piece_count || pipeline->stages[i].options.layers == 0)
            return error_set(error, RESULT_INVALID, "the model cannot be cut after layer %u",
                             layers);
        chosen[i] = piece + 1;
    }
    return chosen[pipeline->stage_count - 1] == piece_count
               ? RESULT_OK
               : error_set(error, RESULT_INVALID, "the devices' layers are not the model's %u",
                           ends[piece_count - 1].layers);
}

/* Creates the stages with their plans. */
static enum result cut(struct split_backend *split, const struct plan *plan,
                       const struct backend_options *options, struct error_text *error)
{
    struct split_pipeline *pipeline = &split->pipeline;
    struct plan_cut ends[LIMIT_LAYERS + 1];
    uint32_t chosen[LIMIT_SPLIT_DEVICES], piece_count = list_ends(plan, ends);
    if (split->plan)
        return RESULT_OK;
    must(options->stage_count >= 2 && options->stage_count <= LIMIT_SPLIT_DEVICES);
    if (plan->config.encoder)
        return error_set(error, RESULT_UNSUPPORTED, "encoders are computed by one device");
    if (plan->config.crossed_layers > 0)
        return error_set(error, RESULT_UNSUPPORTED,
                         "a model whose rows attend to features is computed by one device");
    if (piece_count < options->stage_count)
        return error_set(error, RESULT_UNSUPPORTED,
                         "%u devices for a model that can be cut into %u parts",
                         options->stage_count, piece_count);
    pipeline->stage_count = options->stage_count;
    for (uint32_t i = 0; i < options->stage_count; i++) {
        struct split_stage *stage = &pipeline->stages[i];
        stage->options = options->stages[i];
        stage->backend = stage->options.device.kind == DEVICE_VULKAN ? vulkan_backend_create()
                                                                     : cpu_backend_create();
    }
    enum result result = options->stages[0].layers > 0
                             ? follow(pipeline, ends, piece_count, chosen, error)
                             : divide(pipeline, plan, options, ends, piece_count, chosen, error);
    if (result != RESULT_OK)
        return result;
    uint32_t begin = 0, layer = 0;
    for (uint32_t i = 0; i < options->stage_count; i++) {
        struct split_stage *stage = &pipeline->stages[i];
        const struct plan_cut *end = &ends[chosen[i] - 1];
        char name[DEVICE_NAME_BYTES];
        stage->plan = plan_split_part(plan, begin, end->ops);
        stage->share = (struct backend_share){.first_layer = layer, .layers = end->layers - layer};
        stage->options.layers = end->layers - layer;
        log_info("split: layers %u to %u on %s, weights %.1f MB", layer, end->layers - 1,
                 device_text(stage, name),
                 (double)plan_split_weight_bytes(plan, begin, end->ops) / MEGABYTE);
        begin = end->ops;
        layer = end->layers;
    }
    split->plan = plan;
    return RESULT_OK;
}

/* --- memory and loading ----------------------------------------------------------------------- */

/* The stage's largest share of the KV cache, of any group of layers and of recurrent state. */
static double largest_share(const struct plan *plan, const struct plan *part)
{
    double share = plan->state.layers > 0 ? (double)part->state.layers / plan->state.layers : 0;
    for (uint32_t g = 0; g < plan->kv.group_count; g++) {
        double own = (double)part->kv.groups[g].layers / plan->kv.groups[g].layers;
        share = plan->kv.groups[g].layers > 0 && own > share ? own : share;
    }
    return share;
}

static enum result choose_kv_bytes(struct backend *backend, const struct plan *plan,
                                   const struct backend_options *options, uint64_t *chosen,
                                   struct error_text *error)
{
    struct split_backend *split = own(backend);
    enum result result = cut(split, plan, options, error);
    double all_bytes = 0;
    for (uint32_t i = 0; i < split->pipeline.stage_count && result == RESULT_OK; i++) {
        struct split_stage *stage = &split->pipeline.stages[i];
        const struct backend_options own = stage_options(&split->pipeline, i, options);
        double share = largest_share(plan, stage->plan);
        uint64_t stage_bytes;
        result = stage->backend->interface->choose_kv_bytes(stage->backend, stage->plan, &own,
                                                            &stage_bytes, error);
        if (result != RESULT_OK || share == 0)
            continue;
        double bytes = (double)stage_bytes / share;
        all_bytes = all_bytes == 0 || bytes < all_bytes ? bytes : all_bytes;
    }
    *chosen = (uint64_t)all_bytes;
    return result;
}

static enum result memory_of(struct backend *backend, const struct backend_options *options,
                             struct backend_memory *memory, struct error_text *error)
{
    (void)backend;
    (void)options;
    (void)memory;
    return error_set(error, RESULT_UNSUPPORTED, "a split backend has several memories");
}

/* Progress of one stage as progress of all. */
struct stage_progress {
    backend_progress_fn *tell;
    void *context;
    uint64_t before_bytes;
    uint64_t all_bytes;
};

static void tell_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    const struct stage_progress *progress = context;
    uint64_t all = progress->before_bytes + total_bytes;
    if (progress->tell)
        progress->tell(progress->context, progress->before_bytes + done_bytes,
                       all > progress->all_bytes ? all : progress->all_bytes);
}

/* After the stage was loaded. */
static enum result note_share(struct split_stage *stage, const struct backend_options *options,
                              struct error_text *error)
{
    const struct plan *plan = stage->plan;
    struct backend_memory memory = {0};
    uint64_t bytes = options->state_slots * state_layout_slot_bytes(&plan->state);
    for (uint32_t g = 0; g < plan->kv.group_count; g++)
        bytes += options->kv_blocks[g] *
                 kv_layout_block_bytes(&plan->kv, g, kv_cache_type_bytes(options->kv_type));
    stage->share.kv_bytes = bytes;
    stage->share.weights_bytes = stage->backend->interface->weights_bytes(stage->backend);
    enum result result = stage->backend->interface->memory(stage->backend, options, &memory, error);
    stage->share.memory_bytes = memory.bytes;
    return result;
}

static void describe(struct split_backend *split)
{
    size_t length = 0, room = sizeof split->description;
    for (uint32_t i = 0; i < split->pipeline.stage_count && length < room; i++) {
        const struct split_stage *stage = &split->pipeline.stages[i];
        char name[DEVICE_NAME_BYTES];
        length += (size_t)snprintf(split->description + length, room - length,
                                   "%s%s layers %u to %u (%s)", i > 0 ? " + " : "",
                                   device_text(stage, name), stage->share.first_layer,
                                   stage->share.first_layer + stage->share.layers - 1,
                                   stage->backend->interface->description(stage->backend));
    }
}

static enum result load(struct backend *backend, const struct plan *plan,
                        const struct backend_options *options, backend_progress_fn *progress,
                        void *context, struct error_text *error)
{
    struct split_backend *split = own(backend);
    struct stage_progress inner = {.tell = progress, .context = context};
    enum result result = cut(split, plan, options, error);
    if (result != RESULT_OK)
        return result;
    inner.all_bytes = plan_split_weight_bytes(plan, 0, plan->op_count);
    split->depth = options->step_depth == 1 || plan->pools ? 1 : STEP_DEPTH_MAX;
    for (uint32_t i = 0; i < split->pipeline.stage_count && result == RESULT_OK; i++) {
        struct split_stage *stage = &split->pipeline.stages[i];
        const struct backend_options own = stage_options(&split->pipeline, i, options);
        struct error_text why = {""};
        char name[DEVICE_NAME_BYTES];
        result = stage->backend->interface->load(stage->backend, stage->plan, &own, tell_progress,
                                                 &inner, &why);
        if (result == RESULT_OK)
            result = note_share(stage, &own, &why);
        if (result != RESULT_OK)
            return error_set(error, result, "%s: %.230s", device_text(stage, name), why.text);
        inner.before_bytes += stage->backend->interface->weights_bytes(stage->backend);
    }
    describe(split);
    return split_pipeline_start(&split->pipeline, options, error);
}

/* --- steps ------------------------------------------------------------------------------------ */

static uint32_t step_depth(const struct backend *backend)
{
    return own_const(backend)->depth;
}

/* The last stage draws a step when the one before it has been read. */
static bool draws_ahead(const struct backend *backend, const struct row_sampling *sampling)
{
    struct backend *last = last_of(backend)->backend;
    return !sampling->counts && last->interface->draws_ahead(last, sampling);
}

static enum result step_launch(struct backend *backend, const struct step_batch *batch,
                               struct error_text *error)
{
    struct split_backend *split = own(backend);
    must(split->pipeline.launched - split->pipeline.waited < split->depth);
    return split_pipeline_launch(&split->pipeline, batch, split->plan, error);
}

static enum result step_wait(struct backend *backend, struct sampled_token *results,
                             struct error_text *error)
{
    return split_pipeline_wait(&own(backend)->pipeline, results, error);
}

static enum result encode_begin(struct backend *backend, const struct encode_batch *batch,
                                struct error_text *error)
{
    struct split_pipeline *pipeline = &own(backend)->pipeline;
    struct backend *first = pipeline->stages[0].backend;
    enum result result = split_pipeline_settle(pipeline, 0, error);
    return result == RESULT_OK ? first->interface->encode_begin(first, batch, error) : result;
}

static enum result encode_part(struct backend *backend, uint64_t work, uint64_t *left,
                               struct error_text *error)
{
    struct split_pipeline *pipeline = &own(backend)->pipeline;
    struct backend *first = pipeline->stages[0].backend;
    enum result result = split_pipeline_settle(pipeline, 0, error);
    return result == RESULT_OK ? first->interface->encode_part(first, work, left, error) : result;
}

static const float *last_logits(const struct backend *backend)
{
    const struct backend *last = last_of(backend)->backend;
    return last->interface->last_logits(last);
}

/* --- facts ------------------------------------------------------------------------------------ */

static const char *description(const struct backend *backend)
{
    return own_const(backend)->description;
}

static uint64_t weights_bytes(const struct backend *backend)
{
    const struct split_pipeline *pipeline = &own_const(backend)->pipeline;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pipeline->stage_count; i++) {
        const struct backend *stage = pipeline->stages[i].backend;
        bytes += stage->interface->weights_bytes(stage);
    }
    return bytes;
}

static struct backend_share share_of(const struct backend *backend, uint32_t index)
{
    const struct split_pipeline *pipeline = &own_const(backend)->pipeline;
    must(index < pipeline->stage_count);
    return pipeline->stages[index].share;
}

static bool is_gpu(const struct backend *backend)
{
    const struct split_pipeline *pipeline = &own_const(backend)->pipeline;
    for (uint32_t i = 0; i < pipeline->stage_count; i++) {
        const struct backend *stage = pipeline->stages[i].backend;
        if (stage->interface->is_gpu && stage->interface->is_gpu(stage))
            return true;
    }
    return false;
}

static enum worker_weights weights_origin(const struct backend *backend, const char **reason)
{
    (void)backend;
    *reason = "their layers are split over several devices";
    return WORKER_WEIGHTS_PRIVATE;
}

static enum kept_pools_origin pools_origin(const struct backend *backend, const char **reason)
{
    (void)backend;
    *reason = "its layers are split over several devices";
    return KEPT_POOLS_PRIVATE;
}

static void destroy(struct backend *backend)
{
    struct split_backend *split = own(backend);
    split_pipeline_stop(&split->pipeline);
    for (uint32_t i = 0; i < split->pipeline.stage_count; i++) {
        struct split_stage *stage = &split->pipeline.stages[i];
        stage->backend->interface->destroy(stage->backend);
        plan_destroy(stage->plan);
    }
    free(split);
}

struct backend *split_backend_create(void)
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
        .last_logits = last_logits,
        .description = description,
        .weights_bytes = weights_bytes,
        .share = share_of,
        .is_gpu = is_gpu,
        .weights_origin = weights_origin,
        .pools_origin = pools_origin,
        .destroy = destroy,
    };
    struct split_backend *split = must_alloc(1, sizeof *split);
    split->base.interface = &interface;
    return &split->base;
}
