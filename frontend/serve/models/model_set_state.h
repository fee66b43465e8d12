/*
 * State shared by the parts of the model set, private to models/, and the changes of it that they share. It is the
 * lowest of them: an engine's callback notes here what happened, and on_work() of model_set.c reacts.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_SET_STATE_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_SET_STATE_H

#include "frontend/serve/models/model_form.h"
#include "frontend/serve/models/model_set_config.h"

struct event;
struct model_wait;

/* Its life is drawn in model_instance.h. */
struct model_instance {
    struct model_set *set;
    struct model *model; /* NULL: retired */
    struct model_form *form;
    struct chat_engine *engine;
    struct model_instance *next; /* of the retired ones */
    uint32_t uses;
    bool ready;
    bool ended; /* it can be destroyed once it has no users */
    bool failed;
    struct error_text failure; /* if it failed */
};

struct model {
    struct model_set *set;
    struct model_form *form;         /* of `instance`, or of the next one to be loaded */
    struct model_form *next_form;    /* NULL, or one that is to replace `form` */
    struct model_instance *instance; /* NULL while UNLOADED; FAILED and not yet ended: not NULL */
    struct model_instance *coming;   /* NULL, or loading `next_form` beside `instance` */
    char *
        refused; /* fingerprint of a changed form that failed, or why it could not be made; or NULL */
    enum model_state state;
    bool wanted;  /* load it although no request waits */
    bool failing; /* FAILED, and the requests that waited are not answered yet */
    uint32_t waiting;
    struct model_wait *waits, **last;
    int64_t used_ms, failed_ms;
    bool kept;       /* a request said how long it stays loaded: */
    int64_t keep_ms; /* < 0: without end */
    struct error_text failure;
};

struct model_set {
    struct model_set_config config;
    bool directory;        /* --models-dir */
    struct model **models; /* [LIMIT_MODELS], sorted by name at the start */
    uint32_t count;
    struct model_instance *retired;
    uint32_t retired_count;
    uint32_t waiting; /* of all models */
    struct event *work;
    struct event *watch; /* looks for changed files; NULL: none */
    bool ready_told;     /* of a directory, which takes requests at once */
    bool draining;
    bool drained_told;
};

/* Lets on_work() run so much later. */
void model_set_work_soon(struct model_set *set, int64_t after_ms);
/* Takes over the form; `set->count` < LIMIT_MODELS. */
struct model *model_set_add(struct model_set *set, struct model_form *form);

/* Reports the state if it is another one. */
void model_note_state(struct model *model, enum model_state state);
/* Its instance admits requests. */
void model_note_ready(struct model *model);
/* Its instance cannot be loaded or failed later. */
void model_note_failed(struct model *model, const char *why);
void model_note_use(struct model *model);

/* Requests of its instance. */
uint32_t model_uses(const struct model *model);
/* It has requests, some wait for it, or it is loading. */
bool model_is_busy(const struct model *model);

#endif
