/*
 * Merges in an open-addressing table whose slot is one 64-bit word.
 *
 * Encoding looks up one or two pairs for every byte of text and nearly every lookup misses the
 * cache, so a slot is as small as possible: ids fit 20 bits (LIMIT_VOCAB_TOKENS), ranks 24. The
 * table is at most half full and the hash is keyed, so a crafted file cannot make probes long.
 */
#include "frontend/prompt/tokenizer/bpe_merge_table.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/prompt/tokenizer/vocabulary.h"
#include "proto/limits.h"
#include "proto/must.h"

#define ID_BITS   20
#define RANK_BITS 24
#define RANK_MASK ((1u << RANK_BITS) - 1)
#define FREE_SLOT UINT64_MAX

_Static_assert(LIMIT_VOCAB_TOKENS <= 1u << ID_BITS, "an id fits its part of a slot");
_Static_assert(LIMIT_MERGES < RANK_MASK, "a rank fits its part of a slot");

static uint64_t pair_key(uint32_t left, uint32_t right)
{
    return (uint64_t)left << ID_BITS | right;
}

static uint32_t pair_slot(const struct bpe_merge_table *table, uint64_t key)
{
    uint64_t hash = (key ^ table->seed) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93ull;
    return (uint32_t)(hash >> 32);
}

/* The slot of `key`, or the free one where it belongs. */
static uint32_t find_slot(const struct bpe_merge_table *table, uint64_t key)
{
    uint32_t slot = pair_slot(table, key) & table->slot_mask;
    while (table->slots[slot] != FREE_SLOT && table->slots[slot] >> RANK_BITS != key)
        slot = (slot + 1) & table->slot_mask;
    return slot;
}

static enum result bpe_merge_table_resize(struct bpe_merge_table *table, uint32_t capacity)
{
    uint32_t slot_count = capacity * 2;
    uint64_t *slots = malloc(slot_count * sizeof *slots);
    uint32_t *merged = realloc(table->merged, capacity * sizeof *merged);
    if (merged)
        table->merged = merged;
    if (!slots || !merged) {
        free(slots);
        return RESULT_OUT_OF_MEMORY;
    }
    memset(slots, 0xFF, slot_count * sizeof *slots);
    uint64_t *old = table->slots;
    uint32_t old_count = old ? table->slot_mask + 1 : 0;
    table->slots = slots;
    table->slot_mask = slot_count - 1;
    table->merge_capacity = capacity;
    for (uint32_t i = 0; i < old_count; i++) {
        if (old[i] != FREE_SLOT)
            slots[find_slot(table, old[i] >> RANK_BITS)] = old[i];
    }
    free(old);
    return RESULT_OK;
}

enum result bpe_merge_table_init(struct bpe_merge_table *table, uint32_t expected)
{
    *table = (struct bpe_merge_table){.seed = vocabulary_random_seed()};
    uint32_t capacity = 64;
    while (capacity < expected && capacity < LIMIT_MERGES)
        capacity *= 2;
    return bpe_merge_table_resize(table, capacity);
}

void bpe_merge_table_fini(struct bpe_merge_table *table)
{
    free(table->slots);
    free(table->merged);
    *table = (struct bpe_merge_table){0};
}

enum result bpe_merge_table_add(struct bpe_merge_table *table, uint32_t left, uint32_t right,
                                uint32_t merged)
{
    must(left < LIMIT_VOCAB_TOKENS && right < LIMIT_VOCAB_TOKENS);
    if (table->merge_count == LIMIT_MERGES)
        return RESULT_TOO_LARGE;
    if (table->merge_count == table->merge_capacity) {
        enum result result = bpe_merge_table_resize(table, table->merge_capacity * 2);
        if (result)
            return result;
    }
    uint64_t key = pair_key(left, right);
    table->slots[find_slot(table, key)] = key << RANK_BITS | table->merge_count;
    table->merged[table->merge_count++] = merged;
    return RESULT_OK;
}

uint32_t bpe_merge_table_rank(const struct bpe_merge_table *table, uint32_t left, uint32_t right)
{
    uint64_t entry = table->slots[find_slot(table, pair_key(left, right))];
    return entry == FREE_SLOT ? BPE_NO_RANK : (uint32_t)entry & RANK_MASK;
}

bool bpe_merge_table_entry(const struct bpe_merge_table *table, uint32_t slot, uint32_t *left,
                           uint32_t *right)
{
    uint64_t entry = table->slots[slot];
    if (entry == FREE_SLOT)
        return false;
    *left = (uint32_t)(entry >> (RANK_BITS + ID_BITS));
    *right = (uint32_t)(entry >> RANK_BITS) & ((1u << ID_BITS) - 1);
    return true;
}
