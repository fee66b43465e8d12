/*
 * What a set of models is created with, and the states that it reports. Their order is drawn in model_set.h.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_SET_CONFIG_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_SET_CONFIG_H

#include "frontend/serve/engine/chat_engine.h"

struct model;

enum model_state { MODEL_UNLOADED, MODEL_LOADING, MODEL_READY, MODEL_UNLOADING, MODEL_FAILED };

struct model_set_config {
    struct event_base *base;
    const struct options *options; /* outlives the set */
    int state_directory;           /* of --state-dir, the caller's; -1: none */
    struct keyed_hash_key key;     /* as in chat_engine_config, like the next one */
    struct cache_salts tenants;
    void *context;
    void (*ready)(void *context);                   /* requests are admitted; also after restarts */
    void (*failed)(void *context, const char *why); /* --model: it can never be served */
    void (*drained)(void *context);                 /* after model_set_drain() */
    /* model_state() is another one; NULL: not told. Not called while the set is created. */
    void (*changed)(void *context, const struct model *model);
};

#endif
