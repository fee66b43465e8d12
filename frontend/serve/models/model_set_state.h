/*
 * State shared by the parts of the model set, private to them: model_set.c (loading and unloading,
 * requests that wait), model_instance.c (engines), model_reload.c (replacement).
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_SET_STATE_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_SET_STATE_H

#include "frontend/serve/models/model_instance.h"
#include "frontend/serve/models/model_set.h"

struct event;

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

/* model_set.c */
void model_set_work_soon(struct model_set *set, int64_t after_ms);
void model_set_note_ready(struct model *model);
void model_set_note_failed(struct model *model, const char *why);
void model_set_note_use(struct model *model);
bool model_is_busy(const struct model *model);
/* Begins to unload its instance. */
void model_end(struct model *model);
/* True if a second copy of the model's weights fits beside all that is loaded. */
bool model_set_has_room(const struct model_set *set, const struct model_form *form);
/* Takes over the form; `set->count` < LIMIT_MODELS. */
struct model *model_set_add(struct model_set *set, struct model_form *form);
/* Answers its waiting requests, retires its instances and frees it. */
void model_set_remove(struct model_set *set, struct model *model);

/* model_reload.c */
void model_reload_start(struct model_set *set);
void model_reload_step(struct model *model); /* from on_work() */

#endif
