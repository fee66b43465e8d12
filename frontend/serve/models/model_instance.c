/*
 * Loads and ends instances (contract in model_instance.h).
 *
 * An engine's callbacks only note what happened and ask for on_work() of model_set.c: no engine is
 * destroyed within its own callback.
 */
#include "frontend/serve/models/model_instance.h"

#include <stdlib.h>

#include "frontend/serve/models/model_set_state.h"
#include "proto/log.h"
#include "proto/must.h"

static void on_ready(void *context)
{
    struct model_instance *instance = context;
    instance->ready = true;
    if (instance->model && instance->model->instance == instance)
        model_note_ready(instance->model);
    model_set_work_soon(instance->set, 0);
}

static void on_failed(void *context, const char *why)
{
    struct model_instance *instance = context;
    instance->failed = true;
    instance->ended = true;
    (void)error_set(&instance->failure, RESULT_IO, "%s", why);
    if (instance->model && instance->model->instance == instance)
        model_note_failed(instance->model, why);
    model_set_work_soon(instance->set, 0);
}

static void on_drained(void *context)
{
    struct model_instance *instance = context;
    instance->ended = true;
    model_set_work_soon(instance->set, 0);
}

enum result model_instance_create(struct model *model, struct model_form *form, int state_directory,
                                  struct model_instance **instance, struct error_text *error)
{
    struct model_set *set = model->set;
    struct model_instance *made = must_alloc(1, sizeof *made);
    made->set = set;
    made->model = model;
    made->form = model_form_share(form);
    *instance = made; /* before the first callback */
    const struct chat_engine_config config = {.base = set->config.base,
                                              .options = form->options,
                                              .state_directory = state_directory,
                                              .key = set->config.key,
                                              .tenants = set->config.tenants,
                                              .context = made,
                                              .ready = on_ready,
                                              .failed = on_failed,
                                              .drained = on_drained};
    enum result result = chat_engine_create(&config, &made->engine, error);
    if (result != RESULT_OK) {
        made->engine = NULL;
        *instance = NULL;
        model_instance_destroy(made);
    }
    return result;
}

void model_instance_destroy(struct model_instance *instance)
{
    if (!instance)
        return;
    chat_engine_destroy(instance->engine);
    model_form_release(instance->form);
    free(instance);
}

void model_instance_retire(struct model_instance *instance)
{
    struct model_set *set = instance->set;
    instance->model = NULL;
    instance->next = set->retired;
    set->retired = instance;
    set->retired_count++;
    if (!instance->ended)
        chat_engine_drain(instance->engine);
    model_set_work_soon(set, 0);
}

/* Its last requests cannot be computed any more. */
static void requests_fail(struct model_instance *instance)
{
    struct api_error error;
    (void)api_error_set(&error, RESULT_IO, 503, "worker_unavailable",
                        "the model was replaced, and its former workers failed: %.300s",
                        instance->failure.text);
    error.retry_after_s = 1;
    chat_engine_fail_all(instance->engine, &error);
}

bool model_instance_sweep(struct model_set *set)
{
    bool waits = false;
    for (struct model_instance **link = &set->retired; *link;) {
        struct model_instance *instance = *link;
        if (instance->failed)
            requests_fail(instance);
        waits |= instance->ended && instance->uses > 0;
        if (!instance->ended || instance->uses > 0) {
            link = &instance->next;
            continue;
        }
        *link = instance->next;
        set->retired_count--;
        log_info("a replaced instance of %s has ended", instance->form->name);
        model_instance_destroy(instance);
    }
    return waits;
}

/* --- from requests --------------------------------------------------------------------------- */

struct model_instance *model_use(struct model *model)
{
    must(model->instance != NULL);
    model->instance->uses++;
    model_note_use(model);
    return model->instance;
}

struct chat_engine *model_instance_engine(const struct model_instance *instance)
{
    return instance->engine;
}

void model_instance_keep(struct model_instance *instance, int64_t keep_ms)
{
    if (!instance->model)
        return;
    instance->model->kept = true;
    instance->model->keep_ms = keep_ms;
}

void model_instance_release(struct model_instance *instance)
{
    must(instance->uses > 0);
    instance->uses--;
    if (instance->model)
        model_note_use(instance->model);
    if (instance->uses == 0)
        model_set_work_soon(instance->set, 0);
}
