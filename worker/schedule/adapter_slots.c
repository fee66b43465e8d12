/*
 * Entries are copied out of the memory and checked before use. The files' bytes are mapped while an
 * adapter is loaded; the backend copies what it needs.
 */
#include "worker/schedule/adapter_slots.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/adapter_memory.h"
#include "proto/log.h"
#include "worker/model/lora/lora_file.h"

#define MEGABYTE 1000000.0

/* Maps [offset, offset + bytes); *at is NULL if there is nothing to map. */
static enum result map_part(int fd, uint64_t offset, uint64_t bytes, const void **at,
                            struct error_text *error)
{
    *at = NULL;
    if (bytes == 0)
        return RESULT_OK;
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    if (mapped == MAP_FAILED)
        return error_set(error, RESULT_IO, "its memory cannot be mapped: %s", strerror(errno));
    *at = mapped;
    return RESULT_OK;
}

static void unmap_part(const void *at, uint64_t bytes)
{
    if (at)
        (void)munmap((void *)(uintptr_t)at, bytes);
}

static enum result load_files(struct adapter_slots *slots, uint32_t slot,
                              const struct adapter_entry *entry, struct error_text *error)
{
    struct lora_bytes bytes = {.config_bytes = entry->config_bytes,
                               .tensor_bytes = entry->tensor_bytes};
    struct lora_adapter adapter = {0};
    enum result result =
        map_part(slots->memory_fd, entry->config_offset, entry->config_bytes, &bytes.config, error);
    if (result == RESULT_OK)
        result = map_part(slots->memory_fd, entry->tensor_offset, entry->tensor_bytes,
                          &bytes.tensors, error);
    if (result == RESULT_OK)
        result = lora_file_open(&bytes, slots->plan, &adapter, error);
    if (result == RESULT_OK)
        result = slots->backend->interface->adapter_load(slots->backend, slot, &adapter, error);
    if (result == RESULT_OK)
        log_info("adapter %u: \"%s\", rank %u, %u weights, %.1f MB", slot + 1, entry->name,
                 adapter.rank, adapter.pair_count, (double)entry->tensor_bytes / MEGABYTE);
    lora_file_close(&adapter);
    unmap_part(bytes.config, entry->config_bytes);
    unmap_part(bytes.tensors, entry->tensor_bytes);
    return result;
}

static void drop(struct adapter_slots *slots, uint32_t slot)
{
    if (slots->loaded[slot])
        slots->backend->interface->adapter_drop(slots->backend, slot);
    slots->loaded[slot] = false;
}

static bool read_entry(const struct adapter_slots *slots, uint32_t slot,
                       struct adapter_entry *entry)
{
    ssize_t got = pread(slots->memory_fd, entry, sizeof *entry, (off_t)(slot * sizeof *entry));
    return got == (ssize_t)sizeof *entry;
}

/* `tries`: an entry that is not in use counts, too. */
static enum result read_slot(struct adapter_slots *slots, uint32_t slot, bool tries,
                             struct error_text *error)
{
    struct adapter_entry entry, later;
    struct error_text reason = {""};
    off_t memory_bytes = lseek(slots->memory_fd, 0, SEEK_END); /* fstat() is not in the sandbox */
    if (memory_bytes < 0 || !read_entry(slots, slot, &entry))
        return error_set(error, RESULT_IO, "the table of adapters cannot be read");
    bool wanted = entry.tensor_bytes > 0 && (tries || entry.in_use == 1);
    if (wanted && slots->loaded[slot] && slots->versions[slot] == entry.version)
        return RESULT_OK;
    drop(slots, slot);
    if (!wanted)
        return RESULT_OK;
    entry.name[sizeof entry.name - 1] = '\0';
    enum result result = adapter_entry_check(&entry, (uint64_t)memory_bytes, &reason);
    if (result == RESULT_OK && !slots->backend->interface->adapter_load)
        result = error_set(&reason, RESULT_UNSUPPORTED,
                           "adapters run on one device only, not on layers split over several");
    if (result == RESULT_OK)
        result = load_files(slots, slot, &entry, &reason);
    /* The frontend empties an entry before it takes the contents away. */
    if (result != RESULT_OK && read_entry(slots, slot, &later) && later.version != entry.version)
        return RESULT_OK;
    if (result != RESULT_OK)
        return error_set(error, result, "adapter %.60s: %.190s", entry.name, reason.text);
    slots->loaded[slot] = true;
    slots->versions[slot] = entry.version;
    return RESULT_OK;
}

enum result adapter_slots_load(struct adapter_slots *slots, struct error_text *error)
{
    if (slots->memory_fd < 0)
        return RESULT_OK;
    for (uint32_t slot = 0; slot < LIMIT_ADAPTERS; slot++) {
        enum result result = read_slot(slots, slot, false, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

enum result adapter_slots_read(struct adapter_slots *slots, uint32_t slot, struct error_text *error)
{
    if (slots->memory_fd < 0)
        return error_set(error, RESULT_UNSUPPORTED, "the worker has no memory of adapters");
    return read_slot(slots, slot, true, error);
}

bool adapter_slots_have(const struct adapter_slots *slots, uint32_t adapter)
{
    return adapter == 0 || (slots && adapter <= LIMIT_ADAPTERS && slots->loaded[adapter - 1]);
}
