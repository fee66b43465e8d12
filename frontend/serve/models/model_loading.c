/*
 * Loads and unloads models (contract in model_loading.h).
 */
#include "frontend/serve/models/model_loading.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/serve/models/model_instance.h"
#include "frontend/serve/models/model_policy.h"
#include "frontend/serve/models/model_set_state.h"
#include "frontend/serve/models/model_wait.h"
#include "proto/log.h"
#include "proto/must.h"

#define NO_MODEL UINT32_MAX

static void state_log(const struct model *model, const char *event)
{
    const struct log_field fields[] = {LOG_TEXT("model", model->form->name),
                                       LOG_WHOLE("bytes", model->form->place.bytes)};
    log_event(LOG_INFO, event, fields, sizeof fields / sizeof fields[0]);
}

enum result model_instance_begin(struct model *model, struct error_text *error)
{
    const struct model_set *set = model->set;
    model->wanted = false;
    model->failure.text[0] = '\0';
    model_note_state(model, MODEL_LOADING);
    return model_instance_create(model, model->form, set->config.state_directory, &model->instance,
                                 error);
}

static void model_begin(struct model *model)
{
    struct error_text error;
    state_log(model, "model_loading");
    if (model_instance_begin(model, &error) != RESULT_OK) {
        model_note_failed(model, error.text);
        model_set_work_soon(model->set, 0);
    }
}

void model_end(struct model *model)
{
    state_log(model, "model_unloading");
    model_note_state(model, MODEL_UNLOADING);
    chat_engine_drain(model->instance->engine);
}

/* --- room ------------------------------------------------------------------------------------ */

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
            .bytes = at->form->place.bytes,
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

void model_load_if_wanted(struct model_set *set, uint32_t index)
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
    model_refuse(model, 60, "model_too_large",
                 "the model '%.100s' does not fit into --models-memory beside pinned models",
                 &error);
    model_waits_answer(model, &error);
}

/* --- ends ------------------------------------------------------------------------------------ */

void model_instance_end(struct model *model)
{
    struct api_error error;
    model_refuse_failed(model, &error);
    if (model->state == MODEL_FAILED) {
        model_waits_answer(model, &error);
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
        model_note_state(model, MODEL_UNLOADED);
        state_log(model, "model_unloaded");
    }
}

void model_destroy(struct model *model)
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
        model_waits_answer(model, &error);
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

/* --- from requests --------------------------------------------------------------------------- */

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
