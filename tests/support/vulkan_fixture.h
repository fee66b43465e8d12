/*
 * A Vulkan device for tests, the first one there is: the CPU driver that scripts/vulkan_env names.
 * Under `matrix` its validation layer listens, and a message of it fails the program.
 */
#ifndef SHOAL_TESTS_SUPPORT_VULKAN_FIXTURE_H
#define SHOAL_TESTS_SUPPORT_VULKAN_FIXTURE_H

#include "worker/backend/vulkan/vulkan_device.h"

/* cmocka's group set-up and tear-down: *state is the struct vulkan_device. */
int vulkan_fixture_setup(void **state);
int vulkan_fixture_teardown(void **state);

/* With the validation layer where it is installed; fails the test when there is no device. */
struct vulkan_device *vulkan_fixture_open(enum vulkan_tier tier_limit);
/* must() no message of the layer so far; scripts/run_tests looks for what closing brings. */
void vulkan_fixture_close(struct vulkan_device *device);

#endif
