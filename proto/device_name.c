/*
 * Names of devices to numbers and back. The frontend checks the command line before it starts a
 * worker; the worker checks its arguments.
 *
 * A name is valid only if it names exactly one device, a set only if it is such names with one '+'
 * between: no "best", no signs, no spaces, nothing empty.
 * The worker finds out whether the device exists.
 */
#include "proto/device_name.h"

#include <stdio.h>
#include <string.h>

#include "proto/limits.h"

static int index_parse(const char *text, uint32_t *index)
{
    uint32_t number = 0;
    if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        number = number * 10 + (uint32_t)(*text - '0');
        if (number >= LIMIT_DEVICES)
            return -1;
    }
    *index = number;
    return 0;
}

int device_name_parse(const char *text, struct device_name *device)
{
    static const char vulkan[] = "vulkan";
    const size_t vulkan_bytes = sizeof vulkan - 1;
    struct device_name parsed = {DEVICE_VULKAN, 0};
    if (strcmp(text, "cpu") == 0)
        parsed.kind = DEVICE_CPU;
    else if (strncmp(text, vulkan, vulkan_bytes) != 0)
        return -1;
    else if (text[vulkan_bytes] != '\0' &&
             (text[vulkan_bytes] != ':' || index_parse(text + vulkan_bytes + 1, &parsed.index)))
        return -1;
    *device = parsed;
    return 0;
}

void device_name_write(struct device_name device, char text[DEVICE_NAME_BYTES])
{
    if (device.kind == DEVICE_CPU)
        snprintf(text, DEVICE_NAME_BYTES, "cpu");
    else
        snprintf(text, DEVICE_NAME_BYTES, "vulkan:%u", (unsigned)device.index % LIMIT_DEVICES);
}

bool device_name_equal(struct device_name one, struct device_name other)
{
    return one.kind == other.kind && one.index == other.index;
}

int device_set_parse(const char *text, struct device_set *set)
{
    struct device_set parsed = {0};
    for (bool more = true; more;) {
        char name[DEVICE_NAME_BYTES];
        size_t bytes = strcspn(text, "+");
        if (bytes >= sizeof name || parsed.count == LIMIT_SPLIT_DEVICES)
            return -1;
        memcpy(name, text, bytes);
        name[bytes] = '\0';
        if (device_name_parse(name, &parsed.devices[parsed.count++]) != 0)
            return -1;
        more = text[bytes] == '+';
        text += bytes + more;
    }
    *set = parsed;
    return 0;
}

void device_set_write(const struct device_set *set, char text[DEVICE_SET_BYTES])
{
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < set->count && i < LIMIT_SPLIT_DEVICES; i++) {
        char name[DEVICE_NAME_BYTES];
        device_name_write(set->devices[i], name);
        length += (size_t)snprintf(text + length, DEVICE_SET_BYTES - length, "%s%s",
                                   i > 0 ? "+" : "", name);
    }
}

bool device_set_equal(const struct device_set *one, const struct device_set *other)
{
    bool equal = one->count == other->count;
    for (uint32_t i = 0; i < one->count && equal; i++)
        equal = device_name_equal(one->devices[i], other->devices[i]);
    return equal;
}

bool device_set_overlap(const struct device_set *one, const struct device_set *other)
{
    for (uint32_t i = 0; i < one->count; i++)
        for (uint32_t j = 0; j < other->count; j++)
            if (device_name_equal(one->devices[i], other->devices[j]))
                return true;
    return false;
}

enum device_kind device_set_kind(const struct device_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->devices[i].kind != DEVICE_CPU)
            return set->devices[i].kind;
    return DEVICE_CPU;
}
