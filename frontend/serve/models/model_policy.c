/*
 * The policy of models in memory (contract in model_policy.h).
 */
#include "frontend/serve/models/model_policy.h"

struct use {
    uint64_t bytes;
    uint32_t models;
};

static bool has_room(struct use use, uint64_t bytes, const struct model_policy_limits *limits)
{
    return (limits->models == 0 || use.models < limits->models) &&
           (limits->bytes == 0 || (bytes <= limits->bytes && use.bytes <= limits->bytes - bytes));
}

static void use_add(struct use *use, const struct model_policy_model *model)
{
    use->bytes += model->bytes;
    use->models++;
}

enum model_verdict model_policy_decide(const struct model_policy_model *models, uint32_t count,
                                       uint32_t wanted, const struct model_policy_limits *limits,
                                       uint32_t *victim)
{
    struct use all = {0}, staying = {0}, pinned = {0};
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct model_policy_model *model = &models[i];
        if (!model->in_memory)
            continue;
        use_add(&all, model);
        if (model->leaving)
            continue;
        use_add(&staying, model);
        if (model->pinned) {
            use_add(&pinned, model);
        } else if (!model->busy && (!found || model->used_ms < models[*victim].used_ms)) {
            *victim = i;
            found = true;
        }
    }
    uint64_t bytes = models[wanted].bytes;
    if (has_room(all, bytes, limits))
        return MODEL_LOAD;
    if (!has_room(pinned, bytes, limits))
        return MODEL_TOO_LARGE;
    if (has_room(staying, bytes, limits) || !found)
        return MODEL_WAIT;
    return MODEL_UNLOAD;
}
