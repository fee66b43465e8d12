/*
 * Requests that wait for a model (contract in model_wait.h).
 */
#include "frontend/serve/models/model_wait.h"

#include <stdio.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/engine/engine_status.h"
#include "frontend/serve/models/model_set_state.h"

#define MODEL_RETRY_MS 10000

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

void model_waits_answer(struct model *model, const struct api_error *error)
{
    for (uint32_t left = model->waiting; left > 0 && model->waits; left--) {
        struct model_wait *wait = model->waits;
        wait_unlink(wait);
        wait->done(wait->context, error);
    }
}

void model_refuse(const struct model *model, uint32_t retry_after_s, const char *code,
                  const char *words, struct api_error *error)
{
    (void)api_error_set(error, RESULT_FULL, 503, code, words, model->form->name);
    error->retry_after_s = retry_after_s;
}

void model_refuse_failed(const struct model *model, struct api_error *error)
{
    (void)api_error_set(error, RESULT_IO, 503, "model_failed",
                        "the model '%.100s' cannot be loaded: %.300s", model->form->name,
                        model->failure.text);
    error->retry_after_s = MODEL_RETRY_MS / 1000;
}

/* The waits are in the order of their ends. */
void model_waits_expire(struct model *model, int64_t now_ms)
{
    struct api_error error;
    while (model->waits && model->waits->until_ms <= now_ms) {
        struct model_wait *wait = model->waits;
        model_refuse(model, 5, "model_loading", "the model '%.100s' is not loaded yet", &error);
        wait_unlink(wait);
        wait->done(wait->context, &error);
    }
}

enum model_readiness model_await(struct model *model, struct model_wait *wait,
                                 struct api_error *error)
{
    struct model_set *set = model->set;
    int64_t now_ms = monotonic_clock_ms();
    wait->model = NULL;
    if (!set->directory || model->state == MODEL_READY)
        return MODEL_IS_READY;
    if (set->draining) {
        model_refuse(model, 5, "shutting_down",
                     "the server is shutting down; '%.100s' is not loaded", error);
        return MODEL_IS_REFUSED;
    }
    if (model->state == MODEL_FAILED && now_ms - model->failed_ms < MODEL_RETRY_MS) {
        model_refuse_failed(model, error);
        return MODEL_IS_REFUSED;
    }
    if (set->waiting >= LIMIT_MODEL_WAITS) {
        model_refuse(model, 5, "queue_full", "too many requests wait for models like '%.100s'",
                     error);
        return MODEL_IS_REFUSED;
    }
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

void model_wait_describe(const struct model_wait *wait, char text[MODEL_WAIT_TEXT_BYTES])
{
    const struct model *model = wait->model;
    struct engine_status status;
    if (!model->instance || model->state != MODEL_LOADING) {
        snprintf(text, MODEL_WAIT_TEXT_BYTES, "waiting for room to load the model");
        return;
    }
    engine_status_read(model->instance->engine, &status);
    snprintf(text, MODEL_WAIT_TEXT_BYTES, "loading %.0f %%", 100 * status.load_progress);
}
