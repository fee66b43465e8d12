/*
 * Walks the trie with one terminal's automaton and keeps the results.
 */
#include "worker/sample/grammar_mask_cache.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "worker/sample/grammar_automaton.h"
#include "worker/sample/grammar_trie.h"

#define FIRST_ENTRIES 256u

struct walk {
    struct grammar_mask_cache *cache;
    const struct grammar_vocabulary *vocabulary;
    struct grammar_automaton *automaton;
    bool failed;
};

static void drop_entries(struct grammar_mask_cache *cache)
{
    for (uint32_t i = 0; i < cache->entry_count; i++) {
        free(cache->entries[i].tokens);
        free(cache->entries[i].words);
        free(cache->entries[i].exits);
    }
    cache->entry_count = 0;
    cache->bytes = 0;
    if (cache->slots != NULL)
        memset(cache->slots, 0, ((size_t)cache->slot_mask + 1) * sizeof *cache->slots);
}

void grammar_mask_cache_fini(struct grammar_mask_cache *cache)
{
    drop_entries(cache);
    free(cache->entries);
    free(cache->slots);
    grammar_slices_fini(&cache->slices);
    free(cache->found_tokens);
    free(cache->found_exits);
}

void grammar_mask_cache_trim(struct grammar_mask_cache *cache, size_t bytes)
{
    if (cache->bytes > bytes)
        drop_entries(cache);
}

/* --- Walking ------------------------------------------------------------------------------------ */

static void found_add(struct walk *walk, uint32_t **list, uint32_t *count, uint32_t *capacity,
                      uint32_t value)
{
    if (*count == *capacity) {
        uint32_t wider = *capacity == 0 ? 1024 : *capacity * 2;
        uint32_t *grown = realloc(*list, wider * sizeof *grown);
        if (grown == NULL) {
            walk->failed = true;
            return;
        }
        *list = grown;
        *capacity = wider;
    }
    (*list)[(*count)++] = value;
}

static void found_token(struct walk *walk, uint32_t node)
{
    struct grammar_mask_cache *cache = walk->cache;
    const struct grammar_trie_node *here = &walk->vocabulary->nodes[node];
    found_add(walk, &cache->found_tokens, &cache->found_token_count, &cache->found_token_capacity,
              here->token);
    if (!here->is_shared)
        return;
    for (uint32_t token = walk->vocabulary->same_text[here->token]; token != GRAMMAR_NO_TOKEN;
         token = walk->vocabulary->same_text[token])
        found_add(walk, &cache->found_tokens, &cache->found_token_count,
                  &cache->found_token_capacity, token);
}

static void found_exit(struct walk *walk, uint32_t node)
{
    struct grammar_mask_cache *cache = walk->cache;
    found_add(walk, &cache->found_exits, &cache->found_exit_count, &cache->found_exit_capacity,
              node);
}

/* Room for `more` tokens; NULL: out of memory. */
static uint32_t *found_room(struct walk *walk, uint32_t more)
{
    struct grammar_mask_cache *cache = walk->cache;
    if (cache->found_token_capacity - cache->found_token_count < more) {
        uint32_t wider = cache->found_token_count + more;
        uint32_t *grown = realloc(cache->found_tokens, (size_t)wider * sizeof *grown);
        if (grown == NULL) {
            walk->failed = true;
            return NULL;
        }
        cache->found_tokens = grown;
        cache->found_token_capacity = wider;
    }
    return cache->found_tokens;
}

/* All tokens below `top`, the terminal being in `state` there. Most masks' time is spent here, so
 * the list of tokens has room for all nodes at first. */
static void walk_below(struct walk *walk, uint32_t top, uint32_t state)
{
    struct grammar_mask_cache *cache = walk->cache;
    const struct grammar_trie_node *nodes = walk->vocabulary->nodes;
    const uint8_t *class_of = walk->automaton->classes.class_of;
    const uint32_t end = nodes[top].end;
    uint32_t *tokens = found_room(walk, end - top), count = cache->found_token_count;
    uint32_t states[LIMIT_TOKEN_BYTES + 1];
    states[nodes[top].depth] = state;
    for (uint32_t n = top + 1; n < end && !walk->failed;) {
        const struct grammar_trie_node *node = &nodes[n];
        uint32_t next =
            grammar_automaton_next(walk->automaton, states[node->depth - 1], class_of[node->byte]);
        if (next == GRAMMAR_STATE_DEAD) {
            n = node->end;
            continue;
        }
        if (next == GRAMMAR_STATE_FAILED) {
            walk->failed = true;
            return;
        }
        states[node->depth] = next;
        if (node->is_shared) {
            cache->found_token_count = count;
            found_token(walk, n);
            tokens = found_room(walk, end - n);
            count = cache->found_token_count;
        } else if (node->token != GRAMMAR_NO_TOKEN) {
            tokens[count++] = node->token;
        }
        if ((next & GRAMMAR_STATE_ACCEPTS) != 0 && node->end > n + 1)
            found_exit(walk, n);
        n = next == GRAMMAR_STATE_LAST ? node->end : n + 1;
    }
    cache->found_token_count = count;
}

/* The same from the root, for the tokens outside the first slices. */
static void walk_rest(struct walk *walk, const struct grammar_rest *rest, uint32_t state)
{
    const struct grammar_vocabulary *vocabulary = walk->vocabulary;
    const uint8_t *class_of = walk->automaton->classes.class_of;
    uint32_t states[LIMIT_TOKEN_BYTES + 1];
    states[0] = state;
    for (uint32_t r = 0; r < rest->count && !walk->failed;) {
        const struct grammar_rest_node *node = &rest->nodes[r];
        uint32_t next =
            grammar_automaton_next(walk->automaton, states[node->depth - 1], class_of[node->byte]);
        if (next == GRAMMAR_STATE_DEAD) {
            r = node->end;
            continue;
        }
        if (next == GRAMMAR_STATE_FAILED) {
            walk->failed = true;
            return;
        }
        states[node->depth] = next;
        if (node->has_token)
            found_token(walk, node->node);
        if ((next & GRAMMAR_STATE_ACCEPTS) != 0 &&
            vocabulary->nodes[node->node].end > node->node + 1)
            found_exit(walk, node->node);
        r = next == GRAMMAR_STATE_LAST ? node->end : r + 1;
    }
}

/* --- Entries ------------------------------------------------------------------------------------ */

static uint32_t *copy_list(struct walk *walk, const uint32_t *list, uint32_t count)
{
    if (count == 0)
        return NULL;
    uint32_t *copy = malloc(count * sizeof *copy);
    if (copy == NULL)
        walk->failed = true;
    else
        memcpy(copy, list, count * sizeof *copy);
    walk->cache->bytes += count * sizeof *copy;
    return copy;
}

static void keep_tokens(struct walk *walk, struct grammar_mask_entry *entry)
{
    const struct grammar_vocabulary *vocabulary = walk->vocabulary;
    const struct grammar_mask_cache *cache = walk->cache;
    size_t words = grammar_trie_mask_words(vocabulary);
    entry->token_count = cache->found_token_count;
    if (entry->token_count <= words / 4) {
        entry->tokens = copy_list(walk, cache->found_tokens, entry->token_count);
        return;
    }
    entry->words = calloc(words, sizeof *entry->words);
    walk->cache->bytes += words * sizeof *entry->words;
    if (entry->words == NULL) {
        walk->failed = true;
        return;
    }
    for (uint32_t i = 0; i < cache->found_token_count; i++)
        entry->words[cache->found_tokens[i] / 32] |= 1u << cache->found_tokens[i] % 32;
}

static int compare_words(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Exits that several exits of the parent lead to are kept once. */
static void keep_exits(struct walk *walk, struct grammar_mask_entry *entry, bool may_repeat)
{
    uint32_t *exits = walk->cache->found_exits;
    uint32_t count = walk->cache->found_exit_count, kept = 0;
    if (may_repeat && count > 1) {
        qsort(exits, count, sizeof *exits, compare_words);
        for (uint32_t i = 0; i < count; i++)
            if (kept == 0 || exits[kept - 1] != exits[i])
                exits[kept++] = exits[i];
        count = kept;
    }
    entry->exits = copy_list(walk, exits, count);
    entry->exit_count = count;
}

static void fill_entry(struct walk *walk, struct grammar_mask_entry *entry)
{
    struct grammar_mask_cache *cache = walk->cache;
    bool is_start = entry->parent >= GRAMMAR_CHAIN_START(GRAMMAR_SLICES);
    cache->found_token_count = cache->found_exit_count = 0;
    if (entry->parent == GRAMMAR_CHAIN_START(0)) {
        walk_below(walk, 0, entry->state);
    } else if (is_start) {
        uint32_t slices = GRAMMAR_CHAIN_START(0) - entry->parent;
        walk_rest(walk, &walk->vocabulary->rest[slices - 1], entry->state);
    } else {
        const struct grammar_mask_entry *parent = &cache->entries[entry->parent];
        for (uint32_t i = 0; i < parent->exit_count && !walk->failed; i++)
            walk_below(walk, parent->exits[i], entry->state);
    }
    if (walk->failed)
        return;
    keep_tokens(walk, entry);
    keep_exits(walk, entry, !is_start);
}

static uint32_t chain_hash(uint32_t parent, uint32_t state)
{
    uint64_t hash = ((uint64_t)parent << 32 | state) * 0x9E3779B97F4A7C15ull;
    return (uint32_t)(hash >> 35);
}

static bool make_room(struct grammar_mask_cache *cache)
{
    if (cache->entry_count < cache->entry_capacity)
        return true;
    uint32_t wider = cache->entry_capacity == 0 ? FIRST_ENTRIES : cache->entry_capacity * 2;
    struct grammar_mask_entry *entries = realloc(cache->entries, wider * sizeof *entries);
    if (entries == NULL)
        return false;
    cache->entries = entries;
    uint32_t *slots = calloc(2 * (size_t)wider, sizeof *slots);
    if (slots == NULL)
        return false;
    free(cache->slots);
    cache->slots = slots;
    cache->slot_mask = 2 * wider - 1;
    cache->entry_capacity = wider;
    for (uint32_t i = 0; i < cache->entry_count; i++) {
        uint32_t at = chain_hash(entries[i].parent, entries[i].state) & cache->slot_mask;
        while (slots[at] != 0)
            at = (at + 1) & cache->slot_mask;
        slots[at] = i + 1;
    }
    return true;
}

uint32_t grammar_mask_cache_find(struct grammar_mask_cache *cache,
                                 const struct grammar_vocabulary *vocabulary,
                                 struct grammar_automaton *automaton, uint32_t parent,
                                 uint32_t state)
{
    if (!make_room(cache))
        return UINT32_MAX;
    uint32_t at = chain_hash(parent, state) & cache->slot_mask;
    for (; cache->slots[at] != 0; at = (at + 1) & cache->slot_mask) {
        const struct grammar_mask_entry *entry = &cache->entries[cache->slots[at] - 1];
        if (entry->parent == parent && entry->state == state)
            return cache->slots[at] - 1;
    }
    struct walk walk = {cache, vocabulary, automaton, false};
    struct grammar_mask_entry entry = {.parent = parent, .state = state};
    fill_entry(&walk, &entry);
    if (walk.failed) {
        free(entry.tokens);
        free(entry.words);
        free(entry.exits);
        return UINT32_MAX;
    }
    cache->bytes += 2 * sizeof entry;
    cache->entries[cache->entry_count] = entry;
    cache->slots[at] = ++cache->entry_count;
    return cache->entry_count - 1;
}
