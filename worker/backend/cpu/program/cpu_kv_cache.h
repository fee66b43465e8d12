/*
 * Where a layer's keys and values lie in its group's pool.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_KV_CACHE_H
#define SHOAL_WORKER_BACKEND_CPU_PROGRAM_CPU_KV_CACHE_H

#include "worker/backend/cpu/program/cpu_program.h"

struct kv_place {
    uint32_t group;
    uint32_t head_dim;
    bool latent; /* keys only */
    enum kv_cache_type type;
    const struct kv_codec *codec; /* NULL: elements of `type` */
    uint8_t *memory;              /* the layer's first head in physical block 0 */
    size_t block_bytes;           /* between physical blocks */
    size_t
        head_bytes; /* between heads: keys [head_dim][16], values [16][head_dim], or kv_codec.h */
    uint32_t blocks;
};

/* The cache that rows read which see more than the opening positions. */
struct kv_place cpu_kv_cache_place(const struct cpu_program *program, uint32_t layer);
/* The full-precision cache of the first `opening` positions: those are written there too, and rows
 * that see no more than these read it. *opening is 0 where there is none. */
struct kv_place cpu_kv_cache_opening(const struct cpu_program *program, uint32_t layer,
                                     uint32_t *opening);

#endif
