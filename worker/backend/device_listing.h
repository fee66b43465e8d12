/*
 * What a worker can be started on, for people (a table) and programs (JSON).
 */
#ifndef SHOAL_WORKER_BACKEND_DEVICE_LISTING_H
#define SHOAL_WORKER_BACKEND_DEVICE_LISTING_H

#include <stdbool.h>
#include <stdio.h>

#include "worker/backend/host/device_row.h"

/* Prints the CPU and every Vulkan device. False, with words on standard error, when the Vulkan
 * driver cannot be asked; what is known is printed all the same. */
bool device_listing_print(bool json, FILE *out);
/* The same of any rows. Bytes that are not printable ASCII become '?'. */
void device_listing_write(const struct device_row *rows, uint32_t count, bool json, FILE *out);

#endif
