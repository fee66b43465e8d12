/*
 * The list of devices.
 *
 * One row is the CPU, the others are what the Vulkan drivers show (vulkan_listing.h), usable or
 * not.
 *
 * Drivers' words are foreign: only printable ASCII passes, so that no terminal and no reader of
 * JSON is surprised.
 */
#include "worker/backend/device_listing.h"

#include <string.h>
#include <unistd.h>

#include "worker/backend/cpu/kernels/cpu_kernels.h"
#include "worker/backend/host/backend.h"
#include "worker/backend/vulkan/device/vulkan_listing.h"

#define ROWS_MAX  (1u + LIMIT_DEVICES)
#define GIGABYTE  1e9
#define NAME_WIDE 44

static void describe_cpu(struct device_row *row)
{
    *row = (struct device_row){.device = "cpu",
                               .type = "cpu",
                               .memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) *
                                               (uint64_t)sysconf(_SC_PAGE_SIZE)};
    snprintf(row->name, sizeof row->name, "%u processor cores", cpu_backend_usable_cpus());
    snprintf(row->tier, sizeof row->tier, "%s", cpu_kernels_choose(CPU_TIER_BEST)->name);
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

static void write_json(const struct device_row *rows, uint32_t count, FILE *out)
{
    fputs("{\"devices\":[", out);
    for (uint32_t i = 0; i < count; i++) {
        const struct device_row *row = &rows[i];
        fprintf(out, "%s{\"usable\":%s", i ? "," : "", row->unusable[0] ? "false" : "true");
        print_json(out, "device", row->device);
        print_json(out, "type", row->type);
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

void device_listing_write(const struct device_row *rows, uint32_t count, bool json, FILE *out)
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
        const struct device_row *row = &rows[i];
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
    struct device_row rows[ROWS_MAX];
    struct error_text error;
    uint32_t count = 0;
    describe_cpu(&rows[0]);
    enum result result = vulkan_listing_read(rows + 1, &count, &error);
    if (result != RESULT_OK)
        fprintf(stderr, "shoal-worker: %s\n", error.text);
    device_listing_write(rows, 1 + count, json, out);
    return result == RESULT_OK && fflush(out) == 0;
}
