/*
 * Runs linear_register_probe and compares each lane's elements with what linear_register.comp
 * assumes. If they differ, if the device has no such units or if a call fails, the kernels that
 * need it are not used.
 */
#include "worker/backend/vulkan/device/vulkan_register_probe.h"

#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/device/vulkan_push.h"

#define LANES         32u
#define LANE_ELEMENTS 16u

static bool has_units(const struct vulkan_facts *facts)
{
    for (uint32_t i = 0; i < facts->matrix_shape_count; i++) {
        const struct vulkan_matrix_shape *shape = &facts->matrix_shapes[i];
        if (shape->type == VULKAN_MATRIX_F16_F32 && shape->m == 16 && shape->n == 8 &&
            shape->k == 16)
            return true;
    }
    return false;
}

/* Element `i` of lane `lane`: 0..7 of A [16, 16], 8..11 of B [16, 8], 12..15 of the sums [16, 8],
 * each as its place in the row-major matrix. */
static uint32_t expected_element(uint32_t lane, uint32_t i)
{
    uint32_t g = lane / 4, t = lane % 4;
    if (i < 8)
        return (g + 8 * (i / 4)) * 16 + 2 * t + 8 * (i / 2 % 2) + i % 2;
    if (i < 12)
        return (2 * t + 8 * ((i - 8) / 2) + i % 2) * 8 + g;
    return (g + 8 * ((i - 12) / 2)) * 8 + 2 * t + i % 2;
}

static enum result run_probe(const struct vulkan_kernel *kernel, struct vulkan_commands *commands,
                             const struct vulkan_buffer *elements, struct error_text *error)
{
    const struct vulkan_linear_register_probe_push push = {.elements = elements->address};
    enum result result = vulkan_commands_begin(commands, error);
    if (result != RESULT_OK)
        return result;
    vulkan_commands_dispatch(commands, kernel, &push, sizeof push, (struct vulkan_grid){1, 1, 1});
    result = vulkan_commands_end(commands, error);
    if (result == RESULT_OK)
        result = vulkan_commands_run(commands, error);
    return result;
}

bool vulkan_register_probe(const struct vulkan_device *device, struct vulkan_kernels *kernels)
{
    const struct vulkan_specialization constants = {.count = 1, .values = {LANES}};
    const struct vulkan_kernel *kernel = NULL;
    struct vulkan_commands *commands = NULL;
    struct vulkan_buffer elements = {0};
    struct error_text error;
    bool same = false;
    if (!has_units(&device->facts) || device->facts.subgroup_size != LANES ||
        !vulkan_kernels_has("linear_register_probe"))
        return false;
    enum result result =
        vulkan_kernels_get(kernels, "linear_register_probe", &constants, &kernel, &error);
    if (result == RESULT_OK)
        result =
            vulkan_buffer_create(device, VULKAN_READBACK, LANES * LANE_ELEMENTS * sizeof(uint32_t),
                                 "matrix registers", &elements, &error);
    if (result == RESULT_OK)
        result = vulkan_commands_create(device, VULKAN_QUEUE_COMPUTE, 0, &commands, &error);
    if (result == RESULT_OK)
        result = run_probe(kernel, commands, &elements, &error);
    if (result == RESULT_OK) {
        const uint32_t *found = elements.mapped;
        same = true;
        for (uint32_t i = 0; i < LANES * LANE_ELEMENTS; i++)
            same = same && found[i] == expected_element(i / LANE_ELEMENTS, i % LANE_ELEMENTS);
    }
    if (commands)
        vulkan_commands_destroy(commands);
    vulkan_buffer_destroy(device, &elements);
    return same;
}
