/*
 * The type of unquantized keys and values in the KV cache. f16 takes half the memory; f32 keeps
 * every bit that the model computed, so that results can be compared with a reference program.
 */
#ifndef SHOAL_PROTO_KV_CACHE_TYPE_H
#define SHOAL_PROTO_KV_CACHE_TYPE_H

#include <stdint.h>

enum kv_cache_type { KV_CACHE_F16 = 0, KV_CACHE_F32 };

/* Parses "f16|f32"; returns 0, or -1 and leaves *type. */
int kv_cache_type_parse(const char *text, enum kv_cache_type *type);
const char *kv_cache_type_name(enum kv_cache_type type);
/* Bytes of one key or value. */
uint32_t kv_cache_type_bytes(enum kv_cache_type type);

#endif
