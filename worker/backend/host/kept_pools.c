/*
 * Pools one after the other, each at a multiple of the large page size.
 */
#include "worker/backend/host/kept_pools.h"

#define ALIGNMENT ((uint64_t)2 << 20)

static uint64_t place(uint64_t *end, uint64_t byte_count)
{
    uint64_t at = *end;
    *end += (byte_count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

struct kept_pools_places kept_pools_lay(const struct plan *plan, enum kv_cache_type type,
                                        const uint32_t kv_blocks[KV_GROUPS_MAX],
                                        uint32_t state_slots, uint64_t feature_bytes)
{
    struct kept_pools_places places = {.byte_count = 0};
    for (uint32_t group = 0; group < plan->kv.group_count; group++)
        places.groups[group] = place(
            &places.byte_count,
            kv_blocks[group] * kv_layout_block_bytes(&plan->kv, group, kv_cache_type_bytes(type)));
    places.state = place(&places.byte_count, state_slots * state_layout_slot_bytes(&plan->state));
    places.features = place(&places.byte_count, feature_bytes);
    return places;
}
