/*
 * The list of devices.
 *
 * One row is the CPU, the others are what the Vulkan drivers show. A device that cannot be used is
 * there too, with what it lacks, because that is what a person who misses it wants to know; it has
 * no number, so that the numbers are those of --device.
 *
 * Drivers' words are foreign: only printable ASCII passes, so that no terminal and no reader of
 * JSON is surprised.
 */
#include "worker/backend/device_listing.h"

#include <string.h>
#include <unistd.h>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/cpu_kernels.h"
#include "worker/backend/vulkan/vulkan_device.h"

#define ROWS_MAX  (1u + VULKAN_DEVICES_MAX)
#define GIGABYTE  1e9
#define NAME_WIDE 44

static void copy(char *to, size_t to_bytes, const char *from)
{
    snprintf(to, to_bytes, "%s", from);
}

static void describe_cpu(struct device_listing_row *row)
{
    copy(row->device, sizeof row->device, "cpu");
    snprintf(row->name, sizeof row->name, "%u processor cores", cpu_backend_usable_cpus());
    copy(row->tier, sizeof row->tier, cpu_kernels_choose(CPU_TIER_BEST)->name);
    row->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
}

static void describe_vulkan(const struct vulkan_found *found, struct device_listing_row *row)
{
    const struct vulkan_facts *facts = &found->facts;
    copy(row->name, sizeof row->name, facts->name);
    snprintf(row->driver, sizeof row->driver, "%.200s", facts->driver);
    snprintf(row->version, sizeof row->version, "%u.%u.%u",
             VK_API_VERSION_MAJOR(facts->api_version) % 100,
             VK_API_VERSION_MINOR(facts->api_version) % 1000,
             VK_API_VERSION_PATCH(facts->api_version) % 10000);
    row->memory_bytes = facts->memory_bytes;
    if (found->unusable.text[0]) {
        snprintf(row->unusable, sizeof row->unusable, "%.250s", found->unusable.text);
        return;
    }
    device_name_write((struct device_name){DEVICE_VULKAN, found->index}, row->device);
    copy(row->tier, sizeof row->tier, vulkan_tier_name(facts->tier));
}

/* --- output ---------------------------------------------------------------------------------- */

static void print_text(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
}

static void print_json(FILE *out, const char *name, const char *text)
{
    fprintf(out, ",\"%s\":", name);
    if (!text[0]) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
    }
    fputc('"', out);
}

static void write_json(const struct device_listing_row *rows, uint32_t count, FILE *out)
{
    fputs("{\"devices\":[", out);
    for (uint32_t i = 0; i < count; i++) {
        const struct device_listing_row *row = &rows[i];
        fprintf(out, "%s{\"usable\":%s", i ? "," : "", row->unusable[0] ? "false" : "true");
        print_json(out, "device", row->device);
        print_json(out, "name", row->name);
        print_json(out, "driver", row->driver);
        print_json(out, "vulkan_version", row->version);
        print_json(out, "tier", row->tier);
        print_json(out, "unusable", row->unusable);
        fprintf(out, ",\"memory_bytes\":%llu}", (unsigned long long)row->memory_bytes);
    }
    fputs("]}\n", out);
}

/* Padded to `wide`. */
static void print_cell(FILE *out, const char *text, int wide)
{
    print_text(out, text[0] ? text : "-");
    fprintf(out, "%*s", wide - (int)strlen(text[0] ? text : "-"), "");
    fputs("  ", out);
}

void device_listing_write(const struct device_listing_row *rows, uint32_t count, bool json,
                          FILE *out)
{
    if (json) {
        write_json(rows, count, out);
        return;
    }
    int wide = (int)strlen("name");
    for (uint32_t i = 0; i < count; i++)
        wide = (int)strlen(rows[i].name) > wide ? (int)strlen(rows[i].name) : wide;
    wide = wide < NAME_WIDE ? wide : NAME_WIDE;
    fprintf(out, "%-10s  %-*s  %9s  %-11s  %-8s  %s\n", "device", wide, "name", "memory", "tier",
            "Vulkan", "driver");
    for (uint32_t i = 0; i < count; i++) {
        const struct device_listing_row *row = &rows[i];
        print_cell(out, row->device, 10);
        print_cell(out, row->name, wide);
        fprintf(out, "%6.1f GB  ", (double)row->memory_bytes / GIGABYTE);
        print_cell(out, row->tier, 11);
        print_cell(out, row->version, 8);
        print_text(out, row->unusable[0] ? "not usable: " : "");
        print_text(out, row->unusable[0] ? row->unusable : row->driver[0] ? row->driver : "-");
        fputc('\n', out);
    }
}

bool device_listing_print(bool json, FILE *out)
{
    static struct vulkan_found found[VULKAN_DEVICES_MAX]; /* large, and this runs once */
    struct device_listing_row rows[ROWS_MAX];
    struct error_text error;
    uint32_t count = 0;
    memset(rows, 0, sizeof rows);
    describe_cpu(&rows[0]);
    enum result result = vulkan_device_list(found, &count, &error);
    if (result != RESULT_OK)
        fprintf(stderr, "shoal-worker: %s\n", error.text);
    for (uint32_t i = 0; i < count; i++)
        describe_vulkan(&found[i], &rows[1 + i]);
    device_listing_write(rows, 1 + count, json, out);
    return result == RESULT_OK && fflush(out) == 0;
}
