/*
 * Counts tokens as they arrive, so that a step costs time in the number of distinct tokens of the
 * sequence and not in its length or the vocabulary.
 *
 * Entries are stored densely in order of first occurrence, which is what the sampler iterates over.
 * An open-addressed table of entry numbers, at most half full, finds a token's entry. Both double
 * when full, so memory follows the number of distinct tokens.
 *
 * The token that leaves a penalty's context is found in the sequence itself, one context before the
 * token that arrives. Entries are never removed: one with all counts zero costs one comparison.
 */
#include "worker/sample/token_counts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define SLOT_EMPTY    UINT32_MAX
#define FIRST_ENTRIES 64u

struct token_counts {
    uint32_t repetition_context; /* this and the next two in positions, 0 = all */
    uint32_t presence_context;
    uint32_t frequency_context;
    uint32_t first_generated;
    uint32_t followed;           /* tokens counted */
    struct token_count *entries; /* [entry_capacity] */
    uint32_t *slots;             /* [2 * entry_capacity] entry number or SLOT_EMPTY */
    uint32_t size;
    uint32_t entry_capacity; /* power of two */
};

struct token_counts *token_counts_create(const struct sampling_params *params,
                                         uint32_t first_generated)
{
    struct token_counts *counts = must_alloc(1, sizeof *counts);
    counts->repetition_context = params->repetition_context;
    counts->presence_context = params->presence_context;
    counts->frequency_context = params->frequency_context;
    counts->first_generated = first_generated;
    return counts;
}

void token_counts_destroy(struct token_counts *counts)
{
    if (!counts)
        return;
    free(counts->entries);
    free(counts->slots);
    free(counts);
}

/* The slot of `token`, or the empty slot where it belongs. */
static uint32_t slot_find(const struct token_counts *counts, uint32_t token)
{
    uint32_t mask = 2 * counts->entry_capacity - 1;
    uint32_t slot = (token * 0x9E3779B1u) >> 7 & mask;
    while (counts->slots[slot] != SLOT_EMPTY && counts->entries[counts->slots[slot]].token != token)
        slot = (slot + 1) & mask;
    return slot;
}

static enum result grow(struct token_counts *counts)
{
    uint32_t capacity = counts->entry_capacity ? 2 * counts->entry_capacity : FIRST_ENTRIES;
    struct token_count *entries = realloc(counts->entries, capacity * sizeof *entries);
    if (!entries)
        return RESULT_OUT_OF_MEMORY;
    counts->entries = entries;
    uint32_t *slots = malloc((size_t)2 * capacity * sizeof *slots);
    if (!slots)
        return RESULT_OUT_OF_MEMORY;
    free(counts->slots);
    memset(slots, 0xff, (size_t)2 * capacity * sizeof *slots);
    counts->slots = slots;
    counts->entry_capacity = capacity;
    for (uint32_t i = 0; i < counts->size; i++)
        counts->slots[slot_find(counts, entries[i].token)] = i;
    return RESULT_OK;
}

/* The entry of `token`, added if it is new; NULL if out of memory. */
static struct token_count *entry_of(struct token_counts *counts, uint32_t token)
{
    if (counts->size == counts->entry_capacity && grow(counts) != RESULT_OK)
        return NULL;
    uint32_t slot = slot_find(counts, token);
    if (counts->slots[slot] == SLOT_EMPTY) {
        counts->slots[slot] = counts->size;
        counts->entries[counts->size++] = (struct token_count){.token = token};
    }
    return &counts->entries[counts->slots[slot]];
}

/* The entry of the token that leaves a context of `context` positions when the one at `position`
 * arrives, or NULL. With `is_generated` only generated tokens count. */
static struct token_count *find_leaving(struct token_counts *counts, const uint32_t *tokens,
                                        uint32_t position, uint32_t context, bool is_generated)
{
    if (context == 0 || position < context)
        return NULL;
    uint32_t at = position - context;
    if (is_generated && at < counts->first_generated)
        return NULL;
    return &counts->entries[counts->slots[slot_find(counts, tokens[at])]];
}

enum result token_counts_follow(struct token_counts *counts, const uint32_t *tokens, uint32_t known)
{
    for (; counts->followed < known; counts->followed++) {
        uint32_t at = counts->followed;
        struct token_count *entry = entry_of(counts, tokens[at]);
        if (!entry)
            return RESULT_OUT_OF_MEMORY;
        bool is_generated = at >= counts->first_generated;
        entry->repetition++;
        entry->presence += is_generated;
        entry->frequency += is_generated;
        if ((entry = find_leaving(counts, tokens, at, counts->repetition_context, false)) != NULL)
            entry->repetition--;
        if ((entry = find_leaving(counts, tokens, at, counts->presence_context, true)) != NULL)
            entry->presence--;
        if ((entry = find_leaving(counts, tokens, at, counts->frequency_context, true)) != NULL)
            entry->frequency--;
    }
    return RESULT_OK;
}

enum result token_counts_copy(struct token_counts *to, const struct token_counts *from)
{
    struct token_count *entries = to->entries;
    uint32_t *slots = to->slots;
    uint32_t capacity = to->entry_capacity;
    if (capacity != from->entry_capacity) {
        free(entries);
        free(slots);
        capacity = from->entry_capacity;
        entries = capacity > 0 ? malloc(capacity * sizeof *entries) : NULL;
        slots = capacity > 0 ? malloc((size_t)2 * capacity * sizeof *slots) : NULL;
        if (capacity > 0 && (!entries || !slots)) {
            free(entries);
            free(slots);
            *to = (struct token_counts){0};
            return RESULT_OUT_OF_MEMORY;
        }
    }
    *to = *from;
    to->entries = entries;
    to->slots = slots;
    if (capacity > 0) {
        memcpy(entries, from->entries, from->size * sizeof *entries);
        memcpy(slots, from->slots, (size_t)2 * capacity * sizeof *slots);
    }
    return RESULT_OK;
}

uint32_t token_counts_size(const struct token_counts *counts)
{
    return counts->size;
}

struct token_count token_counts_at(const struct token_counts *counts, uint32_t index)
{
    must(index < counts->size);
    return counts->entries[index];
}
