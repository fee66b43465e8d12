/*
 * Walks the trie with one terminal's automaton and keeps the results.
 *
 * A walk over the whole vocabulary takes about a millisecond where most tokens are allowed, which
 * is the rule inside strings. So tokens of plain characters (those that a JSON string has as they
 * are) are sliced by length, with a mask for each slice: where the terminal goes on with enough
 * arbitrary plain characters and cannot end within them, the slices' masks are taken and only the
 * other tokens are walked. That is proven from the state's regex (X{m,n} & ~E) T: X contains every
 * plain character, n is at least the slice's length and more than E's, which is finite, so that a
 * text can always leave E, and no text of plain characters matches T. X{m,n} and ~E may be several.
 */
#include "worker/sample/grammar_mask_cache.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "worker/sample/grammar_automaton.h"
#include "worker/sample/grammar_trie.h"

#define FIRST_ENTRIES 256u
/* Bytes of an excluded text; a name of a member */
#define LONGEST_EXCEPTION 100000u

enum { FACT_CHARACTER_KNOWN = 1, FACT_CHARACTER = 2, FACT_TAIL_KNOWN = 4, FACT_TAIL = 8 };

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
    free(cache->node_facts);
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

/* --- Slices ------------------------------------------------------------------------------------- */

static uint8_t *facts_of(struct walk *walk, uint32_t node)
{
    struct grammar_mask_cache *cache = walk->cache;
    if (node >= cache->node_fact_count) {
        uint32_t wider = cache->node_fact_count == 0 ? 1024 : cache->node_fact_count;
        while (wider <= node)
            wider *= 2;
        uint8_t *facts = realloc(cache->node_facts, wider);
        if (facts == NULL) {
            walk->failed = true;
            return NULL;
        }
        memset(facts + cache->node_fact_count, 0, wider - cache->node_fact_count);
        cache->node_facts = facts;
        cache->node_fact_count = wider;
    }
    return &cache->node_facts[node];
}

static uint32_t byte_range(struct regex_store *store, uint8_t first, uint8_t last)
{
    uint64_t words[4] = {0};
    for (uint32_t byte = first; byte <= last; byte++)
        words[byte / 64] |= 1ull << byte % 64;
    return regex_set(store, words);
}

/* One plain character, as grammar_vocabulary.c slices them. */
static uint32_t plain_character(struct regex_store *store)
{
    uint64_t ascii[4] = {0};
    for (uint32_t byte = 0x20; byte < 0x7F; byte++)
        if (byte != '"' && byte != '\\')
            ascii[byte / 64] |= 1ull << byte % 64;
    uint32_t any = byte_range(store, 0x80, 0xBF);
    uint32_t two = regex_concat(store, any, any);
    const struct {
        uint8_t first, last, next_first, next_last;
        uint32_t tail;
    } leads[] = {
        {0xC2, 0xDF, 0x80, 0xBF, REGEX_EMPTY}, {0xE0, 0xE0, 0xA0, 0xBF, any},
        {0xE1, 0xEC, 0x80, 0xBF, any},         {0xED, 0xED, 0x80, 0x9F, any},
        {0xEE, 0xEF, 0x80, 0xBF, any},         {0xF0, 0xF0, 0x90, 0xBF, two},
        {0xF1, 0xF3, 0x80, 0xBF, two},         {0xF4, 0xF4, 0x80, 0x8F, two},
    };
    uint32_t plain = regex_set(store, ascii);
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
        uint32_t next = regex_concat(
            store, byte_range(store, leads[i].next_first, leads[i].next_last), leads[i].tail);
        plain =
            regex_or(store, plain,
                     regex_concat(store, byte_range(store, leads[i].first, leads[i].last), next));
    }
    return plain;
}

/* Whether no string matches both; false also if that is not known. */
static bool is_disjoint(struct regex_store *store, uint32_t x, uint32_t y)
{
    struct regex_classes classes;
    uint32_t both = regex_and(store, x, y);
    return both != REGEX_FAILED && regex_classes_of(store, both, &classes) &&
           regex_liveness(store, both, &classes, LIMIT_GRAMMAR_EMPTY_STEPS) == REGEX_DEAD;
}

static bool is_plain_superset(struct walk *walk, uint32_t node)
{
    struct regex_store *store = &walk->automaton->store;
    uint8_t *facts = facts_of(walk, node);
    if (facts != NULL && (*facts & FACT_CHARACTER_KNOWN) == 0) {
        if (is_disjoint(store, walk->cache->plain, regex_not(store, node)))
            *facts |= FACT_CHARACTER;
        *facts |= FACT_CHARACTER_KNOWN;
    }
    return facts != NULL && (*facts & FACT_CHARACTER) != 0;
}

static bool has_no_plain_text(struct walk *walk, uint32_t node)
{
    struct regex_store *store = &walk->automaton->store;
    uint8_t *facts = facts_of(walk, node);
    if (facts != NULL && (*facts & FACT_TAIL_KNOWN) == 0) {
        uint32_t text = regex_repeat(store, walk->cache->plain, 0, REGEX_UNBOUNDED);
        if (is_disjoint(store, node, text))
            *facts |= FACT_TAIL;
        *facts |= FACT_TAIL_KNOWN;
    }
    return facts != NULL && (*facts & FACT_TAIL) != 0;
}

/* Every text of at most this many plain characters begins a text that `head`, (X{m,n} & ~E), matches
 * by plain characters alone; 0: not known. */
static uint32_t plain_length(struct walk *walk, uint32_t head)
{
    struct regex_store *store = &walk->automaton->store;
    uint32_t most = REGEX_UNBOUNDED, least = 0;
    for (bool last = false, found = false; !last; head = store->nodes[head].b) {
        last = store->nodes[head].kind != REGEX_KIND_AND;
        struct regex_node part = store->nodes[last ? head : store->nodes[head].a];
        if (part.kind == REGEX_KIND_REPEAT) {
            most = part.maximum < most ? part.maximum : most;
            least = part.minimum > least ? part.minimum : least;
            found = true;
        } else if (part.kind == REGEX_KIND_NOT &&
                   store->nodes[part.a].longest < LONGEST_EXCEPTION) {
            uint32_t beyond = store->nodes[part.a].longest + 1;
            least = beyond > least ? beyond : least;
        } else {
            return 0;
        }
        if ((last && !found) ||
            (part.kind == REGEX_KIND_REPEAT && !is_plain_superset(walk, part.a)))
            return 0;
    }
    return most >= least ? most : 0;
}

static bool make_plain(struct walk *walk)
{
    struct regex_store *store = &walk->automaton->store;
    if (walk->cache->plain == 0)
        walk->cache->plain = plain_character(store);
    if (walk->cache->plain == REGEX_FAILED) {
        walk->cache->plain = 0;
        walk->failed = true;
    }
    return !walk->failed;
}

/* Slices [0, result) are allowed after `state` and lead to no exits. */
static uint32_t proven_slices(struct walk *walk, uint32_t state)
{
    struct regex_store *store = &walk->automaton->store;
    const struct regex_node node = store->nodes[state & ~GRAMMAR_STATE_ACCEPTS];
    uint32_t slices = 0;
    if (node.kind != REGEX_KIND_CONCAT || !make_plain(walk))
        return 0;
    uint32_t length = plain_length(walk, node.a);
    while (slices < GRAMMAR_SLICES && length >= walk->vocabulary->slice_length[slices])
        slices++;
    if (slices == 0 || walk->failed || !has_no_plain_text(walk, node.b))
        return 0;
    return store->failure == REGEX_FINE ? slices : 0;
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

static void keep_tokens(struct walk *walk, struct grammar_mask_entry *entry, uint32_t slices)
{
    const struct grammar_vocabulary *vocabulary = walk->vocabulary;
    const struct grammar_mask_cache *cache = walk->cache;
    size_t words = ((size_t)vocabulary->logit_count + 31) / 32;
    entry->token_count = cache->found_token_count;
    if (slices == 0 && entry->token_count <= words) {
        entry->tokens = copy_list(walk, cache->found_tokens, entry->token_count);
        return;
    }
    entry->words = calloc(words, sizeof *entry->words);
    walk->cache->bytes += words * sizeof *entry->words;
    if (entry->words == NULL) {
        walk->failed = true;
        return;
    }
    for (uint32_t s = 0; s < slices; s++)
        for (size_t w = 0; w < words; w++)
            entry->words[w] |= vocabulary->slice_words[s][w];
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
    uint32_t slices = 0;
    cache->found_token_count = cache->found_exit_count = 0;
    if (entry->parent == GRAMMAR_CHAIN_START) {
        slices = proven_slices(walk, entry->state);
        if (slices > 0)
            walk_rest(walk, &walk->vocabulary->rest[slices - 1], entry->state);
        else
            walk_below(walk, 0, entry->state);
    } else {
        const struct grammar_mask_entry *parent = &cache->entries[entry->parent];
        for (uint32_t i = 0; i < parent->exit_count && !walk->failed; i++)
            walk_below(walk, parent->exits[i], entry->state);
    }
    if (walk->failed)
        return;
    keep_tokens(walk, entry, slices);
    keep_exits(walk, entry, entry->parent != GRAMMAR_CHAIN_START);
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
