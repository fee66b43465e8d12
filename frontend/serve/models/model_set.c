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
#include "frontend/serve/models/model_policy.h"
#include "frontend/serve/models/model_set_state.h"
#include "proto/log.h"
#include "proto/must.h"

#define MODEL_RETRY_MS 10000
#define LOOK_MS        500 /* between looks at waits and idle models */
#define NO_MODEL       UINT32_MAX

void model_set_work_soon(struct model_set *set, int64_t after_ms)
{
    event_add(set->work, &(struct timeval){.tv_sec = after_ms / 1000,
                                           .tv_usec = (suseconds_t)(after_ms % 1000) * 1000});
}

static void state_set(struct model *model, enum model_state state)
{
    const struct model_set_config *config = &model->set->config;
    if (model->state == state)
        return;
    model->state = state;
    if (config->changed)
        config->changed(config->context, model);
}

/* --- an instance's callbacks ----------------------------------------------------------------- */

void model_set_note_ready(struct model *model)
{
    struct model_set *set = model->set;
    if (model->state == MODEL_LOADING)
        state_set(model, MODEL_READY);
    if (!set->directory)
        set->config.ready(set->config.context);
}

void model_set_note_failed(struct model *model, const char *why)
{
    struct model_set *set = model->set;
    if (!set->directory) {
        set->config.failed(set->config.context, why);
        return;
    }
    const struct log_field fields[] = {LOG_TEXT("model", model->form->name),
                                       LOG_TEXT("reason", why)};
    log_event(LOG_ERROR, "model_failed", fields, sizeof fields / sizeof fields[0]);
    (void)error_set(&model->failure, RESULT_IO, "%s", why);
    model->failed_ms = monotonic_clock_ms();
    state_set(model, MODEL_FAILED);
    model->failing = true;
}

void model_set_note_use(struct model *model)
{
    model->used_ms = monotonic_clock_ms();
}

/* --- loading and unloading ------------------------------------------------------------------- */

static void state_log(const struct model *model, const char *event)
{
    const struct log_field fields[] = {LOG_TEXT("model", model->form->name),
                                       LOG_WHOLE("bytes", model_bytes(model))};
    log_event(LOG_INFO, event, fields, sizeof fields / sizeof fields[0]);
}

static enum result instance_create(struct model *model, struct error_text *error)
{
    const struct model_set *set = model->set;
    model->wanted = false;
    model->failure.text[0] = '\0';
    state_set(model, MODEL_LOADING);
    return model_instance_create(model, model->form, set->config.state_directory, &model->instance,
                                 error);
}

static void model_begin(struct model *model)
{
    struct error_text error;
    state_log(model, "model_loading");
    if (instance_create(model, &error) != RESULT_OK) {
        model_set_note_failed(model, error.text);
        model_set_work_soon(model->set, 0);
    }
}

void model_end(struct model *model)
{
    state_log(model, "model_unloading");
    state_set(model, MODEL_UNLOADING);
    chat_engine_drain(model->instance->engine);
}

static uint32_t model_uses(const struct model *model)
{
    return model->instance ? model->instance->uses : 0;
}

bool model_is_busy(const struct model *model)
{
    return model_uses(model) > 0 || model->waiting > 0 || model->coming ||
           model->state == MODEL_LOADING;
}

static struct model_policy_model instance_known(const struct model_instance *instance)
{
    return (struct model_policy_model){.bytes = instance->form->place.bytes,
                                       .in_memory = true,
                                       .busy = instance->model != NULL,
                                       .leaving = instance->model == NULL};
}

/* Fills `known`: the models, then their instances that are still loading beside another, then the
 * retired ones. */
static uint32_t known_fill(const struct model_set *set, struct model_policy_model *known)
{
    uint32_t count = set->count;
    for (uint32_t i = 0; i < set->count; i++) {
        const struct model *at = set->models[i];
        known[i] = (struct model_policy_model){
            .bytes = model_bytes(at),
            .in_memory = at->instance != NULL,
            .leaving = at->instance && at->state != MODEL_LOADING && at->state != MODEL_READY,
            .busy = model_is_busy(at),
            .pinned = at->form->place.pinned,
            .used_ms = at->used_ms};
        if (at->coming)
            known[count++] = instance_known(at->coming);
    }
    for (const struct model_instance *at = set->retired; at; at = at->next)
        known[count++] = instance_known(at);
    return count;
}

/* About loading models[wanted] or, if `form` is not NULL, another instance of that. */
static enum model_verdict decide(const struct model_set *set, uint32_t wanted,
                                 const struct model_form *form, uint32_t *victim)
{
    const struct options *options = set->config.options;
    const struct model_policy_limits limits = {.bytes = options->models_memory_bytes,
                                               .models = (uint32_t)options->models_loaded};
    struct model_policy_model *known =
        must_alloc(2 * set->count + set->retired_count + 1, sizeof known[0]);
    uint32_t count = known_fill(set, known);
    if (form) {
        wanted = count;
        known[count++] = (struct model_policy_model){.bytes = form->place.bytes};
    }
    enum model_verdict verdict = model_policy_decide(known, count, wanted, &limits, victim);
    free(known);
    return verdict;
}

bool model_set_has_room(const struct model_set *set, const struct model_form *form)
{
    uint32_t victim;
    return decide(set, 0, form, &victim) == MODEL_LOAD;
}

/* --- requests that wait ---------------------------------------------------------------------- */

static void wait_unlink(struct model_wait *wait)
{
    struct model *model = wait->model;
    *wait->link = wait->next;
    if (wait->next)
        wait->next->link = wait->link;
    else
        model->last = wait->link;
    model->waiting--;
    model->set->waiting--;
    wait->model = NULL;
}

static void wait_link(struct model *model, struct model_wait *wait)
{
    wait->model = model;
    wait->next = NULL;
    wait->link = model->last;
    *model->last = wait;
    model->last = &wait->next;
    model->waiting++;
    model->set->waiting++;
}

/* Answers all; a callback may queue others behind them. */
static void waits_answer(struct model *model, const struct api_error *error)
{
    for (uint32_t left = model->waiting; left > 0 && model->waits; left--) {
        struct model_wait *wait = model->waits;
        wait_unlink(wait);
        wait->done(wait->context, error);
    }
}

static enum model_readiness refuse(struct api_error *error, uint32_t retry_after_s,
                                   const char *code, const char *words, const struct model *model)
{
    (void)api_error_set(error, RESULT_FULL, 503, code, words, model->form->name);
    error->retry_after_s = retry_after_s;
    return MODEL_IS_REFUSED;
}

static void refuse_failed(const struct model *model, struct api_error *error)
{
    (void)api_error_set(error, RESULT_IO, 503, "model_failed",
                        "the model '%.100s' cannot be loaded: %.300s", model->form->name,
                        model->failure.text);
    error->retry_after_s = MODEL_RETRY_MS / 1000;
}

/* The waits are in the order of their ends. */
static void waits_expire(struct model *model, int64_t now_ms)
{
    struct api_error error;
    while (model->waits && model->waits->until_ms <= now_ms) {
        struct model_wait *wait = model->waits;
        (void)refuse(&error, 5, "model_loading", "the model '%.100s' is not loaded yet", model);
        wait_unlink(wait);
        wait->done(wait->context, &error);
    }
}

/* --- work ------------------------------------------------------------------------------------ */

/* Destroys an instance that ended. Its users are told first; those that inspect end by themselves. */
static void instance_end(struct model *model)
{
    struct api_error error;
    refuse_failed(model, &error);
    if (model->state == MODEL_FAILED) {
        waits_answer(model, &error);
        if (model->instance)
            chat_engine_fail_all(model->instance->engine, &error);
        model->failing = false;
    }
    if (model_uses(model) > 0)
        return;
    model_instance_destroy(model->instance);
    model->instance = NULL;
    model->kept = false;
    if (model->state != MODEL_FAILED) { /* UNLOADING, or any other state when the server drains */
        state_set(model, MODEL_UNLOADED);
        state_log(model, "model_unloaded");
    }
}

static void load_if_wanted(struct model_set *set, uint32_t index)
{
    uint32_t victim = NO_MODEL;
    struct api_error error;
    struct model *model = set->models[index];
    if (model->instance || model->failing || (!model->wanted && model->waiting == 0))
        return;
    switch (decide(set, index, NULL, &victim)) {
    case MODEL_LOAD: model_begin(model); return;
    case MODEL_UNLOAD: model_end(set->models[victim]); return;
    case MODEL_WAIT: return;
    case MODEL_TOO_LARGE: break;
    }
    model->wanted = false;
    (void)refuse(&error, 60, "model_too_large",
                 "the model '%.100s' does not fit into --models-memory beside pinned models",
                 model);
    waits_answer(model, &error);
}

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
        instance_end(model);
    model_reload_step(model);
    if (set->directory && model->state == MODEL_READY)
        waits_answer(model, NULL);
    waits_expire(model, now_ms);
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
        load_if_wanted(set, i);
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

/* --- from requests --------------------------------------------------------------------------- */

enum model_readiness model_await(struct model *model, struct model_wait *wait,
                                 struct api_error *error)
{
    struct model_set *set = model->set;
    int64_t now_ms = monotonic_clock_ms();
    wait->model = NULL;
    if (!set->directory || model->state == MODEL_READY)
        return MODEL_IS_READY;
    if (set->draining)
        return refuse(error, 5, "shutting_down",
                      "the server is shutting down; '%.100s' is not loaded", model);
    if (model->state == MODEL_FAILED && now_ms - model->failed_ms < MODEL_RETRY_MS) {
        refuse_failed(model, error);
        return MODEL_IS_REFUSED;
    }
    if (set->waiting >= LIMIT_MODEL_WAITS)
        return refuse(error, 5, "queue_full", "too many requests wait for models like '%.100s'",
                      model);
    wait->until_ms = now_ms + (int64_t)set->config.options->models_wait_s * 1000;
    wait_link(model, wait);
    model_set_work_soon(set, 0);
    return MODEL_IS_AWAITED;
}

void model_wait_cancel(struct model_wait *wait)
{
    if (wait->model)
        wait_unlink(wait);
}

struct model_instance *model_use(struct model *model)
{
    must(model->instance != NULL);
    model->instance->uses++;
    model_set_note_use(model);
    return model->instance;
}

enum result model_load(struct model *model, struct api_error *error)
{
    if (model->set->draining)
        return api_error_set(error, RESULT_FULL, 503, "shutting_down",
                             "the server is shutting down");
    if (model->state != MODEL_LOADING && model->state != MODEL_READY)
        model->wanted = true;
    model_set_work_soon(model->set, 0);
    return RESULT_OK;
}

enum result model_unload(struct model *model, struct api_error *error)
{
    model->wanted = false;
    if (model_is_busy(model))
        return api_error_set(error, RESULT_FULL, 409, "model_busy",
                             "the model '%.100s' has requests or is loading", model->form->name);
    if (model->state == MODEL_READY)
        model_end(model);
    return RESULT_OK;
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

struct model *model_set_add(struct model_set *set, struct model_form *form)
{
    must(set->count < LIMIT_MODELS);
    struct model *model = must_alloc(1, sizeof *model);
    model->set = set;
    model->form = form;
    model->last = &model->waits;
    model->wanted = form->place.preload;
    set->models[set->count++] = model;
    return model;
}

static void model_destroy(struct model *model)
{
    must(model->waiting == 0);
    model_instance_destroy(model->instance);
    model_instance_destroy(model->coming);
    model_form_release(model->form);
    model_form_release(model->next_form);
    free(model->refused);
    free(model);
}

void model_set_remove(struct model_set *set, struct model *model)
{
    struct api_error error;
    uint32_t at = 0;
    (void)api_error_set(&error, RESULT_NOT_FOUND, 404, "model_not_found",
                        "the model '%.100s' was removed", model->form->name);
    while (model->waits)
        waits_answer(model, &error);
    while (set->models[at] != model)
        at++;
    memmove(&set->models[at], &set->models[at + 1], (--set->count - at) * sizeof(struct model *));
    if (model->instance)
        model_instance_retire(model->instance);
    if (model->coming)
        model_instance_retire(model->coming);
    model->instance = model->coming = NULL;
    model_destroy(model);
}

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
    return result;
}

static enum result single_open(struct model_set *set, struct error_text *error)
{
    struct model *model = model_set_add(set, model_form_create_first(set->config.options));
    return instance_create(model, error);
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

void model_set_drain(struct model_set *set)
{
    struct api_error error;
    set->draining = true;
    for (uint32_t i = 0; i < set->count; i++) {
        struct model *model = set->models[i];
        (void)refuse(&error, 5, "shutting_down",
                     "the server is shutting down; '%.100s' is not loaded", model);
        waits_answer(model, &error);
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
