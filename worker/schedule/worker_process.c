/*
 * Starts in stages, each of which can fail: attach to the segment, open the checkpoint, decide the
 * memory, load the backend, assemble the engine. The reason for a failure goes to the log and, once
 * there is a segment, into the gauges before the process exits, so that the frontend can report it.
 *
 * Memory is decided before it is taken: the number of KV blocks follows from checkpoint and options
 * and is logged. A requested context length that does not fit is an error with the numbers. The
 * kernel kills the process when its parent dies, so no worker outlives the frontend.
 */
#include "worker/schedule/worker_process.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/checkpoint_files.h"
#include "proto/must.h"
#include "proto/opened_files.h"
#include "proto/speculation.h"
#include "shm/peer_watch.h"
#include "worker/backend/host/thread_pool.h"
#include "worker/cache/kv_budget.h"
#include "worker/model/model.h"
#include "worker/model/target_drafter.h"
#include "worker/schedule/draft_loading.h"
#include "worker/schedule/end_marks.h"
#include "worker/schedule/frontend_link.h"
#include "worker/schedule/gauge_board.h"
#include "worker/schedule/kv_inheritance.h"
#include "worker/schedule/standby_wait.h"
#include "worker/schedule/step_loop.h"

#define MEGABYTE           1000000.0
#define HELPERS_MAX        16u
#define USUAL_IMAGE_TOKENS 1024u /* assumed tokens of a kept image, for the pool's default size */
#define CROSSED_BYTES      (1ull << 30)
#define CROSSED_IMAGES_MAX 64u
#define CANVAS_PATCH_ROWS  4096u      /* of small canvases at once */
#define FEATURE_ROWS_MAX   (1u << 24) /* far above any use; row numbers stay below NONE */

struct worker_process {
    const struct worker_options *options;
    struct worker_options adapted; /* of an encoder */
    int parent_fd;
    struct device_work *work; /* marks of the device's work, or NULL */
    struct frontend_link *link;
    struct opened_files files; /* of the checkpoint, until the model is open */
    struct model *model;
    struct backend *backend;
    struct backend_options backend_options; /* kv_blocks are set last */
    struct kv_budget kv;
    struct kv_inheritance inheritance;
    const struct model_vision *vision; /* NULL unless model and backend take images */
    uint32_t feature_row_bytes;
    struct draft_loading draft;
    struct adapter_slots adapters;
    struct thread_pool *helpers; /* of the engine */
    struct worker_engine *engine;
    struct worker_fault fault;
};

static enum result attach(struct worker_process *process, struct error_text *error)
{
    const struct worker_options *options = process->options;
    enum result result = peer_watch_die_with_parent((pid_t)options->parent_pid);
    if (result != RESULT_OK)
        return error_set(error, result, "process %d is not this worker's parent",
                         options->parent_pid);
    result = peer_watch_open((pid_t)options->parent_pid, &process->parent_fd, error);
    if (result != RESULT_OK)
        return result;
    struct frontend_link_fds fds = {.segment = options->segment_fd,
                                    .submit_bell = options->submit_bell_fd,
                                    .event_bell = options->event_bell_fd,
                                    .parent = process->parent_fd};
    result = end_marks_open(options->life_fd, options->device_work_fd, &process->work, error);
    if (result == RESULT_OK)
        result = frontend_link_open(&fds, &process->link, error);
    if (result == RESULT_OK)
        gauge_board_set_state(frontend_link_gauges(process->link), WORKER_LOADING);
    return result;
}

/* Workers on one machine share its CPUs. */
static uint32_t own_threads(const struct worker_options *options)
{
    if (options->threads > 0 || options->worker_count == 1)
        return options->threads;
    uint32_t share = cpu_backend_usable_cpus() / options->worker_count;
    return share > 0 ? share : 1;
}

static bool is_standby(const struct worker_process *process)
{
    return process->options->standby_fd >= 0;
}

/* Why no tokens are drafted, or NULL. */
static const char *no_speculation_reason(const struct worker_process *process)
{
    const struct worker_options *options = process->options;
    if (options->pooling != POOLING_OFF)
        return "--pooling: no text is generated";
    if (!options->speculation)
        return "--speculation off";
    if (options->devices.count > 1)
        return "the layers are split over several devices";
    if (options->device_kind != DEVICE_CPU && !options->batch_invariant)
        return "on this device a row's numbers depend on the step without --batch-invariant";
    if (options->device_kind != DEVICE_CPU && options->step_depth != 1)
        return "on this device steps overlap without --step-depth 1";
    if (options->step_depth > 1)
        return "--step-depth 2: drafts are judged by a token that is read first";
    return NULL;
}

/* The checkpoint's layer that predicts a further token, before the plan gets its kind of KV cache.
 * Without --speculation mtp a layer that cannot be used is named in the log. */
static enum result open_ahead(struct worker_process *process, struct error_text *error)
{
    const struct worker_options *options = process->options;
    bool wanted = options->speculation == SPECULATION_MTP;
    const char *why = no_speculation_reason(process);
    struct error_text reason = {""};
    if (options->speculation == SPECULATION_TEXT || options->draft_model || (why && !wanted))
        return RESULT_OK;
    enum result result = RESULT_OK;
    if (why)
        result = error_set(&reason, RESULT_UNSUPPORTED, "%s", why);
    if (result == RESULT_OK)
        result = model_open_ahead(process->model, &reason);
    if (result == RESULT_OK)
        result = draft_loading_open_ahead(&process->draft, process->model, options, &reason);
    if (result == RESULT_OK)
        return RESULT_OK;
    if (wanted)
        return error_set(error, result, "--speculation mtp cannot be used: %s", reason.text);
    if (result != RESULT_NOT_FOUND)
        log_info("speculation: the layer that predicts a further token is not used: %s",
                 reason.text);
    return RESULT_OK;
}

/* A draft model that could not be used would be missed only in the log. */
static enum result open_draft(struct worker_process *process, struct error_text *error)
{
    const struct worker_options *options = process->options;
    const char *reason = no_speculation_reason(process);
    if (!options->draft_model)
        return RESULT_OK;
    if (reason)
        return error_set(error, RESULT_UNSUPPORTED, "--draft-model cannot be used: %s", reason);
    return draft_loading_open(&process->draft, options, process->model, error);
}

/* An encoder's prompt is computed in one step, and its keys are of no use to another one; on a CPU
 * they are not rounded, as in the publishers' code. */
static void adapt_to_encoder(struct worker_process *process)
{
    const struct model_config *config = &model_plan(process->model)->config;
    struct worker_options *adapted = &process->adapted;
    if (!config->encoder)
        return;
    *adapted = *process->options;
    process->options = adapted;
    adapted->prefix_cache = 0;
    if (adapted->device_kind == DEVICE_CPU)
        adapted->kv_cache_type = KV_CACHE_F32;
    uint32_t context = adapted->context_tokens ? adapted->context_tokens : config->context_tokens;
    uint32_t room = LIMIT_STEP_ROWS - adapted->max_sequences;
    if (context > room) {
        log_warn("context: %u tokens of %u: a prompt has to fit a step", room, context);
        context = adapted->context_tokens = room;
    }
    if (adapted->step_tokens < context + adapted->max_sequences)
        adapted->step_tokens = context + adapted->max_sequences;
}

/* Of the adapters that there are; on the device they take as much or less. */
static uint64_t adapter_memory_bytes(const struct worker_options *options)
{
    struct stat memory;
    if (options->adapter_fd < 0 || fstat(options->adapter_fd, &memory) != 0)
        return 0;
    return memory.st_blocks > 0 ? (uint64_t)memory.st_blocks * 512 : 0; /* stat()'s unit */
}

/* Logit rows of a step: those of all sequences, and enough for the drafts of one; every row if
 * vectors are pooled. */
static uint32_t logit_rows(const struct worker_process *process)
{
    const struct worker_options *options = process->options;
    uint32_t rows = 1 + LIMIT_DRAFT_TOKENS;
    if (options->pooling != POOLING_OFF)
        return options->step_tokens;
    if (rows > options->step_tokens)
        rows = options->step_tokens;
    bool drafts = no_speculation_reason(process) == NULL;
    return drafts && rows > options->max_sequences ? rows : options->max_sequences;
}

static void create_backend(struct worker_process *process)
{
    const struct worker_options *options = process->options;
    bool pools = options->pooling != POOLING_OFF;
    process->backend_options = (struct backend_options){
        .threads = own_threads(options),
        .cpu_tier = options->cpu_tier,
        .activation_bits = options->activation_bits,
        .vulkan = {.device = options->devices.devices[0].index,
                   .tier_limit = options->vulkan_tier,
                   .work = process->work,
                   .validation = options->vulkan_validation != 0,
                   .batch_invariant = options->batch_invariant != 0,
                   .pipeline_cache = options->pipeline_cache},
        .device_workers = options->device_workers,
        .profile = options->profile != 0,
        .heartbeat = &frontend_link_gauges(process->link)->heartbeat,
        .drop_source_pages = true,
        .has_vault = options->weights_fd >= 0,
        .vault_fd = options->weights_fd,
        .vault_send_fd = options->weights_send_fd,
        .checkpoint = model_fingerprint(process->model),
        .beside = process->draft.plan,
        .beside_context = process->draft.drafter ? process->draft.drafter->context_plan : NULL,
        .beside_rows = DRAFT_MODEL_ROWS,
        .verify_weights = options->verify_weights != 0,
        .kv_type = options->kv_cache_type,
        .kv_share_percent = options->kv_cache_share,
        .step_depth = pools ? 1 : options->step_depth,
        .keeps_logits = pools,
        .adapters = options->adapter_fd >= 0,
        .adapter_bytes = adapter_memory_bytes(options),
        .max_step_rows = options->step_tokens,
        .max_logit_rows = logit_rows(process)};
    if (options->devices.count > 1) {
        process->backend_options.stage_count = options->devices.count;
        for (uint32_t i = 0; i < options->devices.count; i++)
            process->backend_options.stages[i].device = options->devices.devices[i];
        process->backend = split_backend_create();
        return;
    }
    process->backend =
        options->device_kind == DEVICE_VULKAN ? vulkan_backend_create() : cpu_backend_create();
}

/* Rows of the pool in a model whose requests keep their features to the end: as many as CROSSED_BYTES hold,
 * and those of 2 to CROSSED_IMAGES_MAX of the largest images. */
static uint64_t crossed_rows(uint64_t row_bytes, uint32_t largest)
{
    uint64_t rows = CROSSED_BYTES / row_bytes, most = (uint64_t)CROSSED_IMAGES_MAX * largest;
    rows = rows < most ? rows : most;
    return rows > 2ull * largest ? rows : 2ull * largest;
}

/* Decides the memory of images: rows of the tower at once, and rows of the feature pool. */
static enum result decide_vision(struct worker_process *process, struct error_text *error)
{
    const struct worker_options *options = process->options;
    const struct model_vision *vision = model_vision(process->model);
    if (options->pooling != POOLING_OFF) {
        log_info("images: none: --pooling %s", pooling_name(options->pooling));
        return RESULT_OK;
    }
    if (!vision) {
        log_info("images: none: the model %s", model_no_vision_reason(process->model));
        return RESULT_OK;
    }
    uint32_t columns = model_vision_feature_columns(vision);
    uint64_t row_bytes = (uint64_t)columns * sizeof(float);
    uint32_t largest = options->vision_patches / model_vision_square(vision);
    uint64_t rows = (uint64_t)options->vision_cache_size * USUAL_IMAGE_TOKENS;
    if (vision->mels > 0 && largest > vision->sound_rows / model_vision_square(vision))
        largest = vision->sound_rows / model_vision_square(vision);
    uint32_t patches = options->vision_patches;
    if (vision->canvas_tiles > 0) { /* all images have as many rows */
        uint32_t side = vision->canvas_side * vision->patch_side;
        const struct image_shape canvas = {.tiles = 1, .width = side, .height = side};
        uint32_t rows_each = model_vision_patch_rows(vision, canvas);
        largest = model_vision_feature_rows(vision, canvas);
        rows_each = rows_each > CANVAS_PATCH_ROWS ? rows_each : CANVAS_PATCH_ROWS;
        patches = rows_each < patches ? rows_each : patches;
    }
    if (vision->crossed_layers > 0)
        rows = crossed_rows(row_bytes, largest);
    if (rows < largest)
        rows = largest;
    if (options->vision_cache_bytes > 0)
        rows = options->vision_cache_bytes / row_bytes;
    if (rows < 1 || rows > FEATURE_ROWS_MAX)
        return error_set(error, RESULT_INVALID,
                         "--vision-cache-bytes %llu: the feature pool has 1 to %u rows of %llu "
                         "bytes",
                         (unsigned long long)options->vision_cache_bytes, FEATURE_ROWS_MAX,
                         (unsigned long long)row_bytes);
    process->vision = vision;
    process->feature_row_bytes = (uint32_t)row_bytes;
    process->backend_options.vision = model_vision_plan(process->model);
    process->backend_options.max_patch_rows = patches;
    process->backend_options.feature_rows = (uint32_t)rows;
    log_info("memory: features of images %.1f MB in %u rows, images of up to %u patches",
             (double)(rows * row_bytes) / MEGABYTE, (uint32_t)rows, patches);
    return RESULT_OK;
}

static void log_quantization(const struct plan *plan, uint32_t element_bytes)
{
    const struct kv_layout *quantized = &plan->kv;
    struct kv_layout plain = *quantized;
    char text[KV_QUANTIZATION_TEXT_BYTES];
    uint32_t layers = 0, all_layers = 0;
    uint64_t bytes = 0, plain_bytes = 0;
    for (uint32_t group = 0; group < quantized->group_count; group++) {
        if (quantized->groups[group].kind == KV_OPENING)
            continue;
        all_layers += quantized->groups[group].layers;
        if (!quantized->groups[group].quantized)
            continue;
        layers += quantized->groups[group].layers;
        plain.groups[group].quantized = false;
        bytes += kv_layout_block_bytes(quantized, group, element_bytes);
        plain_bytes += kv_layout_block_bytes(&plain, group, element_bytes);
    }
    if (layers == 0)
        return;
    kv_quantization_write(&quantized->quantization, text);
    log_info("memory: %u of %u layers' keys and values quantized (%s): %.1f bytes a token in "
             "place of %.1f",
             layers, all_layers, text, (double)bytes / KV_BLOCK_TOKENS,
             (double)plain_bytes / KV_BLOCK_TOKENS);
}

/* Memory with which drafted rows advance recurrent state. */
static void decide_deferred(struct worker_process *process)
{
    uint64_t row_bytes = state_layout_row_bytes(&model_plan(process->model)->state);
    if (row_bytes == 0 || no_speculation_reason(process))
        return;
    process->backend_options.deferred_places = STEP_DRAFTS_PLACES;
    log_info("memory: %.1f MB to advance recurrent state by %u drafted rows",
             (double)(STEP_DRAFTS_PLACES * row_bytes) / MEGABYTE, STEP_DRAFTS_DEFERRED);
}

/* Sets the bytes of the KV cache, and the number of sequences if its memory decides that. */
static enum result choose_limits(struct worker_process *process, const struct plan *plan,
                                 struct kv_budget_request *request, struct error_text *error)
{
    enum result result = RESULT_OK;
    if (request->limit_bytes == 0)
        request->limit_bytes = kv_inheritance_limit(&process->inheritance);
    if (request->limit_bytes == 0 && is_standby(process))
        return error_set(error, RESULT_STALE, "standby: there is no KV cache to share");
    if (request->limit_bytes == 0)
        result = process->backend->interface->choose_kv_bytes(
            process->backend, plan, &process->backend_options, &request->limit_bytes, error);
    if (result != RESULT_OK || !process->options->chooses_sequences)
        return result;
    request->max_sequences = kv_budget_sequences(&plan->kv, request);
    if (process->options->pooling == POOLING_OFF)
        process->backend_options.max_logit_rows = request->max_sequences;
    return RESULT_OK;
}

/* Decides the maximum context length and the blocks of each cache group. */
static enum result decide_memory(struct worker_process *process, struct error_text *error)
{
    const struct worker_options *options = process->options;
    const struct plan *plan = model_plan(process->model);
    uint32_t trained_tokens = plan->config.context_tokens;
    if (options->context_tokens > trained_tokens)
        return error_set(error, RESULT_INVALID, "--context %u is more than the model's %u",
                         options->context_tokens, trained_tokens);
    struct kv_budget_request request = {
        .element_bytes = kv_cache_type_bytes(options->kv_cache_type),
        .context_tokens = options->context_tokens ? options->context_tokens : trained_tokens,
        .max_sequences = options->max_sequences,
        .step_tokens = options->step_tokens,
        .state_slot_bytes = state_layout_slot_bytes(&plan->state),
        .keeps_checkpoints = options->prefix_cache != 0,
        .draft_block_bytes = draft_loading_block_bytes(&process->draft, options),
        .limit_bytes = options->kv_cache_bytes,
    };
    enum result result = choose_limits(process, plan, &request, error);
    if (result == RESULT_OK)
        result = kv_budget_plan(&plan->kv, &request, &process->kv, error);
    if (result != RESULT_OK)
        return result;
    if (options->context_tokens > process->kv.context_tokens)
        return error_set(error, RESULT_TOO_LARGE,
                         "--context %u does not fit a KV cache of %llu bytes: it holds %u tokens",
                         options->context_tokens, (unsigned long long)request.limit_bytes,
                         process->kv.context_tokens);
    if (process->kv.context_tokens < request.context_tokens)
        log_warn("context: %u tokens of the model's %u fit a KV cache of %llu bytes",
                 process->kv.context_tokens, trained_tokens,
                 (unsigned long long)request.limit_bytes);
    if (process->kv.max_sequences < request.max_sequences)
        log_warn("sequences: %u of %u run at once: more recurrent state does not fit half of a KV "
                 "cache of %llu bytes",
                 process->kv.max_sequences, request.max_sequences,
                 (unsigned long long)request.limit_bytes);
    if (process->kv.state_bytes > 0)
        log_info("memory: recurrent state %.1f MB for %u sequences",
                 (double)process->kv.state_bytes / MEGABYTE, process->kv.max_sequences);
    if (process->kv.state_bytes > 0 && options->prefix_cache)
        log_info("memory: checkpoints of recurrent state %.1f MB, %u of them%s",
                 (double)process->kv.checkpoint_bytes / MEGABYTE, process->kv.checkpoint_slots,
                 process->kv.checkpoint_slots > 0 ? "" : ": no prefix can be resumed");
    log_info("memory: %u sequences of %u tokens could use a KV cache of %.1f MB; this one is for "
             "%.1f MB",
             process->kv.max_sequences, request.context_tokens,
             (double)process->kv.wanted_bytes / MEGABYTE, (double)request.limit_bytes / MEGABYTE);
    uint64_t blocks = 0;
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        blocks += process->kv.blocks[group];
    log_info("memory: KV cache %.1f MB of %s in %llu blocks of %u tokens in %u groups, context %u "
             "tokens",
             (double)process->kv.bytes / MEGABYTE, kv_cache_type_name(options->kv_cache_type),
             (unsigned long long)blocks, KV_BLOCK_TOKENS, plan->kv.group_count,
             process->kv.context_tokens);
    log_quantization(plan, request.element_bytes);
    for (uint32_t group = 0; group < KV_GROUPS_MAX; group++)
        process->backend_options.kv_blocks[group] = process->kv.blocks[group];
    process->backend_options.state_slots = process->kv.max_sequences + process->kv.checkpoint_slots;
    kv_inheritance_open(&process->inheritance, plan, &process->kv, request.limit_bytes,
                        &process->backend_options);
    if (is_standby(process) && !process->inheritance.vault.adopted)
        return error_set(error, RESULT_STALE, "standby: the KV cache in use cannot be shared");
    return RESULT_OK;
}

static void report_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    gauge_board_set_load(context, done_bytes, total_bytes);
}

static void publish_devices(const struct worker_process *process, const struct plan *plan)
{
    struct backend *backend = process->backend;
    struct backend_memory memory = {0};
    struct error_text ignored;
    struct backend_share whole = {.layers = plan->config.layers,
                                  .weights_bytes = backend->interface->weights_bytes(backend),
                                  .kv_bytes = process->kv.bytes + process->kv.state_bytes +
                                              process->kv.checkpoint_bytes};
    uint32_t count = process->options->devices.count;
    if (count == 1 && backend->interface->memory(backend, &process->backend_options, &memory,
                                                 &ignored) == RESULT_OK)
        whole.memory_bytes = memory.bytes;
    for (uint32_t i = 0; i < count; i++) {
        const struct backend_share share =
            count == 1 ? whole : backend->interface->share(backend, i);
        gauge_board_set_device(frontend_link_gauges(process->link), i, &share);
    }
}

static enum result load_backend(struct worker_process *process, struct error_text *error)
{
    const struct plan *plan = model_plan(process->model);
    enum result result = process->backend->interface->load(
        process->backend, plan, &process->backend_options, report_progress,
        frontend_link_gauges(process->link), error);
    if (result == RESULT_OK)
        publish_devices(process, plan);
    return result;
}

/* A standby holds no weights and no KV memory of its own, and reads the KV cache only after the wait. */
static enum result stand_by(struct worker_process *process, struct error_text *error)
{
    const struct backend *backend = process->backend;
    const char *why = "";
    if (backend->interface->weights_origin(backend, &why) != WORKER_WEIGHTS_ADOPTED)
        return error_set(error, RESULT_STALE,
                         "standby: the weights in use cannot be shared: %.150s", why);
    if (backend->interface->pools_origin(backend, &why) != KEPT_POOLS_ADOPTED)
        return error_set(error, RESULT_STALE,
                         "standby: the KV memory in use cannot be shared: %.150s", why);
    log_info("standby: loaded; waits for the worker that serves to end");
    gauge_board_set_state(frontend_link_gauges(process->link), WORKER_STANDBY);
    frontend_link_ring(process->link);
    enum result result = standby_wait(process->options->standby_fd, process->parent_fd, error);
    if (result == RESULT_OK)
        gauge_board_set_state(frontend_link_gauges(process->link), WORKER_LOADING);
    return result;
}

/* Threads that sleep until several grammars need masks at once. */
static enum result create_helpers(struct worker_process *process, struct error_text *error)
{
    uint32_t threads = own_threads(process->options);
    if (threads == 0)
        threads = cpu_backend_usable_cpus();
    return thread_pool_create(threads < HELPERS_MAX ? threads : HELPERS_MAX, &process->helpers,
                              error);
}

static const char *const origin_words[] = {
    [WORKER_WEIGHTS_PRIVATE] = "packed",
    [WORKER_WEIGHTS_FILLED] = "packed for all workers",
    [WORKER_WEIGHTS_ADOPTED] = "adopted",
    [WORKER_WEIGHTS_REFUSED] = "packed anew",
};

static void log_weights(const struct plan *plan, const char *not_shared_reason)
{
    char types[256];
    plan_weight_types(plan, types, sizeof types);
    if (not_shared_reason[0])
        log_warn("weights are not shared with other workers: %s", not_shared_reason);
    log_info("weights: %.2f bits a weight as loaded: %s", plan_weight_bits(plan), types);
}

static void log_speculation(const struct worker_process *process,
                            const struct worker_engine_parts *parts)
{
    if (parts->drafter)
        log_info("speculation: tokens that the prompt or the answer had before are drafted, "
                 "and tokens that a grammar forces%s%s%s; %u in a step at most",
                 parts->draft_model ? " or the " : "",
                 parts->draft_model ? draft_loading_name(&process->draft) : "",
                 parts->draft_model ? " proposes" : "", LIMIT_DRAFT_TOKENS);
    else
        log_info("speculation: none: %s", no_speculation_reason(process));
}

/* Devices that share the layers work at once if the streams come in halves. */
static bool alternates(const struct worker_process *process)
{
    const struct backend *backend = process->backend;
    return process->backend_options.stage_count > 0 && backend->interface->step_depth(backend) > 1;
}

static enum result assemble(struct worker_process *process, struct error_text *error)
{
    const struct plan *plan = model_plan(process->model);
    struct backend *backend = process->backend;
    struct worker_engine_parts parts = {
        .link = process->link,
        .backend = backend,
        .layout = &plan->kv,
        .vocab_tokens = plan->config.vocab_tokens,
        .pooling = process->options->pooling,
        .encoder = plan->config.encoder,
        .vector_columns = plan->pools ? plan_logit_columns(plan) : 0,
        .context_tokens = process->kv.context_tokens,
        .state_slots = plan->state.layers > 0 ? process->kv.max_sequences : 0,
        .checkpoint_slots = process->kv.checkpoint_slots,
        .keeps_prefixes = process->options->prefix_cache != 0,
        .max_sequences = process->kv.max_sequences,
        .step_tokens = process->options->step_tokens,
        .logit_rows = process->backend_options.max_logit_rows,
        .drafter = no_speculation_reason(process) ? NULL : &suffix_drafter,
        .draft_model = process->draft.draft,
        .mixed_prefill_tokens = process->options->mixed_prefill_tokens,
        .itl_target_ms = process->options->itl_target_ms,
        .halves = alternates(process),
        .vision = process->vision,
        .patch_rows = process->backend_options.max_patch_rows,
        .feature_rows = process->backend_options.feature_rows,
        .feature_row_bytes = process->feature_row_bytes,
        .kept_images = process->options->vision_cache_size,
        .adapters = &process->adapters,
        .helpers = process->helpers,
        .fault = process->fault,
    };
    for (uint32_t group = 0; group < KV_GROUPS_MAX; group++)
        parts.kv_blocks[group] = process->kv.blocks[group];
    kv_inheritance_settle(&process->inheritance, backend, &process->backend_options);
    parts.ledger = process->inheritance.ledger;
    parts.feature_ledger = process->inheritance.features;
    enum result result = worker_engine_create(&parts, &process->engine);
    if (result != RESULT_OK)
        return error_set(error, result, "no memory for the KV cache's block tables");
    kv_inheritance_log(&process->inheritance, &process->engine->restored,
                       &process->engine->restored_features);
    uint64_t weights_bytes = backend->interface->weights_bytes(backend);
    const char *description = backend->interface->description(backend);
    const char *reason;
    enum worker_weights origin = backend->interface->weights_origin(backend, &reason);
    log_speculation(process, &parts);
    log_weights(plan, reason);
    log_info("ready: %s \"%s\", weights %.1f MB %s, %s", plan->config.architecture,
             plan->config.name, (double)weights_bytes / MEGABYTE, origin_words[origin],
             description);
    gauge_board_set_ready(
        frontend_link_gauges(process->link),
        &(struct gauge_ready){
            .vocab_tokens = plan->config.vocab_tokens,
            .context_tokens = process->kv.context_tokens,
            .max_sequences = process->kv.max_sequences,
            .kv_blocks_total = kv_pools_total(&process->engine->pools),
            .kv_block_tokens = KV_BLOCK_TOKENS,
            .state_bytes = process->kv.state_bytes,
            .weights_bytes = weights_bytes,
            .weights = origin,
            .prefix_cache = process->options->prefix_cache != 0,
            .on_gpu = backend->interface->is_gpu && backend->interface->is_gpu(backend),
            .backend = description,
        });
    frontend_link_ring(process->link); /* the frontend waits for this */
    return RESULT_OK;
}

static bool inherits_files(const struct worker_options *options)
{
    return options->checkpoint_files && options->checkpoint_fds;
}

/* Other weights than those that the server was started with would change answers silently. */
static enum result check_files(const struct worker_process *process, struct error_text *error)
{
    const struct worker_options *options = process->options;
    char name[CHECKPOINT_FILE_NAME_BYTES];
    char *now = NULL;
    if (!options->checkpoint_files)
        return RESULT_OK;
    if (inherits_files(options)) {
        if (!opened_files_differ(&process->files, options->checkpoint_files, name))
            return RESULT_OK;
        return error_set(
            error, RESULT_INVALID,
            "%.150s was overwritten in place since the server was started: the weights "
            "that it was started with are gone",
            name);
    }
    enum result result = checkpoint_files_read(options->model, options->mmproj, &now, error);
    if (result == RESULT_OK && checkpoint_files_differ(options->checkpoint_files, now, name))
        result = error_set(error, RESULT_INVALID,
                           "%.150s is not the file that the server was started with", name);
    free(now);
    return result;
}

/* A file that was found by its name may belong to another model. */
static enum result open_tower(struct worker_process *process, struct error_text *error)
{
    const struct worker_options *options = process->options;
    struct error_text reason = {""};
    enum result result = model_open_tower_of(
        process->model, options->mmproj, inherits_files(options) ? &process->files : NULL, &reason);
    if (result == RESULT_OK)
        log_info("images: the tower is in %s", options->mmproj);
    else if (options->mmproj_optional)
        log_warn("images: none: the file beside the model cannot be used: %s", reason.text);
    else
        return error_set(error, result, "%s", reason.text);
    return RESULT_OK;
}

static enum result open_model(struct worker_process *process, struct error_text *error)
{
    const struct worker_options *options = process->options;
    bool inherits = inherits_files(options);
    enum result result = RESULT_OK;
    if (inherits)
        result = opened_files_parse(options->checkpoint_fds, options->checkpoint_files,
                                    &process->files, error);
    if (result == RESULT_OK)
        result = check_files(process, error);
    if (result == RESULT_OK)
        result = model_open_of(options->model, inherits ? &process->files : NULL, &process->model,
                               error);
    if (result == RESULT_OK && options->mmproj)
        result = open_tower(process, error);
    if (result == RESULT_OK)
        result = check_files(process, error); /* none was replaced in between */
    opened_files_close(&process->files);
    return result;
}

static enum result start(struct worker_process *process, struct error_text *error)
{
    enum result result = attach(process, error);
    if (result == RESULT_OK)
        result = worker_fault_parse(process->options->fault, process->options->worker_index,
                                    &process->fault, error);
    if (result == RESULT_OK)
        result = worker_fault_start(&process->fault, frontend_link_life(process->link), error);
    if (result == RESULT_OK)
        result = open_model(process, error);
    if (result != RESULT_OK)
        return result;
    result = open_ahead(process, error);
    if (result != RESULT_OK)
        return result;
    result = model_quantize_kv(process->model, &process->options->kv_quantization, error);
    if (result == RESULT_OK && process->options->pooling != POOLING_OFF)
        result = model_pool(process->model, error);
    else if (result == RESULT_OK && model_plan(process->model)->lacks_head)
        result = error_set(error, RESULT_UNSUPPORTED,
                           "the checkpoint has no lm_head and generates no text: --pooling serves "
                           "its embeddings");
    if (result != RESULT_OK)
        return result;
    adapt_to_encoder(process);
    result = open_draft(process, error);
    if (result != RESULT_OK)
        return result;
    create_backend(process);
    result = decide_vision(process, error);
    decide_deferred(process);
    kv_inheritance_identify(&process->inheritance, process->options, &process->backend_options);
    if (result == RESULT_OK)
        result = decide_memory(process, error);
    if (result == RESULT_OK)
        result = load_backend(process, error);
    process->adapters = (struct adapter_slots){.memory_fd = process->options->adapter_fd,
                                               .plan = model_plan(process->model),
                                               .backend = process->backend};
    if (result == RESULT_OK)
        result = adapter_slots_load(&process->adapters, error);
    if (result == RESULT_OK)
        result = draft_loading_load(&process->draft, model_plan(process->model), process->backend,
                                    &process->backend_options, process->kv.max_sequences, error);
    if (result == RESULT_OK)
        result = create_helpers(process, error);
    if (result != RESULT_OK)
        return result;
    /* All files are open and all threads exist. */
    worker_sandbox_enter(process->options->sandbox, process->options->device_kind);
    if (is_standby(process))
        result = stand_by(process, error);
    if (result == RESULT_OK && is_standby(process))
        result = adapter_slots_load(&process->adapters, error); /* they changed meanwhile */
    return result == RESULT_OK ? assemble(process, error) : result;
}

static enum worker_exit stop(struct worker_process *process, enum result result,
                             enum worker_exit status)
{
    worker_engine_destroy(process->engine);
    if (result == RESULT_OK && !kv_inheritance_save(&process->inheritance))
        status = WORKER_EXIT_UNSAVED;
    thread_pool_destroy(process->helpers);
    kv_inheritance_fini(&process->inheritance);
    draft_loading_close(&process->draft);
    if (process->backend)
        process->backend->interface->destroy(process->backend);
    model_close(process->model);
    frontend_link_close(process->link);
    if (process->parent_fd >= 0)
        close(process->parent_fd);
    return status;
}

enum worker_exit worker_process_run(const struct worker_options *options)
{
    struct worker_process process = {.options = options, .parent_fd = -1};
    struct error_text error = {""};
    worker_options_print(options);
    enum worker_exit status = WORKER_EXIT_CANNOT;
    enum result result = start(&process, &error);
    if (result == RESULT_OK) {
        status = WORKER_EXIT_LOST;
        result = step_loop_run(process.engine, &error);
    }
    if (result == RESULT_OK) {
        log_info("drained");
        status = WORKER_EXIT_DONE;
    } else if (result == RESULT_PEER_GONE) {
        log_info("%s", error.text);
        status = WORKER_EXIT_DONE;
    } else {
        log_error("%s", error.text);
        if (process.link)
            gauge_board_fail(frontend_link_gauges(process.link), error.text);
    }
    return stop(&process, result, status);
}
