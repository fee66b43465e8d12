/*
 * Replaces models whose files or settings changed, without losing a request.
 *
 * A change makes a form (model_form.h), which becomes the model's next_form. on_work() then loads an
 * instance of it beside the one that serves, and exchanges the two once the new one is ready: requests
 * from then on go to it, and the old one ends with its last request. If the new one cannot be loaded,
 * the old one stays. If there is no room for both (--models-memory, --models-loaded), the old one is
 * unloaded when it has no requests, and those that arrive meanwhile wait.
 *
 * Changes are found by SIGHUP, which reads everything again, and by the engine's watch of its files,
 * once they have been the same for two looks in a row: a file that is being copied is not opened.
 */
#include "frontend/serve/models/model_reload.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/models/model_instance.h"
#include "frontend/serve/models/model_loading.h"
#include "frontend/serve/models/model_set_state.h"
#include "proto/log.h"
#include "proto/must.h"

#define WATCH_EVERY_S 2

static void change_log(enum log_level level, const struct model *model, const char *event,
                       const char *reason)
{
    const struct log_field fields[] = {LOG_TEXT("model", model->form->name),
                                       LOG_TEXT("reason", reason)};
    log_event(level, event, fields, reason ? 2 : 1);
}

/* Remembers that these files, or this error, were seen, so that only SIGHUP tries them again. */
static void refused_set(struct model *model, const char *text)
{
    free(model->refused);
    model->refused = must_strdup(text);
}

static void next_form_drop(struct model *model)
{
    model_form_release(model->next_form);
    model->next_form = NULL;
    if (model->coming)
        model_instance_retire(model->coming);
    model->coming = NULL;
}

/* Takes over `form`. */
static void propose(struct model *model, struct model_form *form)
{
    if (model_form_equal(form, model->next_form ? model->next_form : model->form)) {
        struct model_place *place = &model->form->place;
        place->pinned = form->place.pinned;
        model_form_release(form);
        return;
    }
    next_form_drop(model);
    if (model_form_equal(form, model->form)) {
        model_form_release(form);
        return;
    }
    model->next_form = form;
    change_log(LOG_INFO, model, "model_changed", NULL);
    model_set_work_soon(model->set, 0);
}

/* --- the exchange ---------------------------------------------------------------------------- */

static void replacement_failed(struct model *model, const char *why)
{
    change_log(LOG_ERROR, model, "model_reload_failed", why);
    refused_set(model, model->next_form->fingerprint);
    model_form_release(model->next_form);
    model->next_form = NULL;
}

static void form_take(struct model *model)
{
    model_form_release(model->form);
    model->form = model->next_form;
    model->next_form = NULL;
}

static void instance_exchange(struct model *model)
{
    struct model_instance *old = model->instance;
    model->instance = model->coming;
    model->coming = NULL;
    form_take(model);
    change_log(LOG_INFO, model, "model_reloaded", NULL);
    model_instance_retire(old);
}

static void replacement_begin(struct model *model)
{
    struct model_set *set = model->set;
    struct error_text error;
    if (!model_set_has_room(set, model->next_form)) {
        if (!model_is_busy(model)) {
            model->wanted = true;
            model_end(model);
        }
        return;
    }
    if (model_instance_create(model, model->next_form, set->config.state_directory, &model->coming,
                              &error) != RESULT_OK)
        replacement_failed(model, error.text);
}

void model_reload_step(struct model *model)
{
    struct model_set *set = model->set;
    if (set->draining || !model->next_form)
        return;
    if (!model->instance && !model->failing) {
        form_take(model);
        model->failed_ms = 0;
    } else if (model->coming && model->coming->failed) {
        replacement_failed(model, model->coming->failure.text);
        model_instance_destroy(model->coming);
        model->coming = NULL;
    } else if (model->coming && model->coming->ready) {
        instance_exchange(model);
    } else if (!model->coming && model->state == MODEL_READY &&
               set->retired_count < LIMIT_RETIRED_INSTANCES) {
        replacement_begin(model);
    }
}

/* --- changes --------------------------------------------------------------------------------- */

/* Removes the form of this name from the list; NULL: there is none. */
static struct model_form *form_pick(struct model_form **forms, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        struct model_form *form = forms[i];
        if (form && strcmp(form->name, name) == 0) {
            forms[i] = NULL;
            return form;
        }
    }
    return NULL;
}

static int by_name(const void *one, const void *other)
{
    const struct model *const *a = one, *const *b = other;
    return strcmp((*a)->form->name, (*b)->form->name);
}

static void directory_reload(struct model_set *set)
{
    struct model_form *forms[LIMIT_MODELS];
    struct error_text error;
    uint32_t count;
    if (model_forms_read(set->config.options, forms, &count, &error) != RESULT_OK) {
        log_error("the models stay as they were: %s", error.text);
        return;
    }
    if (count == 0 && set->count > 0) { /* a volume that is not mounted looks like this */
        log_error("the models stay as they were: --models-dir %.200s: there is no model in it",
                  set->config.options->models_dir);
        return;
    }
    for (uint32_t i = set->count; i-- > 0;) {
        struct model *model = set->models[i];
        struct model_form *form = form_pick(forms, count, model->form->name);
        if (form) {
            propose(model, form);
            continue;
        }
        change_log(LOG_INFO, model, "model_removed", NULL);
        model_set_remove(set, model);
    }
    for (uint32_t i = 0; i < count; i++)
        if (forms[i])
            change_log(LOG_INFO, model_set_add(set, forms[i]), "model_added", NULL);
    qsort(set->models, set->count, sizeof(struct model *), by_name);
    model_set_work_soon(set, 0);
}

void model_set_reload(struct model_set *set)
{
    struct error_text error;
    struct model_form *form;
    if (set->draining)
        return;
    if (set->directory) {
        directory_reload(set);
        return;
    }
    if (model_form_create(set->config.options, NULL, &form, &error) == RESULT_OK)
        propose(set->models[0], form);
    else
        log_error("the model stays as it was: %s", error.text);
}

/* A new form of one model of the directory. */
static enum result form_read(const struct model *model, struct model_form **form,
                             struct error_text *error)
{
    struct model_form *forms[LIMIT_MODELS];
    uint32_t count;
    const struct options *options = model->set->config.options;
    if (!model->set->directory)
        return model_form_create(options, NULL, form, error);
    enum result result = model_forms_read(options, forms, &count, error);
    if (result != RESULT_OK)
        return result;
    *form = form_pick(forms, count, model->form->name);
    for (uint32_t i = 0; i < count; i++)
        model_form_release(forms[i]);
    return *form ? RESULT_OK : error_set(error, RESULT_NOT_FOUND, "it is not there any more");
}

static void model_look(struct model *model)
{
    struct error_text error;
    struct model_form *form;
    if (model->state != MODEL_READY || model->next_form ||
        !engine_status_change_settled(model->instance->engine))
        return;
    if (form_read(model, &form, &error) != RESULT_OK) {
        if (!model->refused || strcmp(model->refused, error.text) != 0)
            change_log(LOG_ERROR, model, "model_reload_failed", error.text);
        refused_set(model, error.text);
        return;
    }
    if (model->refused && strcmp(model->refused, form->fingerprint) == 0)
        model_form_release(form);
    else
        propose(model, form);
}

static void on_watch(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct model_set *set = context;
    for (uint32_t i = 0; i < set->count && !set->draining; i++)
        model_look(set->models[i]);
}

void model_reload_start(struct model_set *set)
{
    const struct options *options = set->config.options;
    if (options->no_reload || options->ignore_weight_changes)
        return;
    set->watch = event_new(set->config.base, -1, EV_PERSIST, on_watch, set);
    must(set->watch && event_add(set->watch, &(struct timeval){.tv_sec = WATCH_EVERY_S}) == 0);
}
