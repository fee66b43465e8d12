/*
 * The name of the device that a worker computes on: "cpu", "vulkan" (the first Vulkan device) or
 * "vulkan:N" (`shoal devices` lists them).
 */
#ifndef SHOAL_PROTO_DEVICE_NAME_H
#define SHOAL_PROTO_DEVICE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#define DEVICE_NAME_BYTES 16u /* the longest name, with its NUL, and some room */

enum device_kind { DEVICE_CPU = 0, DEVICE_VULKAN };

struct device_name {
    enum device_kind kind;
    uint32_t index; /* 0 for the CPU */
};

/* Returns 0, or -1 and leaves *device. An index is below LIMIT_DEVICES. */
int device_name_parse(const char *text, struct device_name *device);
/* "cpu" or "vulkan:N". */
void device_name_write(struct device_name device, char text[DEVICE_NAME_BYTES]);
bool device_name_equal(struct device_name one, struct device_name other);

#endif
