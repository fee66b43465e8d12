/*
 * The types of the KV cache as one table: the option's value and the bytes of one element. The
 * frontend rejects other names before it starts a worker; the worker sizes its memory by the table.
 */
#include "proto/kv_cache_type.h"

#include <string.h>

#include "proto/must.h"

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = {
    [KV_CACHE_F16] = {"f16", 2},
    [KV_CACHE_F32] = {"f32", 4},
};
#define TYPE_COUNT (sizeof types / sizeof types[0])

int kv_cache_type_parse(const char *text, enum kv_cache_type *type)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(text, types[i].name) == 0) {
            *type = (enum kv_cache_type)i;
            return 0;
        }
    }
    return -1;
}

const char *kv_cache_type_name(enum kv_cache_type type)
{
    must(type < TYPE_COUNT);
    return types[type].name;
}

uint32_t kv_cache_type_bytes(enum kv_cache_type type)
{
    must(type < TYPE_COUNT);
    return types[type].bytes;
}
