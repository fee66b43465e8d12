/*
 * The first Vulkan device of the machine, for tests: under scripts/vulkan_env its CPU driver. Under
 * `vulkan_env matrix` the validation layer is on, and any message of it fails the program.
 */
#ifndef SHOAL_TESTS_SUPPORT_VULKAN_FIXTURE_H
#define SHOAL_TESTS_SUPPORT_VULKAN_FIXTURE_H

#include "worker/backend/vulkan/device/vulkan_device.h"

/* cmocka's group set-up and tear-down: *state is the struct vulkan_device. */
int vulkan_fixture_setup(void **state);
int vulkan_fixture_teardown(void **state);

/* With the validation layer if it is installed; fails the test if there is no device. */
struct vulkan_device *vulkan_fixture_open(enum vulkan_tier tier_limit);
/* Aborts if the layer has reported anything; scripts/run_tests finds messages that closing causes.
 */
void vulkan_fixture_close(struct vulkan_device *device);

/*
 * The part of the tests that runs on this device. The two CPU drivers of scripts/vulkan_env run the
 * same shaders and take seconds to compile each, so they divide the tests: PLAIN has no matrix
 * units and runs everything else; MATRIX, under the validation layer, runs the tests of matrix
 * units and every shader at least once. Any other device runs ALL. Each test runs on at least one
 * driver.
 */
enum vulkan_share { VULKAN_SHARE_ALL, VULKAN_SHARE_PLAIN, VULKAN_SHARE_MATRIX };
enum vulkan_share vulkan_fixture_share(const struct vulkan_device *device);

/* Ends the running test as skipped and prints `reason`, which names the missing device feature or
 * the driver that runs the test instead. */
void vulkan_fixture_skip(const char *reason);

/* The device's facts with those that policies read replaced by an H200's: for tests of choices,
 * which run nothing. */
struct vulkan_facts vulkan_fixture_large_facts(const struct vulkan_device *device);

#endif
