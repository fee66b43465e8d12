/*
 * The name of a device: "cpu", "vulkan" (the first Vulkan device) or "vulkan:N" (`shoal devices` lists
 * them). A worker computes on one device, or splits the layers of its model over several, which are
 * named in their order with '+' between: "vulkan:0+vulkan:1".
 */
#ifndef SHOAL_PROTO_DEVICE_NAME_H
#define SHOAL_PROTO_DEVICE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

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

/* The devices of one worker; a device may be there more than once. */
struct device_set {
    uint32_t count;
    struct device_name devices[LIMIT_SPLIT_DEVICES];
};
#define DEVICE_SET_BYTES (LIMIT_SPLIT_DEVICES * DEVICE_NAME_BYTES)

/* Returns 0, or -1 and leaves *set: a part is no device, or there are more than
 * LIMIT_SPLIT_DEVICES. */
int device_set_parse(const char *text, struct device_set *set);
void device_set_write(const struct device_set *set, char text[DEVICE_SET_BYTES]);
bool device_set_equal(const struct device_set *one, const struct device_set *other);
/* Whether some device is in both. */
bool device_set_overlap(const struct device_set *one, const struct device_set *other);
/* DEVICE_CPU if all devices are CPUs. */
enum device_kind device_set_kind(const struct device_set *set);

#endif
