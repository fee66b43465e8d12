/*
 * A Vulkan device for tests, the first one there is: the CPU driver that scripts/vulkan_env names.
 * Under `matrix` its validation layer listens, and a message of it fails the program.
 */
#ifndef SHOAL_TESTS_SUPPORT_VULKAN_FIXTURE_H
#define SHOAL_TESTS_SUPPORT_VULKAN_FIXTURE_H

#include "worker/backend/vulkan/device/vulkan_device.h"

/* cmocka's group set-up and tear-down: *state is the struct vulkan_device. */
int vulkan_fixture_setup(void **state);
int vulkan_fixture_teardown(void **state);

/* With the validation layer where it is installed; fails the test when there is no device. */
struct vulkan_device *vulkan_fixture_open(enum vulkan_tier tier_limit);
/* must() no message of the layer so far; scripts/run_tests looks for what closing brings. */
void vulkan_fixture_close(struct vulkan_device *device);

/*
 * What a program has to show on this device. The two CPU drivers of scripts/vulkan_env run the same
 * shaders and take seconds for each kernel they compile, so they share the work: PLAIN, without
 * matrix units, everything but those; MATRIX, under the validation layer, what matrix units do, and
 * of the rest enough that the layer sees each shader. Every other device: ALL. Nothing is left out
 * by both.
 */
enum vulkan_share { VULKAN_SHARE_ALL, VULKAN_SHARE_PLAIN, VULKAN_SHARE_MATRIX };
enum vulkan_share vulkan_fixture_share(const struct vulkan_device *device);

/* The device's facts with one H200's in their place, as far as policies ask: what is chosen for
 * such a device, where only choosing is tested and nothing is run. */
struct vulkan_facts vulkan_fixture_large_facts(const struct vulkan_device *device);

#endif
