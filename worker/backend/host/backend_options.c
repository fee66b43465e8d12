/*
 * Sizes that follow from a backend's options and that several modules need.
 */
#include "worker/backend/host/backend_options.h"

uint64_t backend_feature_bytes(const struct backend_options *options)
{
    if (!options->vision)
        return 0;
    return (uint64_t)options->feature_rows *
           model_vision_feature_columns(&options->vision->vision) * sizeof(float);
}
