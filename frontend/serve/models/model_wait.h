/*
 * Requests that wait until a model is loaded: a queue for each model, in the order of arrival, with an end for each.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_WAIT_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#define MODEL_WAIT_TEXT_BYTES 48u

struct api_error;
struct model;

/* A place in the queue of a model, in the caller's memory. */
struct model_wait {
    struct model *model; /* NULL: not in a queue */
    struct model_wait *next;
    struct model_wait **link;
    int64_t until_ms;
    void *context;
    /* Called once, later: the model has an engine that admits requests, or `error` is the reply. */
    void (*done)(void *context, const struct api_error *error);
};

enum model_readiness { MODEL_IS_READY, MODEL_IS_AWAITED, MODEL_IS_REFUSED };

/* READY: use the engine now. AWAITED: `wait` is in the queue, the model is loaded as soon as there
 * is room, and `wait->done` will be called. REFUSED: *error is the reply. */
enum model_readiness model_await(struct model *model, struct model_wait *wait,
                                 struct api_error *error);
void model_wait_cancel(struct model_wait *wait);
/* Writes what the request waits for, for its client: "loading 42 %". Plain ASCII. */
void model_wait_describe(const struct model_wait *wait, char text[MODEL_WAIT_TEXT_BYTES]);

/* Private to models/. Answers all that wait; NULL: the model is loaded. A callback may queue others after them. */
void model_waits_answer(struct model *model, const struct api_error *error);
/* Answers those whose time is over. */
void model_waits_expire(struct model *model, int64_t now_ms);
/* The 503 of a model that failed. */
void model_refuse_failed(const struct model *model, struct api_error *error);
/* Another 503, for a model; `words` is a format with its name. */
void model_refuse(const struct model *model, uint32_t retry_after_s, const char *code,
                  const char *words, struct api_error *error);

#endif
