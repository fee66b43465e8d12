/*
 * The Vulkan devices of this machine, as rows of the list that `shoal devices` prints.
 */
#ifndef SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_LISTING_H
#define SHOAL_WORKER_BACKEND_VULKAN_DEVICE_VULKAN_LISTING_H

#include "proto/limits.h"
#include "proto/result.h"
#include "worker/backend/host/device_row.h"

/* One row for each device that a driver reports, usable or not; without a driver no row. RESULT_IO
 * or another error if the drivers cannot be queried. */
enum result vulkan_listing_read(struct device_row rows[LIMIT_DEVICES], uint32_t *count,
                                struct error_text *error) RESULT_CHECKED;

#endif
