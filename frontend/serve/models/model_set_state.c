/*
 * Changes of the state of models (contract in model_set_state.h).
 */
#include "frontend/serve/models/model_set_state.h"

#include <event2/event.h>

#include "frontend/base/monotonic_clock.h"
#include "proto/log.h"
#include "proto/must.h"

void model_set_work_soon(struct model_set *set, int64_t after_ms)
{
    event_add(set->work, &(struct timeval){.tv_sec = after_ms / 1000,
                                           .tv_usec = (suseconds_t)(after_ms % 1000) * 1000});
}

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

void model_note_state(struct model *model, enum model_state state)
{
    const struct model_set_config *config = &model->set->config;
    if (model->state == state)
        return;
    model->state = state;
    if (config->changed)
        config->changed(config->context, model);
}

void model_note_ready(struct model *model)
{
    struct model_set *set = model->set;
    if (model->state == MODEL_LOADING)
        model_note_state(model, MODEL_READY);
    if (!set->directory)
        set->config.ready(set->config.context);
}

void model_note_failed(struct model *model, const char *why)
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
    model_note_state(model, MODEL_FAILED);
    model->failing = true;
}

void model_note_use(struct model *model)
{
    model->used_ms = monotonic_clock_ms();
}

uint32_t model_uses(const struct model *model)
{
    return model->instance ? model->instance->uses : 0;
}

bool model_is_busy(const struct model *model)
{
    return model_uses(model) > 0 || model->waiting > 0 || model->coming ||
           model->state == MODEL_LOADING;
}
