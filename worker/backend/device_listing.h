/*
 * What a worker can be started on, for people (a table) and programs (JSON).
 */
#ifndef SHOAL_WORKER_BACKEND_DEVICE_LISTING_H
#define SHOAL_WORKER_BACKEND_DEVICE_LISTING_H

#include <stdbool.h>
#include <stdio.h>

#include "proto/device_name.h"

#define DEVICE_LISTING_WORDS 256u

struct device_listing_row {
    char device[DEVICE_NAME_BYTES]; /* for --device; "" of an unusable one */
    const char *type; /* static: cpu (a CPU driver too), discrete, integrated, virtual or other */
    char name[DEVICE_LISTING_WORDS];
    char driver[DEVICE_LISTING_WORDS];
    char version[16]; /* of Vulkan; "" for the CPU */
    char tier[16];
    uint64_t memory_bytes;
    char unusable[DEVICE_LISTING_WORDS]; /* why; "" of a usable one */
};

/* Prints the CPU and every Vulkan device. False, with words on standard error, when the Vulkan
 * driver cannot be asked; what is known is printed all the same. */
bool device_listing_print(bool json, FILE *out);
/* The same of any rows. Bytes that are not printable ASCII become '?'. */
void device_listing_write(const struct device_listing_row *rows, uint32_t count, bool json,
                          FILE *out);

#endif
