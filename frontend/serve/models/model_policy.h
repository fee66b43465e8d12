/*
 * Which models stay loaded. A pure function over what the caller knows of them.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_POLICY_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct model_policy_model {
    uint64_t bytes; /* of its weights' files */
    bool in_memory; /* loading, ready, or being unloaded */
    bool leaving;   /* being unloaded */
    bool busy;      /* has requests, or is loading */
    bool pinned;    /* stays once loaded */
    int64_t used_ms;
};

struct model_policy_limits {
    uint64_t bytes;  /* of all models in memory together; 0: no limit */
    uint32_t models; /* in memory at once; 0: no limit */
};

enum model_verdict {
    MODEL_LOAD,     /* now: there is room */
    MODEL_UNLOAD,   /* first unload *victim, then ask again */
    MODEL_WAIT,     /* until a model is unloaded or has no more requests */
    MODEL_TOO_LARGE /* there is never room: pinned models and the limit leave too little */
};

/* Decides about loading models[wanted], which is not in memory. The victim is the idle model that
 * was used least recently; one with requests is never unloaded. */
enum model_verdict model_policy_decide(const struct model_policy_model *models, uint32_t count,
                                       uint32_t wanted, const struct model_policy_limits *limits,
                                       uint32_t *victim);

#endif
