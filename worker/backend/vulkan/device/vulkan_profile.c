/*
 * Adds up timestamps. An entry is a kernel with a number of weight bytes, so that a layer's
 * projections, which share a kernel, are listed separately. Entries are few and found by linear
 * search; each mark of a recording has its entry and the bytes moved.
 */
#include "worker/backend/vulkan/device/vulkan_profile.h"

#include <stdlib.h>
#include <string.h>

#include "proto/log.h"
#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_push.h"

#define ENTRIES_MAX      64u
#define PEAK_READS       4u
#define PEAK_BYTES       (1ull << 30)
#define PEAK_GROUPS      4096u
#define PEAK_INVOCATIONS 256u
#define PIECE_BYTES      16u

struct profile_entry {
    const char *name;
    uint64_t weight_bytes; /* of each dispatch */
    uint64_t dispatches;
    uint64_t bytes; /* of all */
    double time_ns;
};

struct vulkan_profile {
    struct profile_entry entries[ENTRIES_MAX];
    uint32_t entry_count;
    struct {
        uint32_t entry;
        uint64_t bytes;
    } marks[VULKAN_PROFILE_MARKS];
    uint32_t mark_count;
    uint32_t steps;
    double peak_bytes_per_s;
};

void vulkan_profile_begin(struct vulkan_profile *profile, struct vulkan_commands *commands)
{
    profile->mark_count = 0;
    vulkan_commands_timestamp(commands, 0);
}

/* If the table is full, further kernels count for the last entry. */
static uint32_t entry_of(struct vulkan_profile *profile, const char *name, uint64_t weight_bytes)
{
    for (uint32_t i = 0; i < profile->entry_count; i++)
        if (profile->entries[i].weight_bytes == weight_bytes &&
            strcmp(profile->entries[i].name, name) == 0)
            return i;
    if (profile->entry_count == ENTRIES_MAX)
        return ENTRIES_MAX - 1;
    profile->entries[profile->entry_count] =
        (struct profile_entry){.name = name, .weight_bytes = weight_bytes};
    if (profile->entry_count == ENTRIES_MAX - 1)
        profile->entries[profile->entry_count] = (struct profile_entry){.name = "others"};
    return profile->entry_count++;
}

void vulkan_profile_mark(struct vulkan_profile *profile, struct vulkan_commands *commands,
                         const char *name, uint64_t weight_bytes, uint64_t other_bytes)
{
    if (profile->mark_count + 1 >= VULKAN_PROFILE_MARKS)
        return; /* a step of more dispatches is profiled in part */
    profile->marks[profile->mark_count].entry = entry_of(profile, name, weight_bytes);
    profile->marks[profile->mark_count++].bytes = weight_bytes + other_bytes;
    vulkan_commands_barrier(commands);
    vulkan_commands_timestamp(commands, profile->mark_count);
}

void vulkan_profile_add(struct vulkan_profile *profile, const struct vulkan_commands *commands)
{
    for (uint32_t i = 0; i < profile->mark_count; i++) {
        struct profile_entry *entry = &profile->entries[profile->marks[i].entry];
        entry->dispatches++;
        entry->bytes += profile->marks[i].bytes;
        entry->time_ns += vulkan_commands_elapsed_ns(commands, i, i + 1);
    }
    profile->steps++;
}

uint32_t vulkan_profile_steps(const struct vulkan_profile *profile)
{
    return profile->steps;
}

void vulkan_profile_print(struct vulkan_profile *profile, const char *what, uint32_t count)
{
    const double peak_bytes_per_s = profile->peak_bytes_per_s;
    double total_ns = 0.0;
    for (uint32_t i = 0; i < profile->entry_count; i++)
        total_ns += profile->entries[i].time_ns;
    must(count > 0);
    log_info("profile: %s, %u times, %.3f ms each on the device", what, count,
             total_ns / count * 1e-6);
    for (uint32_t i = 0; i < profile->entry_count; i++) {
        const struct profile_entry *entry = &profile->entries[i];
        if (entry->dispatches == 0)
            continue;
        double bytes = (double)entry->bytes;
        double bytes_per_s = entry->time_ns > 0 ? bytes / entry->time_ns * 1e9 : 0.0;
        log_info("profile: %-24s %8.1f times %9.2f us each %5.1f %% of the time %8.1f MB each "
                 "%5.1f %% of the bandwidth",
                 entry->name, (double)entry->dispatches / count,
                 entry->time_ns / (double)entry->dispatches * 1e-3,
                 total_ns > 0 ? entry->time_ns / total_ns * 100.0 : 0.0,
                 bytes / (double)entry->dispatches * 1e-6,
                 peak_bytes_per_s > 0 ? bytes_per_s / peak_bytes_per_s * 100.0 : 0.0);
    }
    *profile = (struct vulkan_profile){.peak_bytes_per_s = peak_bytes_per_s};
}

static enum result time_reads(struct vulkan_commands *commands, const struct vulkan_kernel *kernel,
                              const struct vulkan_buffer *memory, double *bytes_per_s,
                              struct error_text *error)
{
    const struct vulkan_read_peak_push push = {.memory = memory->address,
                                               .pieces = (uint32_t)(memory->bytes / PIECE_BYTES)};
    enum result result = vulkan_commands_begin(commands, error);
    if (result != RESULT_OK)
        return result;
    vulkan_commands_fill(commands, memory, 0, memory->bytes, 0);
    for (uint32_t i = 0; i <= PEAK_READS; i++) {
        vulkan_commands_barrier(commands);
        if (i == 1) /* the first one warms up */
            vulkan_commands_timestamp(commands, 0);
        vulkan_commands_dispatch(commands, kernel, &push, sizeof push,
                                 (struct vulkan_grid){PEAK_GROUPS, 1, 1});
    }
    vulkan_commands_timestamp(commands, 1);
    result = vulkan_commands_end(commands, error);
    if (result == RESULT_OK)
        result = vulkan_commands_run(commands, error);
    double time_ns = result == RESULT_OK ? vulkan_commands_elapsed_ns(commands, 0, 1) : 0.0;
    *bytes_per_s = time_ns > 0 ? (double)PEAK_READS * (double)memory->bytes / time_ns * 1e9 : 0.0;
    return result;
}

static enum result measure_peak(const struct vulkan_device *device, struct vulkan_kernels *kernels,
                                double *bytes_per_s, struct error_text *error)
{
    const struct vulkan_specialization constants = {.count = 1, .values = {PEAK_INVOCATIONS}};
    const struct vulkan_kernel *kernel;
    struct vulkan_buffer memory = {0};
    struct vulkan_commands *commands = NULL;
    *bytes_per_s = 0.0;
    enum result result = vulkan_kernels_get(kernels, "read_peak", &constants, &kernel, error);
    if (result == RESULT_OK)
        result = vulkan_buffer_create(device, VULKAN_DEVICE, PEAK_BYTES, "profile", &memory, error);
    if (result == RESULT_OK)
        result = vulkan_commands_create(device, VULKAN_QUEUE_COMPUTE, 2, &commands, error);
    if (result == RESULT_OK)
        result = time_reads(commands, kernel, &memory, bytes_per_s, error);
    vulkan_commands_destroy(commands);
    vulkan_buffer_destroy(device, &memory);
    return result;
}

enum result vulkan_profile_create(const struct vulkan_device *device,
                                  struct vulkan_kernels *kernels, struct vulkan_profile **created,
                                  struct error_text *error)
{
    double bytes_per_s;
    enum result result = measure_peak(device, kernels, &bytes_per_s, error);
    if (result != RESULT_OK)
        return result;
    *created = must_alloc(1, sizeof **created);
    (*created)->peak_bytes_per_s = bytes_per_s;
    return RESULT_OK;
}

void vulkan_profile_destroy(struct vulkan_profile *profile)
{
    free(profile);
}
