/*
 * The validation layer needs a newer C library than some systems have, so only one of the two CPU
 * drivers comes with it (scripts/vulkan_env). The device is opened with the layer first; if that
 * gives RESULT_UNSUPPORTED, it is opened as a server would open it. The output says which of the
 * two it was. Messages of the layer abort, because cmocka exits with 0 even if it reports a failed
 * tear-down of a group.
 *
 * A CPU driver without the layer counts as the plain one, whose tests expect no matrix units. A
 * newer driver may have them, so the tier is limited to VULKAN_DOT there.
 */
#include "tests/support/vulkan_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/must.h"

static bool is_cpu(const struct vulkan_device *device)
{
    return device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

enum vulkan_share vulkan_fixture_share(const struct vulkan_device *device)
{
    if (!is_cpu(device))
        return VULKAN_SHARE_ALL;
    return device->messenger && device->facts.tier >= VULKAN_KHR_MATRIX ? VULKAN_SHARE_MATRIX
                                                                        : VULKAN_SHARE_PLAIN;
}

void vulkan_fixture_skip(const char *reason)
{
    print_message("  skipped: %s\n", reason);
    skip();
}

struct vulkan_facts vulkan_fixture_large_facts(const struct vulkan_device *device)
{
    struct vulkan_facts facts = device->facts;
    facts.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    facts.tier = VULKAN_NV_MATRIX2;
    facts.integer_dot = true;
    facts.matrix_khr = facts.matrix_nv2 = facts.matrix_registers = true;
    facts.compute_units = 132;
    facts.subgroup_size = 32;
    facts.max_invocations = 1024;
    facts.shared_bytes = 49152;
    facts.matrix_shape_count = 1;
    facts.matrix_shapes[0] =
        (struct vulkan_matrix_shape){.type = VULKAN_MATRIX_F16_F32, .m = 16, .n = 16, .k = 16};
    return facts;
}

struct vulkan_device *vulkan_fixture_open(enum vulkan_tier tier_limit)
{
    static const char *const shares[] = {"all of it", "all but matrix units", "matrix units"};
    struct vulkan_device_options options = {.validation = true, .tier_limit = tier_limit};
    struct vulkan_device *device = NULL;
    struct error_text error;
    enum result result = vulkan_device_open(&options, &device, &error);
    if (result == RESULT_UNSUPPORTED) {
        options.validation = false;
        result = vulkan_device_open(&options, &device, &error);
        if (result == RESULT_OK && is_cpu(device) && device->facts.tier > VULKAN_DOT) {
            vulkan_device_close(device);
            options.tier_limit = VULKAN_DOT;
            result = vulkan_device_open(&options, &device, &error);
        }
    }
    if (result != RESULT_OK)
        fail_msg("no Vulkan device: %s", error.text);
    print_message("on %s, %s, %s validation, showing %s\n", device->facts.driver,
                  vulkan_tier_name(device->facts.tier), options.validation ? "with" : "without",
                  shares[vulkan_fixture_share(device)]);
    return device;
}

void vulkan_fixture_close(struct vulkan_device *device)
{
    must(vulkan_device_messages(device) == 0);
    vulkan_device_close(device);
}

int vulkan_fixture_setup(void **state)
{
    *state = vulkan_fixture_open(VULKAN_TIER_HIGHEST);
    return 0;
}

int vulkan_fixture_teardown(void **state)
{
    vulkan_fixture_close((struct vulkan_device *)*state);
    return 0;
}
