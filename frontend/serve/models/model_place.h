/*
 * Where a model of --models-dir is, and its settings.
 */
#ifndef SHOAL_FRONTEND_SERVE_MODELS_MODEL_PLACE_H
#define SHOAL_FRONTEND_SERVE_MODELS_MODEL_PLACE_H

#include <stdbool.h>
#include <stdint.h>

/* One line of a section. */
struct model_setting {
    char *name;
    char *value;
};

struct model_place {
    char *name;
    char *path;
    uint64_t bytes; /* of its weights' files */
    int64_t modified_unix_s;
    struct model_setting *settings; /* without preload and pinned */
    uint32_t setting_count;
    bool preload;
    bool pinned;
};

/* Frees what it holds, and makes it a zero one, which is allowed. */
void model_place_fini(struct model_place *place);

#endif
