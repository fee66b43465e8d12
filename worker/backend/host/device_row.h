/*
 * One device of the list that `shoal devices` prints.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_DEVICE_ROW_H
#define SHOAL_WORKER_BACKEND_HOST_DEVICE_ROW_H

#include <stdint.h>

#include "proto/device_name.h"

#define DEVICE_ROW_WORDS 256u

struct device_row {
    char device[DEVICE_NAME_BYTES]; /* for --device; "" of an unusable one */
    const char *type; /* static: cpu (a CPU driver too), discrete, integrated, virtual or other */
    char name[DEVICE_ROW_WORDS];
    char driver[DEVICE_ROW_WORDS];
    char version[16]; /* of Vulkan; "" for the CPU */
    char tier[16];
    uint64_t memory_bytes;
    char unusable[DEVICE_ROW_WORDS]; /* why; "" of a usable one */
};

#endif
