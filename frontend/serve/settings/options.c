/*
 * Values that follow from several options.
 */
#include "frontend/serve/settings/options.h"

#include "proto/limits.h"

#define CPU_SEQUENCES     64u  /* as the worker chooses (worker/schedule/worker_options.c) */
#define GPU_SEQUENCES_MAX 512u /* likewise */

struct media_policy options_media(const struct options *options)
{
    return (struct media_policy){.hosts = options->media_domains.items,
                                 .host_count = options->media_domains.count,
                                 .allows_private = options->media_private,
                                 .folder = options->media_path,
                                 .most_bytes = options->max_image_bytes,
                                 .fetch_timeout_s = (uint32_t)options->media_timeout_s};
}

const struct device_set *options_device(const struct options *options, uint32_t worker)
{
    return &options->devices[worker % options->device_count];
}

uint32_t options_sequences_limit(const struct options *options)
{
    uint64_t limit = CPU_SEQUENCES;
    uint64_t room = (LIMIT_LIVE_REQUESTS - options->max_queue) / options->workers;
    if (options->max_sequences > 0)
        return (uint32_t)options->max_sequences;
    for (uint32_t i = 0; i < options->device_count; i++) {
        if (device_set_kind(&options->devices[i]) != DEVICE_CPU)
            limit = GPU_SEQUENCES_MAX;
    }
    return (uint32_t)(limit < room ? limit : room);
}
