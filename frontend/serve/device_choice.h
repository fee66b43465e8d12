/*
 * --device auto: the first GPU that a worker can use, otherwise the CPU.
 */
#ifndef SHOAL_FRONTEND_SERVE_DEVICE_CHOICE_H
#define SHOAL_FRONTEND_SERVE_DEVICE_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/serve/settings/options.h"

#define DEVICE_CHOICE_NAME_BYTES 128u

/* Picks the first usable Vulkan device of type discrete, integrated or virtual in what
 * `shoal-worker --list-devices json` printed, with its product name. A CPU driver is not a GPU.
 * False: there is none, or the list cannot be read. */
bool device_choice_pick(const char *listing, size_t bytes, struct device_name *device,
                        char name[DEVICE_CHOICE_NAME_BYTES]);

/* If options->device_auto, sets options->devices and logs the choice in one line. Asks the worker
 * program only on a machine with a GPU's device node; if it fails, the CPU is chosen. */
void device_choice_resolve(struct options *options);

#endif
