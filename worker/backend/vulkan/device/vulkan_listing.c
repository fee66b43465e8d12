/*
 * Describes devices in text.
 *
 * An unusable device is listed with the reason. It has no name for --device, so the other devices
 * keep the numbers that the option takes.
 */
#include "worker/backend/vulkan/device/vulkan_listing.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_device.h"

static const char *type_name(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "cpu";
    default: return "other";
    }
}

static void describe(const struct vulkan_found *found, struct device_row *row)
{
    const struct vulkan_facts *facts = &found->facts;
    *row = (struct device_row){.type = type_name(facts->type), .memory_bytes = facts->memory_bytes};
    snprintf(row->name, sizeof row->name, "%s", facts->name);
    snprintf(row->driver, sizeof row->driver, "%.200s", facts->driver);
    snprintf(row->version, sizeof row->version, "%u.%u.%u",
             VK_API_VERSION_MAJOR(facts->api_version) % 100,
             VK_API_VERSION_MINOR(facts->api_version) % 1000,
             VK_API_VERSION_PATCH(facts->api_version) % 10000);
    snprintf(row->unusable, sizeof row->unusable, "%.250s", found->unusable.text);
    if (found->unusable.text[0])
        return;
    device_name_write((struct device_name){DEVICE_VULKAN, found->index}, row->device);
    snprintf(row->tier, sizeof row->tier, "%s", vulkan_tier_name(facts->tier));
}

enum result vulkan_listing_read(struct device_row rows[LIMIT_DEVICES], uint32_t *count,
                                struct error_text *error)
{
    struct vulkan_found *found = must_alloc(VULKAN_DEVICES_MAX, sizeof *found);
    enum result result = vulkan_device_list(found, count, error);
    for (uint32_t i = 0; i < *count; i++)
        describe(&found[i], &rows[i]);
    free(found);
    return result;
}
