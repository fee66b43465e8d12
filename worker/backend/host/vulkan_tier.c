/*
 * Names of tiers, for logs and for a flag.
 *
 * vulkan_facts.c reads a device's tier; a flag can only lower it, so that each tier's kernels can
 * be tried on any device with a higher one. Unknown names are an error: a mistyped limit must not
 * be taken for "no limit".
 */
#include "worker/backend/host/vulkan_tier.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    const char *flag;
} tiers[] = {
    [VULKAN_SCALAR] = {"scalar", "scalar"},
    [VULKAN_DOT] = {"dot", "dot"},
    [VULKAN_KHR_MATRIX] = {"KHR matrix", "khr-matrix"},
    [VULKAN_NV_MATRIX2] = {"NV matrix 2", "nv-matrix2"},
    [VULKAN_PTX] = {"PTX", "ptx"},
};

const char *vulkan_tier_name(enum vulkan_tier tier)
{
    return tiers[tier].name;
}

int vulkan_tier_parse(const char *text, enum vulkan_tier *tier)
{
    for (size_t i = 0; i < sizeof tiers / sizeof tiers[0]; i++) {
        if (strcmp(tiers[i].flag, text) == 0) {
            *tier = (enum vulkan_tier)i;
            return 0;
        }
    }
    return -1;
}
