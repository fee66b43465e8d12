/*
 * Values that follow from several options.
 */
#include "frontend/serve/settings/options.h"

struct media_policy options_media(const struct options *options)
{
    return (struct media_policy){.hosts = options->media_domains.items,
                                 .host_count = options->media_domains.count,
                                 .allows_private = options->media_private,
                                 .folder = options->media_path,
                                 .most_bytes = options->max_image_bytes,
                                 .fetch_timeout_s = (uint32_t)options->media_timeout_s};
}

struct device_name options_device(const struct options *options, uint32_t worker)
{
    return options->devices[worker % options->device_count];
}
