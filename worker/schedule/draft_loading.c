/*
 * The draft model's weights are packed for this worker alone, and its keys and values die with it:
 * a new worker computes them again where it drafts. Each of its cache groups has the blocks of the
 * target's first FULL group, so all of its layers keep whole sequences.
 */
#include "worker/schedule/draft_loading.h"

#include "proto/log.h"
#include "worker/model/target_drafter.h"

#define MEGABYTE 1000000.0

/* KV_GROUPS_MAX if there is none. */
static uint32_t full_group(const struct kv_layout *layout)
{
    uint32_t group = 0;
    while (group < layout->group_count && layout->groups[group].kind != KV_FULL)
        group++;
    return group < layout->group_count ? group : KV_GROUPS_MAX;
}

/* Of a draft model of its own. */
static enum result open_model(struct draft_loading *loading, const char *path,
                              struct error_text *error)
{
    enum result result = model_open(path, &loading->model, error);
    if (result != RESULT_OK)
        return result;
    const struct plan *plan = loading->plan = model_plan(loading->model);
    const char *why = NULL;
    if (plan->state.layers > 0)
        why = "its recurrent state cannot be taken back";
    else if (plan->lacks_head)
        why = "it has no lm_head";
    else if (plan->config.crossed_layers > 0)
        why = "its rows attend to features";
    return why ? error_set(error, RESULT_UNSUPPORTED, "%.100s: %s", path, why) : RESULT_OK;
}

enum result draft_loading_open(struct draft_loading *loading, const struct worker_options *options,
                               struct model *target, struct error_text *error)
{
    struct error_text reason = {""};
    enum result result;
    loading->device_kind = options->device_kind;
    if (full_group(&model_plan(target)->kv) == KV_GROUPS_MAX)
        return error_set(error, RESULT_UNSUPPORTED,
                         "--draft-model: the model keeps keys and values of whole sequences in no "
                         "layer, and a draft model's are kept beside them");
    if (drafter_kind_at(options->draft_model) == DRAFTER_MODEL) {
        result = open_model(loading, options->draft_model, &reason);
    } else {
        result = model_open_drafter(target, options->draft_model, NULL, &reason);
        loading->drafter = model_drafter(target);
        loading->plan = model_ahead_plan(target);
    }
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, result, "--draft-model: %s", reason.text);
}

const char *draft_loading_name(const struct draft_loading *loading)
{
    if (loading->drafter)
        return drafter_kind_name(loading->drafter->kind);
    return loading->model ? "draft model" : "checkpoint's own layer for it";
}

enum result draft_loading_open_ahead(struct draft_loading *loading, const struct model *target,
                                     const struct worker_options *options, struct error_text *error)
{
    loading->device_kind = options->device_kind;
    if (full_group(&model_plan(target)->kv) == KV_GROUPS_MAX)
        return error_set(
            error, RESULT_UNSUPPORTED,
            "the model keeps keys and values of whole sequences in no layer, and those "
            "of the layer are kept beside them");
    if (model_vision(target) && model_vision(target)->spans_whole)
        return error_set(error, RESULT_UNSUPPORTED,
                         "its rows would see each other within images, as the model's do");
    loading->plan = model_ahead_plan(target);
    return RESULT_OK;
}

uint64_t draft_loading_block_bytes(const struct draft_loading *loading,
                                   const struct worker_options *options)
{
    uint64_t bytes = 0;
    if (!loading->plan || loading->plan->config.borrows_caches)
        return 0;
    const struct kv_layout *layout = &loading->plan->kv;
    for (uint32_t group = 0; group < layout->group_count; group++)
        bytes += kv_layout_block_bytes(layout, group, kv_cache_type_bytes(options->kv_cache_type));
    return bytes;
}

/* What steps of the draft model's backend need, as the target's options state them. */
static struct backend_options own_options(const struct draft_loading *loading,
                                          const struct plan *target,
                                          const struct backend_options *options)
{
    struct backend_options own = *options;
    own.has_vault = false;
    own.vault_fd = own.vault_send_fd = -1;
    own.beside = NULL;
    if (loading->model)
        own.checkpoint = model_fingerprint(loading->model);
    own.step_depth = 1;
    own.max_step_rows = DRAFT_MODEL_ROWS;
    own.state_slots = 0;
    own.deferred_places = 0;
    own.adapters = false;
    own.kept = (struct kept_pools){0};
    own.vision = NULL;
    own.max_patch_rows = own.feature_rows = 0;
    uint32_t blocks = options->kv_blocks[full_group(&target->kv)];
    own.shares_kv = loading->plan->config.borrows_caches;
    if (own.shares_kv)
        return own;
    for (uint32_t group = 0; group < KV_GROUPS_MAX; group++)
        own.kv_blocks[group] = group < loading->plan->kv.group_count ? blocks : 0;
    return own;
}

static struct backend *create_backend(const struct draft_loading *loading)
{
    return loading->device_kind == DEVICE_CPU ? cpu_backend_create() : vulkan_backend_create();
}

/* The pass that computes cells of a drafter of blocks, in the block's memory. */
static enum result load_context(struct draft_loading *loading, const struct plan *target,
                                struct backend_options *own, uint32_t max_sequences,
                                struct error_text *error)
{
    const struct plan *plan = loading->drafter->context_plan;
    struct draft_model_parts parts = {.max_sequences = max_sequences};
    own->lender = loading->backend;
    own->shares_kv = true;
    own->max_logit_rows = max_sequences;
    parts.backend = loading->context_backend = create_backend(loading);
    enum result result =
        parts.backend->interface->load(parts.backend, plan, own, NULL, NULL, error);
    if (result != RESULT_OK)
        return result;
    draft_model_describe(target, plan, &parts);
    loading->context = draft_model_create(&parts);
    return RESULT_OK;
}

static uint32_t block_tokens(const struct target_drafter *drafter)
{
    uint32_t most = 1 + DRAFT_BLOCK_TOKENS;
    return drafter->block_tokens < most ? drafter->block_tokens : most;
}

enum result draft_loading_load(struct draft_loading *loading, const struct plan *target,
                               const struct backend *backend, const struct backend_options *options,
                               uint32_t max_sequences, struct error_text *error)
{
    struct error_text reason = {""};
    if (!loading->plan)
        return RESULT_OK;
    const struct plan *plan = loading->plan;
    const struct target_drafter *drafter = loading->drafter;
    bool is_layer = !loading->model && !drafter;
    const char *what = is_layer ? "--speculation mtp" : "--draft-model";
    struct backend_options own = own_options(loading, target, options);
    own.sights = is_layer && options->vision ? &options->vision->vision : NULL;
    own.lender = backend;
    struct draft_model_parts parts = {
        .token_map = drafter ? drafter->token_map : NULL,
        .max_sequences = max_sequences,
        .block_tokens = drafter ? block_tokens(drafter) : 0,
        .mask_token = drafter ? drafter->mask_token : 0,
        .takes_images = own.sights != NULL,
    };
    own.max_logit_rows = draft_model_draws(&parts);
    parts.backend = loading->backend = create_backend(loading);
    enum result result =
        loading->backend->interface->load(loading->backend, plan, &own, NULL, NULL, &reason);
    if (result == RESULT_OK && drafter && drafter->context_plan)
        result = load_context(loading, target, &own, max_sequences, &reason);
    if (result != RESULT_OK)
        return error_set(error, result, "%s: %s", what, reason.text);
    parts.context = loading->context;
    draft_model_describe(target, plan, &parts);
    loading->draft = draft_model_create(&parts);
    log_info("%s: %s \"%s\", weights %.1f MB",
             is_layer ? "layer that predicts a further token" : draft_loading_name(loading),
             plan->config.architecture, plan->config.name,
             (double)loading->backend->interface->weights_bytes(loading->backend) / MEGABYTE);
    return RESULT_OK;
}

void draft_loading_close(struct draft_loading *loading)
{
    draft_model_destroy(loading->draft);
    draft_model_destroy(loading->context);
    if (loading->context_backend)
        loading->context_backend->interface->destroy(loading->context_backend);
    if (loading->backend)
        loading->backend->interface->destroy(loading->backend);
    model_close(loading->model);
    *loading = (struct draft_loading){0};
}
