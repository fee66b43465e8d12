/*
 * Node table and constructors of grammar_regex.h.
 *
 * Lists (alternatives, parts of a concatenation) are chains along `b`; loops follow them, and
 * recursion goes only into `a`, whose depth a node records and the constructors bound. Temporary
 * lists lie on one scratch stack of the store.
 */
#include "proto/grammar_regex.h"

#include <stdlib.h>
#include <string.h>

#include "proto/keyed_hash.h"
#include "proto/limits.h"

#define FIRST_NODES  64u
#define MOST_DERIVED 16384u /* table of recent derivatives; it grows with the nodes */
/* A node that is added costs more than one that is found: tables grow and leave the caches. */
#define NEW_NODE_STEPS 16u
#define MAX_COUNT      (1u << 30) /* sums of two counts stay below REGEX_UNBOUNDED */

static bool fail(struct regex_store *store, enum regex_failure failure)
{
    if (store->failure == REGEX_FINE)
        store->failure = failure;
    return false;
}

bool regex_spend(struct regex_store *store, uint64_t steps)
{
    if (store->failure != REGEX_FINE)
        return false;
    if (store->fuel < steps) {
        store->fuel = 0;
        return fail(store, REGEX_OUT_OF_FUEL);
    }
    store->fuel -= steps;
    return true;
}

/* Doubles an array; the bytes count against the limit. */
static void *grow(struct regex_store *store, void *array, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes - old_bytes > store->bytes_limit - store->bytes) {
        fail(store, REGEX_OUT_OF_MEMORY);
        return NULL;
    }
    void *grown = realloc(array, new_bytes);
    if (grown == NULL) {
        fail(store, REGEX_OUT_OF_MEMORY);
        return NULL;
    }
    store->bytes += new_bytes - old_bytes;
    return grown;
}

/* --- Scratch stack ------------------------------------------------------------------------------ */

bool regex_scratch_push(struct regex_store *store, uint32_t id)
{
    struct regex_scratch *scratch = &store->scratch;
    if (id == REGEX_FAILED || !regex_spend(store, 1))
        return false;
    if (scratch->count == scratch->capacity) {
        size_t wider = scratch->capacity == 0 ? FIRST_NODES : scratch->capacity * 2;
        uint32_t *ids =
            grow(store, scratch->ids, scratch->capacity * sizeof *ids, wider * sizeof *ids);
        if (ids == NULL)
            return false;
        scratch->ids = ids;
        scratch->capacity = wider;
    }
    scratch->ids[scratch->count++] = id;
    return true;
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_ids(uint32_t *ids, size_t count)
{
    if (count > 16) {
        qsort(ids, count, sizeof *ids, compare_ids);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        uint32_t id = ids[i];
        size_t at = i;
        for (; at > 0 && ids[at - 1] > id; at--)
            ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

/* --- Node table --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 29);
}

static uint32_t node_hash(const struct regex_store *store, const struct regex_node *node)
{
    uint64_t hash = mix(store->hash_key, (uint64_t)node->a << 32 | node->b);
    hash = mix(hash, (uint64_t)node->minimum << 32 | node->maximum);
    return (uint32_t)(mix(hash, node->kind ^ store->hash_key) >> 16);
}

static bool same_node(const struct regex_node *x, const struct regex_node *y)
{
    return x->kind == y->kind && x->a == y->a && x->b == y->b && x->minimum == y->minimum &&
           x->maximum == y->maximum;
}

static void slot_place(uint64_t *slots, uint32_t mask, uint64_t slot)
{
    uint32_t at = (uint32_t)(slot >> 32) & mask;
    while (slots[at] != 0)
        at = (at + 1) & mask;
    slots[at] = slot;
}

static uint64_t slot_of(const struct regex_store *store, uint32_t id)
{
    return (uint64_t)node_hash(store, &store->nodes[id]) << 32 | id;
}

/* What was kept is forgotten. */
static bool make_derived(struct regex_store *store, uint32_t count)
{
    struct regex_derived *derived = grow(store, NULL, 0, count * sizeof *derived);
    if (derived == NULL)
        return false;
    memset(derived, 0, count * sizeof *derived);
    store->bytes -= ((size_t)store->derived_mask + 1) * sizeof *derived;
    free(store->derived);
    store->derived = derived;
    store->derived_mask = count - 1;
    return true;
}

/* The table is at most half full. */
static bool make_room(struct regex_store *store)
{
    if (store->node_count < store->node_capacity)
        return true;
    uint32_t wider = store->node_capacity * 2;
    struct regex_node *nodes =
        grow(store, store->nodes, store->node_capacity * sizeof *nodes, wider * sizeof *nodes);
    if (nodes == NULL)
        return false;
    store->nodes = nodes;
    uint64_t *slots = grow(store, NULL, 0, 2u * wider * sizeof *slots);
    if (slots == NULL) {
        store->bytes -= (wider - store->node_capacity) * sizeof *nodes;
        return false;
    }
    memset(slots, 0, 2u * wider * sizeof *slots);
    store->bytes -= ((size_t)store->slot_mask + 1) * sizeof *slots;
    for (uint32_t i = 0; i <= store->slot_mask; i++)
        if (store->slots[i] != 0)
            slot_place(slots, 2 * wider - 1, store->slots[i]);
    free(store->slots);
    store->slots = slots;
    store->slot_mask = 2 * wider - 1;
    store->node_capacity = wider;
    return wider > MOST_DERIVED || make_derived(store, wider);
}

static uint32_t saturated_sum(uint32_t x, uint32_t y)
{
    return x > UINT32_MAX - y ? UINT32_MAX : x + y;
}

static uint16_t deeper(uint16_t depth)
{
    return (uint16_t)(depth + 1);
}

static uint16_t larger_depth(uint16_t x, uint16_t y)
{
    return x > y ? x : y;
}

/* Fills what follows from kind and children. */
static void node_derive(const struct regex_store *store, struct regex_node *node)
{
    const struct regex_node *a = &store->nodes[node->a], *b = &store->nodes[node->b];
    switch ((enum regex_kind)node->kind) {
    case REGEX_KIND_SET: node->shortest = node->longest = 1; return;
    case REGEX_KIND_CONCAT:
        node->nullable = a->nullable && b->nullable;
        node->is_complex = a->is_complex || b->is_complex;
        node->shortest = saturated_sum(a->shortest, b->shortest);
        node->longest = saturated_sum(a->longest, b->longest);
        node->depth = larger_depth(deeper(a->depth), b->depth);
        return;
    case REGEX_KIND_OR:
        node->nullable = a->nullable || b->nullable;
        node->is_complex = a->is_complex || b->is_complex;
        node->shortest = a->shortest < b->shortest ? a->shortest : b->shortest;
        node->longest = a->longest > b->longest ? a->longest : b->longest;
        node->depth = larger_depth(deeper(a->depth), b->depth);
        return;
    case REGEX_KIND_AND:
        node->nullable = a->nullable && b->nullable;
        node->is_complex = true;
        node->shortest = a->shortest > b->shortest ? a->shortest : b->shortest;
        node->longest = a->longest < b->longest ? a->longest : b->longest;
        node->depth = larger_depth(deeper(a->depth), b->depth);
        return;
    case REGEX_KIND_NOT:
        node->nullable = !a->nullable;
        node->is_complex = true;
        node->longest = REGEX_UNBOUNDED;
        node->depth = deeper(a->depth);
        return;
    case REGEX_KIND_REPEAT: {
        uint64_t shortest = (uint64_t)a->shortest * node->minimum;
        bool open = node->maximum == REGEX_UNBOUNDED || a->longest == REGEX_UNBOUNDED;
        uint64_t longest = open ? REGEX_UNBOUNDED : (uint64_t)a->longest * node->maximum;
        node->longest = longest > REGEX_UNBOUNDED ? REGEX_UNBOUNDED : (uint32_t)longest;
        node->nullable = node->minimum == 0 || a->nullable;
        node->is_complex = a->is_complex;
        node->shortest = shortest > UINT32_MAX ? UINT32_MAX : (uint32_t)shortest;
        node->depth = deeper(a->depth);
        return;
    }
    default: return;
    }
}

static uint32_t intern(struct regex_store *store, struct regex_node node)
{
    if (!regex_spend(store, 1))
        return REGEX_FAILED;
    uint32_t hash = node_hash(store, &node), at = hash & store->slot_mask;
    for (; store->slots[at] != 0; at = (at + 1) & store->slot_mask)
        if (store->slots[at] >> 32 == hash &&
            same_node(&store->nodes[(uint32_t)store->slots[at]], &node))
            return (uint32_t)store->slots[at];
    if (!regex_spend(store, NEW_NODE_STEPS) || !make_room(store))
        return REGEX_FAILED;
    node_derive(store, &node);
    if (node.depth > LIMIT_GRAMMAR_DEPTH) {
        fail(store, REGEX_TOO_DEEP);
        return REGEX_FAILED;
    }
    uint32_t id = store->node_count++;
    store->nodes[id] = node;
    slot_place(store->slots, store->slot_mask, (uint64_t)hash << 32 | id);
    return id;
}

bool regex_store_init(struct regex_store *store, size_t bytes_limit, uint64_t fuel)
{
    *store = (struct regex_store){
        .bytes_limit = bytes_limit,
        .fuel = fuel,
        .hash_key = keyed_hash_random_key().words[0],
        .node_capacity = FIRST_NODES,
        .slot_mask = 2 * FIRST_NODES - 1,
        .derived_mask = FIRST_NODES - 1,
        .set_slot_mask = 2 * FIRST_NODES - 1,
        .set_capacity = FIRST_NODES,
    };
    store->nodes = calloc(FIRST_NODES, sizeof *store->nodes);
    store->sets = calloc(FIRST_NODES, sizeof *store->sets);
    store->slots = calloc(2 * FIRST_NODES, sizeof *store->slots);
    store->set_slots = calloc(2 * FIRST_NODES, sizeof *store->set_slots);
    store->derived = calloc(FIRST_NODES, sizeof *store->derived);
    if (store->nodes == NULL || store->sets == NULL || store->slots == NULL ||
        store->set_slots == NULL || store->derived == NULL) {
        regex_store_fini(store);
        return false;
    }
    store->bytes =
        FIRST_NODES * (sizeof *store->nodes + sizeof *store->sets + sizeof *store->derived) +
        2 * FIRST_NODES * (sizeof *store->slots + sizeof *store->set_slots);
    store->nodes[REGEX_NOTHING] =
        (struct regex_node){.kind = REGEX_KIND_NOTHING, .shortest = UINT32_MAX};
    store->nodes[REGEX_EMPTY] = (struct regex_node){.kind = REGEX_KIND_EMPTY, .nullable = true};
    store->nodes[REGEX_ANYTHING] = (struct regex_node){.kind = REGEX_KIND_NOT,
                                                       .a = REGEX_NOTHING,
                                                       .longest = REGEX_UNBOUNDED,
                                                       .nullable = true,
                                                       .depth = 1};
    store->node_count = 3;
    slot_place(store->slots, store->slot_mask, slot_of(store, REGEX_EMPTY));
    slot_place(store->slots, store->slot_mask, slot_of(store, REGEX_ANYTHING));
    return true;
}

void regex_store_fini(struct regex_store *store)
{
    free(store->nodes);
    free(store->sets);
    free(store->slots);
    free(store->set_slots);
    free(store->derived);
    free(store->scratch.ids);
    *store = (struct regex_store){.failure = REGEX_OUT_OF_MEMORY};
}

/* --- Sets --------------------------------------------------------------------------------------- */

static uint32_t set_hash(const struct regex_store *store, const struct regex_byte_set *set)
{
    uint64_t hash = store->hash_key;
    for (int i = 0; i < 4; i++)
        hash = mix(hash, set->words[i]);
    return (uint32_t)(mix(hash, 1) >> 16);
}

static void set_place(struct regex_store *store, uint32_t index)
{
    uint32_t at = set_hash(store, &store->sets[index]) & store->set_slot_mask;
    while (store->set_slots[at] != 0)
        at = (at + 1) & store->set_slot_mask;
    store->set_slots[at] = index + 1;
}

static bool make_set_room(struct regex_store *store)
{
    if (store->set_count < store->set_capacity)
        return true;
    uint32_t wider = store->set_capacity * 2;
    struct regex_byte_set *sets =
        grow(store, store->sets, store->set_capacity * sizeof *sets, wider * sizeof *sets);
    if (sets == NULL)
        return false;
    store->sets = sets;
    uint32_t *slots = grow(store, store->set_slots, 2 * store->set_capacity * sizeof *slots,
                           2 * wider * sizeof *slots);
    if (slots == NULL) {
        store->bytes -= (wider - store->set_capacity) * sizeof *sets;
        return false;
    }
    store->set_slots = slots;
    store->set_slot_mask = 2 * wider - 1;
    store->set_capacity = wider;
    memset(slots, 0, 2 * wider * sizeof *slots);
    for (uint32_t i = 0; i < store->set_count; i++)
        set_place(store, i);
    return true;
}

uint32_t regex_set(struct regex_store *store, const uint64_t words[4])
{
    struct regex_byte_set set;
    memcpy(set.words, words, sizeof set.words);
    if ((set.words[0] | set.words[1] | set.words[2] | set.words[3]) == 0)
        return store->failure == REGEX_FINE ? REGEX_NOTHING : REGEX_FAILED;
    if (!regex_spend(store, 1))
        return REGEX_FAILED;
    uint32_t index = UINT32_MAX;
    for (uint32_t at = set_hash(store, &set) & store->set_slot_mask; store->set_slots[at] != 0;
         at = (at + 1) & store->set_slot_mask)
        if (memcmp(&store->sets[store->set_slots[at] - 1], &set, sizeof set) == 0) {
            index = store->set_slots[at] - 1;
            break;
        }
    if (index == UINT32_MAX) {
        if (!make_set_room(store))
            return REGEX_FAILED;
        index = store->set_count++;
        store->sets[index] = set;
        set_place(store, index);
    }
    return intern(store, (struct regex_node){.kind = REGEX_KIND_SET, .a = index});
}

uint32_t regex_byte(struct regex_store *store, uint8_t byte)
{
    if (store->failure == REGEX_FINE && store->byte_nodes[byte] != REGEX_NOTHING)
        return store->byte_nodes[byte];
    uint64_t words[4] = {0};
    words[byte / 64] = 1ull << byte % 64;
    uint32_t node = regex_set(store, words);
    if (node != REGEX_FAILED)
        store->byte_nodes[byte] = node;
    return node;
}

/* --- Constructors ------------------------------------------------------------------------------- */

/* x is no CONCAT and neither NOTHING nor EMPTY; y is neither. r{m,n} r{p,q} = r{m+p,n+q}. */
static uint32_t concat_one(struct regex_store *store, uint32_t x, uint32_t y)
{
    struct regex_node first = store->nodes[x];
    bool y_is_list = regex_is_kind(store, y, REGEX_KIND_CONCAT);
    uint32_t head = y_is_list ? store->nodes[y].a : y;
    struct regex_node second = store->nodes[head];
    if (first.kind == REGEX_KIND_REPEAT && second.kind == REGEX_KIND_REPEAT &&
        first.a == second.a && saturated_sum(first.minimum, second.minimum) < MAX_COUNT) {
        bool open = first.maximum == REGEX_UNBOUNDED || second.maximum == REGEX_UNBOUNDED;
        if (open || saturated_sum(first.maximum, second.maximum) < MAX_COUNT) {
            uint32_t both = regex_repeat(store, first.a, first.minimum + second.minimum,
                                         open ? REGEX_UNBOUNDED : first.maximum + second.maximum);
            return y_is_list && both != REGEX_FAILED
                       ? intern(store, (struct regex_node){.kind = REGEX_KIND_CONCAT,
                                                           .a = both,
                                                           .b = store->nodes[y].b})
                       : both;
        }
    }
    return intern(store, (struct regex_node){.kind = REGEX_KIND_CONCAT, .a = x, .b = y});
}

uint32_t regex_concat(struct regex_store *store, uint32_t x, uint32_t y)
{
    if (store->failure != REGEX_FINE || x == REGEX_FAILED || y == REGEX_FAILED)
        return REGEX_FAILED;
    if (x == REGEX_NOTHING || y == REGEX_NOTHING)
        return REGEX_NOTHING;
    if (x == REGEX_EMPTY || y == REGEX_EMPTY)
        return x == REGEX_EMPTY ? y : x;
    size_t base = store->scratch.count;
    for (; regex_is_kind(store, x, REGEX_KIND_CONCAT); x = store->nodes[x].b)
        if (!regex_scratch_push(store, store->nodes[x].a)) {
            store->scratch.count = base;
            return REGEX_FAILED;
        }
    uint32_t list = concat_one(store, x, y);
    while (store->scratch.count > base && list != REGEX_FAILED)
        list = concat_one(store, store->scratch.ids[--store->scratch.count], list);
    store->scratch.count = base;
    return list;
}

/* Pushes the members of a list of the kind. */
static bool push_members(struct regex_store *store, uint32_t id, enum regex_kind kind)
{
    if (id == REGEX_FAILED)
        return false;
    for (; regex_is_kind(store, id, kind); id = store->nodes[id].b)
        if (!regex_scratch_push(store, store->nodes[id].a))
            return false;
    return regex_scratch_push(store, id);
}

/* x{m,n} t and x{p,q} t with overlapping or adjacent counts are one; REGEX_NOTHING: they are not. */
static uint32_t merge_counts(struct regex_store *store, uint32_t x, uint32_t y)
{
    struct regex_node p = store->nodes[x], q = store->nodes[y];
    uint32_t p_tail = REGEX_EMPTY, q_tail = REGEX_EMPTY;
    if (p.kind == REGEX_KIND_CONCAT) {
        p_tail = p.b;
        p = store->nodes[p.a];
    }
    if (q.kind == REGEX_KIND_CONCAT) {
        q_tail = q.b;
        q = store->nodes[q.a];
    }
    if (p.kind != REGEX_KIND_REPEAT || q.kind != REGEX_KIND_REPEAT || p.a != q.a ||
        p_tail != q_tail || p.minimum > saturated_sum(q.maximum, 1) ||
        q.minimum > saturated_sum(p.maximum, 1))
        return REGEX_NOTHING;
    uint32_t both = regex_repeat(store, p.a, p.minimum < q.minimum ? p.minimum : q.minimum,
                                 p.maximum > q.maximum ? p.maximum : q.maximum);
    return regex_concat(store, both, p_tail);
}

#define MERGED_MEMBERS 8u  /* pairs are compared in lists up to this length */
#define ABSORBED_NODES 32u /* of an alternative, looked at to see whether another contains it */

/* Merges members of [base, count) in place; false: failed. */
static bool merge_members(struct regex_store *store, size_t base)
{
    for (size_t i = base; i < store->scratch.count; i++)
        for (size_t j = i + 1; j < store->scratch.count; j++) {
            uint32_t both = merge_counts(store, store->scratch.ids[i], store->scratch.ids[j]);
            if (both == REGEX_FAILED)
                return false;
            if (both == REGEX_NOTHING)
                continue;
            store->scratch.ids[i] = both;
            store->scratch.ids[j] = store->scratch.ids[--store->scratch.count];
            j = i;
        }
    return true;
}

/* Sorts, drops duplicates and neutral members and unites sets. Returns the sets' node, or NOTHING;
 * ANYTHING if a member absorbs the rest. */
static uint32_t tidy_or(struct regex_store *store, size_t base)
{
    uint32_t *ids = store->scratch.ids;
    struct regex_byte_set united = {{0}};
    bool nullable = false, has_empty = false;
    size_t kept = base;
    for (size_t i = base; i < store->scratch.count; i++) {
        const struct regex_node *node = &store->nodes[ids[i]];
        if (ids[i] == REGEX_ANYTHING)
            return REGEX_ANYTHING;
        if (node->kind == REGEX_KIND_SET) {
            for (int w = 0; w < 4; w++)
                united.words[w] |= store->sets[node->a].words[w];
        } else if (ids[i] == REGEX_EMPTY) {
            has_empty = true;
        } else if (ids[i] != REGEX_NOTHING) {
            nullable = nullable || node->nullable;
            ids[kept++] = ids[i];
        }
    }
    store->scratch.count = kept;
    uint32_t set = regex_set(store, united.words);
    if (has_empty && !nullable && !regex_scratch_push(store, REGEX_EMPTY))
        return REGEX_FAILED;
    if (set != REGEX_NOTHING && !regex_scratch_push(store, set))
        return REGEX_FAILED;
    return set;
}

static size_t sort_unique(struct regex_store *store, size_t base)
{
    uint32_t *ids = store->scratch.ids;
    sort_ids(ids + base, store->scratch.count - base);
    size_t kept = base;
    for (size_t i = base; i < store->scratch.count; i++)
        if (kept == base || ids[kept - 1] != ids[i])
            ids[kept++] = ids[i];
    store->scratch.count = kept;
    return kept - base;
}

/* The members above `base`, as one node; pops them. */
static uint32_t list_of(struct regex_store *store, size_t base, enum regex_kind kind)
{
    uint32_t list = store->scratch.ids[--store->scratch.count];
    while (store->scratch.count > base && list != REGEX_FAILED)
        list = intern(store, (struct regex_node){.kind = (uint8_t)kind,
                                                 .a = store->scratch.ids[--store->scratch.count],
                                                 .b = list});
    store->scratch.count = base;
    return list;
}

/* Drops alternatives that another one, X{0,}, contains. */
static void absorb_members(struct regex_store *store, size_t base)
{
    uint32_t *ids = store->scratch.ids;
    for (size_t r = base; r < store->scratch.count; r++) {
        const struct regex_node whole = store->nodes[ids[r]];
        if (whole.kind != REGEX_KIND_REPEAT || whole.minimum != 0 ||
            whole.maximum != REGEX_UNBOUNDED)
            continue;
        size_t kept = base, place = base;
        for (size_t i = base; i < store->scratch.count; i++) {
            uint32_t steps = ABSORBED_NODES;
            if (i == r)
                place = kept;
            if (i == r || !regex_is_within(store, ids[i], whole.a, &steps))
                ids[kept++] = ids[i];
        }
        store->scratch.count = kept;
        r = place;
    }
}

uint32_t regex_or_scratch(struct regex_store *store, size_t base)
{
    size_t end = store->scratch.count;
    if (end == base)
        return REGEX_NOTHING;
    for (size_t i = base; i < end; i++)
        if (!push_members(store, store->scratch.ids[i], REGEX_KIND_OR)) {
            store->scratch.count = base;
            return REGEX_FAILED;
        }
    size_t count = store->scratch.count - end;
    memmove(store->scratch.ids + base, store->scratch.ids + end, count * sizeof(uint32_t));
    store->scratch.count = base + count;
    uint32_t absorbed = tidy_or(store, base);
    bool done = absorbed == REGEX_FAILED || absorbed == REGEX_ANYTHING;
    if (!done && store->scratch.count - base <= MERGED_MEMBERS)
        absorb_members(store, base);
    if (!done && store->scratch.count - base <= MERGED_MEMBERS && !merge_members(store, base)) {
        done = true;
        absorbed = REGEX_FAILED;
    }
    if (done) {
        store->scratch.count = base;
        return absorbed;
    }
    if (sort_unique(store, base) == 0)
        return REGEX_NOTHING;
    return list_of(store, base, REGEX_KIND_OR);
}

uint32_t regex_or_of(struct regex_store *store, const uint32_t *parts, size_t count)
{
    size_t base = store->scratch.count;
    for (size_t i = 0; i < count; i++)
        if (!regex_scratch_push(store, parts[i])) {
            store->scratch.count = base;
            return REGEX_FAILED;
        }
    return store->failure != REGEX_FINE ? REGEX_FAILED : regex_or_scratch(store, base);
}

uint32_t regex_or(struct regex_store *store, uint32_t x, uint32_t y)
{
    return regex_or_of(store, (const uint32_t[]){x, y}, 2);
}

/* The members of an intersection without neutral ones; sets are intersected. Returns NOTHING if
 * that empties it, EMPTY if it is at most the empty string, else ANYTHING. */
static uint32_t tidy_and(struct regex_store *store, size_t base)
{
    uint32_t *ids = store->scratch.ids;
    struct regex_byte_set common = {{~0ull, ~0ull, ~0ull, ~0ull}};
    bool nullable = true, has_empty = false, has_set = false;
    size_t kept = base;
    for (size_t i = base; i < store->scratch.count; i++) {
        const struct regex_node *node = &store->nodes[ids[i]];
        nullable = nullable && node->nullable;
        if (ids[i] == REGEX_NOTHING)
            return REGEX_NOTHING;
        if (node->kind == REGEX_KIND_SET) {
            has_set = true;
            for (int w = 0; w < 4; w++)
                common.words[w] &= store->sets[node->a].words[w];
        } else if (ids[i] == REGEX_EMPTY) {
            has_empty = true;
        } else if (ids[i] != REGEX_ANYTHING) {
            ids[kept++] = ids[i];
        }
    }
    store->scratch.count = kept;
    if (has_empty)
        return nullable ? REGEX_EMPTY : REGEX_NOTHING;
    if (!has_set)
        return REGEX_ANYTHING;
    uint32_t set = regex_set(store, common.words);
    if (set == REGEX_FAILED || set == REGEX_NOTHING)
        return set;
    return regex_scratch_push(store, set) ? REGEX_ANYTHING : REGEX_FAILED;
}

uint32_t regex_and(struct regex_store *store, uint32_t x, uint32_t y)
{
    if (store->failure != REGEX_FINE || x == REGEX_FAILED || y == REGEX_FAILED)
        return REGEX_FAILED;
    if (x == REGEX_NOTHING || y == REGEX_NOTHING)
        return REGEX_NOTHING;
    size_t base = store->scratch.count;
    uint32_t absorbed = REGEX_FAILED;
    if (push_members(store, x, REGEX_KIND_AND) && push_members(store, y, REGEX_KIND_AND))
        absorbed = tidy_and(store, base);
    if (absorbed != REGEX_ANYTHING) {
        store->scratch.count = base;
        return absorbed;
    }
    size_t count = sort_unique(store, base);
    /* x and not x */
    for (size_t i = base; i < base + count; i++) {
        const struct regex_node *node = &store->nodes[store->scratch.ids[i]];
        if (node->kind == REGEX_KIND_NOT &&
            bsearch(&node->a, store->scratch.ids + base, count, sizeof(uint32_t), compare_ids)) {
            store->scratch.count = base;
            return REGEX_NOTHING;
        }
    }
    return count == 0 ? REGEX_ANYTHING : list_of(store, base, REGEX_KIND_AND);
}

uint32_t regex_not(struct regex_store *store, uint32_t x)
{
    if (store->failure != REGEX_FINE || x == REGEX_FAILED)
        return REGEX_FAILED;
    if (regex_is_kind(store, x, REGEX_KIND_NOT))
        return store->nodes[x].a;
    return intern(store, (struct regex_node){.kind = REGEX_KIND_NOT, .a = x});
}

uint32_t regex_repeat(struct regex_store *store, uint32_t x, uint32_t minimum, uint32_t maximum)
{
    if (store->failure != REGEX_FINE || x == REGEX_FAILED)
        return REGEX_FAILED;
    if (minimum > maximum || minimum == REGEX_UNBOUNDED)
        return REGEX_NOTHING;
    if (maximum == 0 || x == REGEX_EMPTY)
        return REGEX_EMPTY;
    if (x == REGEX_NOTHING)
        return minimum == 0 ? REGEX_EMPTY : REGEX_NOTHING;
    const struct regex_node *inner = &store->nodes[x];
    if (inner->nullable)
        minimum = 0;
    if ((minimum == 1 && maximum == 1) || x == REGEX_ANYTHING)
        return x;
    if (inner->kind == REGEX_KIND_REPEAT) {
        if (inner->maximum == REGEX_UNBOUNDED && inner->minimum <= 1) {
            minimum = inner->minimum == 0 ? 0 : minimum;
            maximum = REGEX_UNBOUNDED;
            x = inner->a;
        } else if (inner->minimum == 0 && inner->maximum == 1) {
            x = inner->a;
        }
    }
    return intern(store,
                  (struct regex_node){
                      .kind = REGEX_KIND_REPEAT, .a = x, .minimum = minimum, .maximum = maximum});
}
