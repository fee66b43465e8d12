/*
 * The models of a server (contract in model_set.h).
 *
 * Callbacks of an engine only note what happened. One event, on_work(), then does what follows:
 * destroys engines that ended, answers requests that waited, unloads, and loads. So no engine is
 * destroyed within its own callback, and a decision sees every change.
 */
#include "frontend/serve/models/model_set.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/models/model_instance.h"
#include "frontend/serve/models/model_loading.h"
#include "frontend/serve/models/model_reload.h"
#include "frontend/serve/models/model_set_state.h"
#include "frontend/serve/models/model_wait.h"
#include "proto/log.h"
#include "proto/must.h"

#define LOOK_MS 500 /* between looks at waits and idle models */

/* --- work ------------------------------------------------------------------------------------ */

int64_t model_idle_limit_ms(const struct model *model)
{
    uint64_t idle_s = model->form->options->models_idle_s;
    if (!model->set->directory || model->form->place.pinned)
        return -1;
    if (model->kept)
        return model->keep_ms < 0 ? -1 : model->keep_ms;
    return idle_s > 0 ? (int64_t)idle_s * 1000 : -1;
}

static bool idle_ends(const struct model *model)
{
    return model->state == MODEL_READY && model_idle_limit_ms(model) >= 0;
}

static void idle_unload(struct model *model, int64_t now_ms)
{
    if (idle_ends(model) && !model_is_busy(model) &&
        now_ms - model->used_ms >= model_idle_limit_ms(model))
        model_end(model);
}

/* An instance of --model that ended is kept until the server ends. */
static bool any_engine(const struct model_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct model *model = set->models[i];
        if (model->coming || (model->instance && !(model->instance->ended && !set->directory)))
            return true;
    }
    return set->retired != NULL;
}

static void model_work(struct model *model, int64_t now_ms)
{
    struct model_set *set = model->set;
    if (set->directory && (model->failing || (model->instance && model->instance->ended)))
        model_instance_end(model);
    model_reload_step(model);
    if (set->directory && model->state == MODEL_READY)
        model_waits_answer(model, NULL);
    model_waits_expire(model, now_ms);
    if (set->directory)
        idle_unload(model, now_ms);
}

static void on_work(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct model_set *set = context;
    int64_t now_ms = monotonic_clock_ms();
    if (set->directory && !set->ready_told) {
        set->ready_told = true;
        set->config.ready(set->config.context);
    }
    bool looks = model_instance_sweep(set);
    for (uint32_t i = 0; i < set->count; i++)
        model_work(set->models[i], now_ms);
    for (uint32_t i = 0; i < set->count && !set->draining; i++)
        model_load_if_wanted(set, i);
    if (set->draining && !any_engine(set) && !set->drained_told) {
        set->drained_told = true;
        set->config.drained(set->config.context);
    }
    looks |= set->waiting > 0;
    for (uint32_t i = 0; i < set->count; i++)
        looks |= idle_ends(set->models[i]) ||
                 (set->models[i]->instance && set->models[i]->instance->ended &&
                  set->models[i]->instance->uses > 0);
    if (looks && !set->drained_told)
        model_set_work_soon(set, LOOK_MS);
}

/* --- finding --------------------------------------------------------------------------------- */

struct model *model_set_find(const struct model_set *set, const char *name)
{
    static const char latest[] = ":latest"; /* Ollama's tag of a name without one */
    struct model *any = set->directory ? NULL : set->models[0];
    for (uint32_t i = 0; name && i < set->count; i++) {
        if (model_form_has_name(set->models[i]->form, name))
            return set->models[i];
        if (set->models[i]->form->options->any_model_name)
            any = set->models[i];
    }
    for (uint32_t i = 0; !any && name && i < set->count; i++)
        if (model_form_has_quantization(set->models[i]->form, name))
            return set->models[i];
    size_t stem = name ? strlen(name) - strlen(latest) : 0;
    char untagged[MODEL_NAME_BYTES];
    if (!any && name && strlen(name) > strlen(latest) && stem < sizeof untagged &&
        strcmp(name + stem, latest) == 0) {
        memcpy(untagged, name, stem);
        untagged[stem] = '\0';
        return model_set_find(set, untagged);
    }
    return any;
}

struct model *model_set_find_or_refuse(const struct model_set *set, const char *name,
                                       struct api_error *error)
{
    struct model *model = model_set_find(set, name);
    if (model)
        return model;
    if (name)
        (void)api_error_set(error, RESULT_NOT_FOUND, 404, "model_not_found",
                            "the model '%.100s' does not exist; GET /v1/models lists them", name);
    else
        (void)api_error_set(error, RESULT_INVALID, 400, "model_required",
                            "model is required: this server has several; GET /v1/models lists "
                            "them");
    strcpy(error->param, "model");
    return NULL;
}

bool model_set_is_directory(const struct model_set *set)
{
    return set->directory;
}

uint32_t model_set_count(const struct model_set *set)
{
    return set->count;
}

struct model *model_set_at(const struct model_set *set, uint32_t index)
{
    return set->models[index];
}

const char *model_name(const struct model *model)
{
    return model->form->name;
}

enum model_state model_state(const struct model *model)
{
    return model->state;
}

const char *model_state_name(enum model_state state)
{
    static const char *const names[] = {[MODEL_UNLOADED] = "unloaded",
                                        [MODEL_LOADING] = "loading",
                                        [MODEL_READY] = "loaded",
                                        [MODEL_UNLOADING] = "unloading",
                                        [MODEL_FAILED] = "failed"};
    return names[state];
}

const char *model_failure(const struct model *model)
{
    return model->failure.text;
}

struct chat_engine *model_engine(const struct model *model)
{
    return model->instance ? model->instance->engine : NULL;
}

const struct options *model_options(const struct model *model)
{
    return model->form->options;
}

uint64_t model_bytes(const struct model *model)
{
    return model->form->place.bytes;
}

int64_t model_modified_unix_s(const struct model *model)
{
    return model->form->place.modified_unix_s;
}

uint32_t model_waiting(const struct model *model)
{
    return model->waiting;
}

int64_t model_used_ms(const struct model *model)
{
    return model->used_ms;
}

bool model_is_reloading(const struct model *model)
{
    return model->next_form != NULL;
}

uint32_t model_set_retired_requests(const struct model_set *set)
{
    uint32_t uses = 0;
    for (const struct model_instance *at = set->retired; at; at = at->next)
        uses += at->uses;
    return uses;
}

/* --- life ------------------------------------------------------------------------------------ */

static enum result directory_open(struct model_set *set, struct error_text *error)
{
    const struct options *options = set->config.options;
    struct model_form *forms[LIMIT_MODELS];
    uint32_t count;
    if (options->served_model_names.count > 0 || options->any_model_name)
        return error_set(error, RESULT_INVALID,
                         "with --models-dir, names belong to single models: set served-model-name "
                         "and any-model-name in shoal.ini");
    enum result result = model_forms_read(options, forms, &count, error);
    for (uint32_t i = 0; result == RESULT_OK && i < count; i++)
        model_set_add(set, forms[i]);
    if (result == RESULT_OK && count == 0)
        log_warn("--models-dir %.200s: there is no model in it; %s", options->models_dir,
                 options->endpoint ? "POST /api/pull brings some, SIGHUP reads it again"
                                   : "SIGHUP reads it again");
    return result;
}

static enum result single_open(struct model_set *set, struct error_text *error)
{
    struct model *model = model_set_add(set, model_form_create_first(set->config.options));
    return model_instance_begin(model, error);
}

enum result model_set_create(const struct model_set_config *config, struct model_set **set,
                             struct error_text *error)
{
    struct model_set *made = must_alloc(1, sizeof *made);
    made->config = *config;
    made->directory = config->options->models_dir != NULL;
    if (made->directory)
        made->config.state_directory = -1; /* prefix caches have no model in their files' names */
    made->models = must_alloc(LIMIT_MODELS, sizeof(struct model *));
    made->work = event_new(config->base, -1, 0, on_work, made);
    must(made->work != NULL);
    enum result result = made->directory ? directory_open(made, error) : single_open(made, error);
    if (result != RESULT_OK) {
        model_set_destroy(made);
        return result;
    }
    model_reload_start(made);
    if (made->directory)
        model_set_work_soon(made, 0);
    *set = made;
    return RESULT_OK;
}

void model_set_destroy(struct model_set *set)
{
    if (!set)
        return;
    for (uint32_t i = 0; i < set->count; i++)
        model_destroy(set->models[i]);
    while (set->retired) {
        struct model_instance *next = set->retired->next;
        model_instance_destroy(set->retired);
        set->retired = next;
    }
    event_free(set->work);
    if (set->watch)
        event_free(set->watch);
    free(set->models);
    free(set);
}

enum result model_set_check_ready(const struct model_set *set, struct api_error *error)
{
    if (!set->directory)
        return chat_engine_check_ready(set->models[0]->instance->engine, error);
    if (!set->draining)
        return RESULT_OK;
    (void)api_error_set(error, RESULT_FULL, 503, "shutting_down", "the server is shutting down");
    error->retry_after_s = 5;
    return RESULT_FULL;
}

void model_set_end_saving(struct model_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->models[i]->instance)
            chat_engine_end_saving(set->models[i]->instance->engine);
        if (set->models[i]->coming)
            chat_engine_end_saving(set->models[i]->coming->engine);
    }
    for (struct model_instance *at = set->retired; at; at = at->next)
        chat_engine_end_saving(at->engine);
}

void model_set_drain(struct model_set *set)
{
    struct api_error error;
    set->draining = true;
    for (uint32_t i = 0; i < set->count; i++) {
        struct model *model = set->models[i];
        model_refuse(model, 5, "shutting_down",
                     "the server is shutting down; '%.100s' is not loaded", &error);
        model_waits_answer(model, &error);
        if (model->coming)
            model_instance_retire(model->coming);
        model->coming = NULL;
        if (model->instance && model->state != MODEL_UNLOADING && model->state != MODEL_FAILED)
            chat_engine_drain(model->instance->engine);
    }
    model_set_work_soon(set, 0);
}

void model_set_fail_all(struct model_set *set, const struct api_error *error)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->models[i]->instance)
            chat_engine_fail_all(set->models[i]->instance->engine, error);
    for (struct model_instance *at = set->retired; at; at = at->next)
        chat_engine_fail_all(at->engine, error);
}
