/*
 * Checks an entry that the worker has copied out of the table, before any field is used.
 */
#include "proto/adapter_memory.h"

#include <string.h>

static bool lies_inside(uint64_t offset, uint64_t bytes, uint64_t memory_bytes)
{
    return offset % ADAPTER_ALIGN_BYTES == 0 && offset >= ADAPTER_TABLE_BYTES &&
           offset <= memory_bytes && bytes <= memory_bytes - offset;
}

enum result adapter_entry_check(const struct adapter_entry *entry, uint64_t memory_bytes,
                                struct error_text *error)
{
    if (entry->config_bytes > LIMIT_CONFIG_BYTES)
        return error_set(error, RESULT_CORRUPT, "A2: config_bytes %llu",
                         (unsigned long long)entry->config_bytes);
    if (entry->tensor_bytes < 1 || entry->tensor_bytes > LIMIT_ADAPTER_BYTES)
        return error_set(error, RESULT_CORRUPT, "A3: tensor_bytes %llu",
                         (unsigned long long)entry->tensor_bytes);
    bool config = entry->config_bytes > 0
                      ? lies_inside(entry->config_offset, entry->config_bytes, memory_bytes)
                      : entry->config_offset == 0;
    if (!config || !lies_inside(entry->tensor_offset, entry->tensor_bytes, memory_bytes))
        return error_set(error, RESULT_CORRUPT, "A1: offsets %llu and %llu in a memory of %llu",
                         (unsigned long long)entry->config_offset,
                         (unsigned long long)entry->tensor_offset,
                         (unsigned long long)memory_bytes);
    if (!entry->name[0] || !memchr(entry->name, '\0', sizeof entry->name))
        return error_set(error, RESULT_CORRUPT, "A4: name");
    if (entry->in_use > 1)
        return error_set(error, RESULT_CORRUPT, "A6: in_use %u", entry->in_use);
    for (size_t i = 0; i < sizeof entry->reserved / sizeof entry->reserved[0]; i++) {
        if (entry->reserved[i] != 0)
            return error_set(error, RESULT_CORRUPT, "A5: reserved word %zu is not zero", i);
    }
    return RESULT_OK;
}
