/*
 * Bits in shared memory, without memory ordering: the reader runs after the writer's death, when
 * all of its stores are visible. A bit can be wrong for the duration of one store; the roster only
 * makes requests suspected, so that is harmless.
 */
#include "proto/step_roster.h"

#include "proto/must.h"

void step_roster_add(struct step_roster *roster, uint32_t slot)
{
    must(slot < LIMIT_LIVE_REQUESTS);
    _Atomic uint64_t *word = &roster->words[slot / 64];
    uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);
    atomic_store_explicit(word, bits | 1ull << (slot % 64), memory_order_relaxed);
}

void step_roster_clear(struct step_roster *roster)
{
    for (uint32_t i = 0; i < STEP_ROSTER_WORDS; i++)
        atomic_store_explicit(&roster->words[i], 0, memory_order_relaxed);
}

void step_roster_read(const struct step_roster *roster, struct step_roster_copy *copy)
{
    for (uint32_t i = 0; i < STEP_ROSTER_WORDS; i++)
        copy->words[i] = atomic_load_explicit(&roster->words[i], memory_order_relaxed);
}

bool step_roster_copy_has(const struct step_roster_copy *copy, uint32_t slot)
{
    must(slot < LIMIT_LIVE_REQUESTS);
    return copy->words[slot / 64] >> (slot % 64) & 1;
}

bool step_roster_copy_is_empty(const struct step_roster_copy *copy)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < STEP_ROSTER_WORDS; i++)
        any |= copy->words[i];
    return any == 0;
}
