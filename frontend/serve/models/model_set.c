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
#include "frontend/serve/models/model_folder.h"
#include "frontend/serve/models/model_policy.h"
#include "frontend/serve/settings/model_files.h"
#include "frontend/serve/settings/option_parser.h"
#include "proto/log.h"
#include "proto/must.h"

#define MODEL_RETRY_MS 10000
#define LOOK_MS        500 /* between looks at waits and idle models */
#define NO_MODEL       UINT32_MAX

struct model {
    struct model_set *set;
    const char *name;
    const struct model_place *place; /* NULL with --model */
    const struct options *options;
    struct options own_options;
    struct model_files files;
    struct option_setting *settings;
    struct chat_engine *engine;
    enum model_state state;
    bool wanted; /* load it although no request waits */
    bool ended;  /* the engine can be destroyed once it has no users */
    uint32_t uses;
    uint32_t waiting;
    struct model_wait *waits, **last;
    int64_t used_ms, failed_ms;
    struct error_text failure;
};

struct model_set {
    struct model_set_config config;
    struct model_folder folder; /* empty with --model */
    struct model *models;
    uint32_t count;
    uint32_t waiting; /* of all models */
    struct event *work;
    bool ready_told; /* of a directory, which takes requests at once */
    bool draining;
    bool drained_told;
};

static void work_soon(struct model_set *set, int64_t after_ms)
{
    event_add(set->work, &(struct timeval){.tv_sec = after_ms / 1000,
                                           .tv_usec = (suseconds_t)(after_ms % 1000) * 1000});
}

/* --- an engine's callbacks ------------------------------------------------------------------- */

static void on_ready(void *context)
{
    struct model *model = context;
    struct model_set *set = model->set;
    if (model->state == MODEL_LOADING)
        model->state = MODEL_READY;
    if (!model->place)
        set->config.ready(set->config.context);
    work_soon(set, 0);
}

static void on_failed(void *context, const char *why)
{
    struct model *model = context;
    struct model_set *set = model->set;
    if (!model->place) {
        set->config.failed(set->config.context, why);
        return;
    }
    const struct log_field fields[] = {LOG_TEXT("model", model->name), LOG_TEXT("reason", why)};
    log_event(LOG_ERROR, "model_failed", fields, sizeof fields / sizeof fields[0]);
    (void)error_set(&model->failure, RESULT_IO, "%s", why);
    model->failed_ms = monotonic_clock_ms();
    model->state = MODEL_FAILED;
    model->ended = true;
    work_soon(set, 0);
}

static void on_drained(void *context)
{
    struct model *model = context;
    model->ended = true;
    work_soon(model->set, 0);
}

/* --- loading and unloading ------------------------------------------------------------------- */

static void state_log(const struct model *model, const char *event)
{
    const struct log_field fields[] = {LOG_TEXT("model", model->name),
                                       LOG_WHOLE("bytes", model_bytes(model))};
    log_event(LOG_INFO, event, fields, sizeof fields / sizeof fields[0]);
}

static enum result engine_create(struct model *model, struct error_text *error)
{
    const struct model_set *set = model->set;
    const struct chat_engine_config config = {
        .base = set->config.base,
        .options = model->options,
        /* The files of one model's prefix caches have no model in their names. */
        .state_directory = model->place ? -1 : set->config.state_directory,
        .key = set->config.key,
        .context = model,
        .ready = on_ready,
        .failed = on_failed,
        .drained = on_drained};
    model->wanted = false;
    model->ended = false;
    model->failure.text[0] = '\0';
    model->state = MODEL_LOADING;
    return chat_engine_create(&config, &model->engine, error);
}

static void model_begin(struct model *model)
{
    struct error_text error;
    state_log(model, "model_loading");
    if (engine_create(model, &error) != RESULT_OK) {
        model->engine = NULL;
        on_failed(model, error.text);
    }
}

static void model_end(struct model *model)
{
    state_log(model, "model_unloading");
    model->state = MODEL_UNLOADING;
    chat_engine_drain(model->engine);
}

static bool is_busy(const struct model *model)
{
    return model->uses > 0 || model->waiting > 0 || model->state == MODEL_LOADING;
}

static enum model_verdict decide(const struct model_set *set, const struct model *model,
                                 uint32_t *victim)
{
    const struct options *options = set->config.options;
    const struct model_policy_limits limits = {.bytes = options->models_memory_bytes,
                                               .models = (uint32_t)options->models_loaded};
    struct model_policy_model known[LIMIT_MODELS];
    for (uint32_t i = 0; i < set->count; i++) {
        const struct model *at = &set->models[i];
        known[i] = (struct model_policy_model){
            .bytes = model_bytes(at),
            .in_memory = at->engine != NULL,
            .leaving = at->engine && at->state != MODEL_LOADING && at->state != MODEL_READY,
            .busy = is_busy(at),
            .pinned = at->place && at->place->pinned,
            .used_ms = at->used_ms};
    }
    return model_policy_decide(known, set->count, (uint32_t)(model - set->models), &limits, victim);
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
    (void)api_error_set(error, RESULT_FULL, 503, code, words, model->name);
    error->retry_after_s = retry_after_s;
    return MODEL_IS_REFUSED;
}

static void refuse_failed(const struct model *model, struct api_error *error)
{
    (void)api_error_set(error, RESULT_IO, 503, "model_failed",
                        "the model '%.100s' cannot be loaded: %.300s", model->name,
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

/* Destroys an engine that ended. Its users are told first; those that inspect end by themselves. */
static void engine_end(struct model *model)
{
    struct api_error error;
    refuse_failed(model, &error);
    if (model->state == MODEL_FAILED) {
        waits_answer(model, &error);
        if (model->engine)
            chat_engine_fail_all(model->engine, &error);
    }
    if (model->uses > 0)
        return;
    chat_engine_destroy(model->engine);
    model->engine = NULL;
    model->ended = false;
    if (model->state != MODEL_FAILED) { /* UNLOADING, or any other state when the server drains */
        model->state = MODEL_UNLOADED;
        state_log(model, "model_unloaded");
    }
}

static void load_if_wanted(struct model_set *set, struct model *model)
{
    uint32_t victim = NO_MODEL;
    struct api_error error;
    if (model->engine || model->ended || (!model->wanted && model->waiting == 0))
        return;
    switch (decide(set, model, &victim)) {
    case MODEL_LOAD: model_begin(model); return;
    case MODEL_UNLOAD: model_end(&set->models[victim]); return;
    case MODEL_WAIT: return;
    case MODEL_TOO_LARGE: break;
    }
    model->wanted = false;
    (void)refuse(&error, 60, "model_too_large",
                 "the model '%.100s' does not fit into --models-memory beside pinned models",
                 model);
    waits_answer(model, &error);
}

static void idle_unload(struct model *model, int64_t now_ms)
{
    uint64_t idle_s = model->set->config.options->models_idle_s;
    if (idle_s > 0 && model->state == MODEL_READY && !is_busy(model) && !model->place->pinned &&
        now_ms - model->used_ms >= (int64_t)idle_s * 1000)
        model_end(model);
}

static bool any_engine(const struct model_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->models[i].engine && !(set->models[i].ended && !set->models[i].place))
            return true;
    return false;
}

static void on_work(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct model_set *set = context;
    int64_t now_ms = monotonic_clock_ms();
    if (model_set_is_directory(set) && !set->ready_told) {
        set->ready_told = true;
        set->config.ready(set->config.context);
    }
    for (uint32_t i = 0; i < set->count; i++) {
        struct model *model = &set->models[i];
        if (model->place && model->ended)
            engine_end(model);
        if (model->place && model->state == MODEL_READY)
            waits_answer(model, NULL);
        waits_expire(model, now_ms);
        if (model->place)
            idle_unload(model, now_ms);
    }
    for (uint32_t i = 0; i < set->count && !set->draining; i++)
        load_if_wanted(set, &set->models[i]);
    if (set->draining && !any_engine(set) && !set->drained_told) {
        set->drained_told = true;
        set->config.drained(set->config.context);
    }
    bool looks = set->waiting > 0 || (set->config.options->models_idle_s > 0 && any_engine(set));
    for (uint32_t i = 0; i < set->count; i++)
        looks |= set->models[i].ended && set->models[i].uses > 0;
    if (looks && !set->drained_told)
        work_soon(set, LOOK_MS);
}

/* --- from requests --------------------------------------------------------------------------- */

enum model_readiness model_await(struct model *model, struct model_wait *wait,
                                 struct api_error *error)
{
    struct model_set *set = model->set;
    int64_t now_ms = monotonic_clock_ms();
    wait->model = NULL;
    if (!model->place || model->state == MODEL_READY)
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
    work_soon(set, 0);
    return MODEL_IS_AWAITED;
}

void model_wait_cancel(struct model_wait *wait)
{
    if (wait->model)
        wait_unlink(wait);
}

void model_use(struct model *model)
{
    model->uses++;
    model->used_ms = monotonic_clock_ms();
}

void model_release(struct model *model)
{
    must(model->uses > 0);
    model->uses--;
    model->used_ms = monotonic_clock_ms();
    if (model->uses == 0 && model->place)
        work_soon(model->set, 0);
}

enum result model_load(struct model *model, struct api_error *error)
{
    if (model->set->draining)
        return api_error_set(error, RESULT_FULL, 503, "shutting_down",
                             "the server is shutting down");
    if (model->state != MODEL_LOADING && model->state != MODEL_READY)
        model->wanted = true;
    work_soon(model->set, 0);
    return RESULT_OK;
}

enum result model_unload(struct model *model, struct api_error *error)
{
    model->wanted = false;
    if (is_busy(model))
        return api_error_set(error, RESULT_FULL, 409, "model_busy",
                             "the model '%.100s' has requests or is loading", model->name);
    if (model->state == MODEL_READY)
        model_end(model);
    return RESULT_OK;
}

/* --- finding --------------------------------------------------------------------------------- */

static bool has_name(const struct model *model, const char *name)
{
    const struct option_texts *names = &model->options->served_model_names;
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    const struct option_texts *adapters = &model->options->adapters; /* NAME=PATH */
    for (size_t i = 0; i < adapters->count; i++)
        if (strncmp(adapters->items[i], name, strlen(name)) == 0 &&
            adapters->items[i][strlen(name)] == '=')
            return true;
    return false;
}

struct model *model_set_find(const struct model_set *set, const char *name)
{
    static const char latest[] = ":latest"; /* Ollama's tag of a name without one */
    struct model *any = model_set_is_directory(set) ? NULL : &set->models[0];
    for (uint32_t i = 0; name && i < set->count; i++) {
        if (has_name(&set->models[i], name))
            return &set->models[i];
        if (set->models[i].options->any_model_name)
            any = &set->models[i];
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
    return set->models[0].place != NULL;
}

uint32_t model_set_count(const struct model_set *set)
{
    return set->count;
}

struct model *model_set_at(const struct model_set *set, uint32_t index)
{
    return &set->models[index];
}

const char *model_name(const struct model *model)
{
    return model->name;
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
    return model->engine;
}

const struct options *model_options(const struct model *model)
{
    return model->options;
}

uint64_t model_bytes(const struct model *model)
{
    return model->place ? model->place->bytes : 0;
}

int64_t model_modified_unix_s(const struct model *model)
{
    return model->place ? model->place->modified_unix_s : 0;
}

uint32_t model_waiting(const struct model *model)
{
    return model->waiting;
}

int64_t model_used_ms(const struct model *model)
{
    return model->used_ms;
}

/* --- life ------------------------------------------------------------------------------------ */

/* The options of a model in the directory. */
static enum result place_open(struct model *model, const struct model_place *place,
                              struct error_text *error)
{
    const struct options *common = model->set->config.options;
    struct error_text why;
    model->place = place;
    model->name = place->name;
    model->wanted = place->preload;
    model->options = &model->own_options;
    model->settings = must_alloc(place->setting_count + 1, sizeof model->settings[0]);
    for (uint32_t i = 0; i < place->setting_count; i++)
        model->settings[i] =
            (struct option_setting){place->settings[i].name, place->settings[i].value};
    if (options_parse_model(common, place->path, model->settings, place->setting_count,
                            &model->own_options, &why) != RESULT_OK ||
        model_files_find(OPTIONS_SERVE, &model->files, &model->own_options, &why) != RESULT_OK)
        return error_set(error, RESULT_INVALID, "shoal.ini, [%.100s]: %s", place->name, why.text);
    if (model->own_options.served_model_names.count == 0)
        model->own_options.served_model_names =
            (struct option_texts){.items = {place->name}, .count = 1};
    return RESULT_OK;
}

static enum result names_check(const struct model_set *set, struct error_text *error)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct option_texts *names = &set->models[i].options->served_model_names;
        for (size_t n = 0; n < names->count; n++)
            for (uint32_t other = 0; other < i; other++)
                if (has_name(&set->models[other], names->items[n]))
                    return error_set(error, RESULT_INVALID,
                                     "two models have the name '%.100s': '%.100s' and '%.100s'",
                                     names->items[n], set->models[other].name, set->models[i].name);
    }
    return RESULT_OK;
}

static enum result directory_open(struct model_set *set, struct error_text *error)
{
    const struct options *options = set->config.options;
    if (options->served_model_names.count > 0 || options->any_model_name)
        return error_set(error, RESULT_INVALID,
                         "with --models-dir, names belong to single models: set served-model-name "
                         "and any-model-name in shoal.ini");
    enum result result = model_folder_read(options->models_dir, &set->folder, error);
    if (result != RESULT_OK)
        return result;
    set->models = must_alloc(set->folder.count, sizeof set->models[0]);
    for (uint32_t i = 0; result == RESULT_OK && i < set->folder.count; i++) {
        struct model *model = &set->models[set->count++];
        model->set = set;
        model->last = &model->waits;
        result = place_open(model, &set->folder.models[i], error);
    }
    return result == RESULT_OK ? names_check(set, error) : result;
}

static enum result single_open(struct model_set *set, struct error_text *error)
{
    set->models = must_alloc(1, sizeof set->models[0]);
    set->count = 1;
    struct model *model = &set->models[0];
    model->set = set;
    model->name = set->config.options->model;
    model->options = set->config.options;
    model->last = &model->waits;
    return engine_create(model, error);
}

enum result model_set_create(const struct model_set_config *config, struct model_set **set,
                             struct error_text *error)
{
    struct model_set *made = must_alloc(1, sizeof *made);
    made->config = *config;
    made->work = event_new(config->base, -1, 0, on_work, made);
    must(made->work != NULL);
    bool directory = config->options->models_dir != NULL;
    enum result result = directory ? directory_open(made, error) : single_open(made, error);
    if (result != RESULT_OK) {
        model_set_destroy(made);
        return result;
    }
    if (directory)
        work_soon(made, 0);
    *set = made;
    return RESULT_OK;
}

void model_set_destroy(struct model_set *set)
{
    if (!set)
        return;
    for (uint32_t i = 0; i < set->count; i++) {
        must(set->models[i].waiting == 0);
        chat_engine_destroy(set->models[i].engine);
        free(set->models[i].settings);
    }
    event_free(set->work);
    free(set->models);
    model_folder_fini(&set->folder);
    free(set);
}

enum result model_set_check_ready(const struct model_set *set, struct api_error *error)
{
    if (!model_set_is_directory(set))
        return chat_engine_check_ready(set->models[0].engine, error);
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
        struct model *model = &set->models[i];
        (void)refuse(&error, 5, "shutting_down",
                     "the server is shutting down; '%.100s' is not loaded", model);
        waits_answer(model, &error);
        if (model->engine && model->state != MODEL_UNLOADING && model->state != MODEL_FAILED)
            chat_engine_drain(model->engine);
    }
    work_soon(set, 0);
}

void model_set_fail_all(struct model_set *set, const struct api_error *error)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->models[i].engine)
            chat_engine_fail_all(set->models[i].engine, error);
}
