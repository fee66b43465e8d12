/*
 * Questions about whole expressions: the classes of bytes that its sets tell apart, and whether any
 * string matches.
 *
 * Emptiness: an expression without intersection and complement is empty only if it is NOTHING. For
 * others the derivatives are searched for one that contains the empty string, those with the
 * smallest lower bound of length first. If the search finds one, the derivatives on its path are
 * live; if it ends without, all it saw are dead. Both are kept in the nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/grammar_regex.h"

void regex_classes_init(struct regex_classes *classes)
{
    memset(classes->class_of, 0, sizeof classes->class_of);
    classes->representative[0] = 0;
    memset(&classes->members[0], 0xFF, sizeof classes->members[0]);
    classes->count = 1;
}

/* The part of an old class becomes a class of its own. */
static void class_split_off(struct regex_classes *classes, uint32_t old,
                            const struct regex_byte_set *part)
{
    uint32_t added = classes->count++;
    classes->members[added] = *part;
    for (uint32_t w = 0; w < 4; w++) {
        classes->members[old].words[w] &= ~part->words[w];
        for (uint64_t left = part->words[w]; left != 0; left &= left - 1)
            classes->class_of[w * 64 + (uint32_t)__builtin_ctzll(left)] = (uint8_t)added;
    }
    uint32_t changed[2] = {old, added};
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t *words = classes->members[changed[i]].words;
        uint32_t w = words[0] != 0 ? 0 : words[1] != 0 ? 1 : words[2] != 0 ? 2 : 3;
        classes->representative[changed[i]] =
            (uint8_t)(w * 64 + (uint32_t)__builtin_ctzll(words[w]));
    }
}

static bool set_is_empty(const struct regex_byte_set *set)
{
    return (set->words[0] | set->words[1] | set->words[2] | set->words[3]) == 0;
}

void regex_classes_split(struct regex_classes *classes, const struct regex_byte_set *set)
{
    for (uint32_t c = 0, count = classes->count; c < count; c++) {
        struct regex_byte_set inside, outside;
        for (uint32_t w = 0; w < 4; w++) {
            inside.words[w] = classes->members[c].words[w] & set->words[w];
            outside.words[w] = classes->members[c].words[w] & ~set->words[w];
        }
        if (!set_is_empty(&inside) && !set_is_empty(&outside))
            class_split_off(classes, c, &inside);
    }
}

/* Recursion goes into `a` only, whose depth is bounded. */
void regex_same_derivative(struct regex_store *store, uint32_t node, uint8_t byte,
                           struct regex_byte_set *same)
{
    while (regex_spend(store, 1)) {
        const struct regex_node *here = &store->nodes[node];
        bool goes_on = false;
        switch ((enum regex_kind)here->kind) {
        case REGEX_KIND_SET: {
            const struct regex_byte_set *set = &store->sets[here->a];
            bool inside = set->words[byte / 64] >> byte % 64 & 1;
            for (uint32_t w = 0; w < 4; w++)
                same->words[w] &= inside ? set->words[w] : ~set->words[w];
            return;
        }
        case REGEX_KIND_CONCAT: goes_on = store->nodes[here->a].nullable; break;
        case REGEX_KIND_OR:
        case REGEX_KIND_AND: goes_on = true; break;
        case REGEX_KIND_NOT:
        case REGEX_KIND_REPEAT: break;
        default: return;
        }
        regex_same_derivative(store, here->a, byte, same);
        if (!goes_on)
            return;
        node = store->nodes[node].b;
    }
}

/* The bytes of the set are texts of `x` of one byte. */
static bool set_is_part(const struct regex_store *store, uint32_t set, uint32_t x)
{
    const uint64_t *inner = store->sets[store->nodes[set].a].words;
    for (bool last = false; !last; x = store->nodes[x].b) {
        last = store->nodes[x].kind != REGEX_KIND_OR;
        const struct regex_node *part = &store->nodes[last ? x : store->nodes[x].a];
        const uint64_t *outer =
            part->kind == REGEX_KIND_SET ? store->sets[part->a].words : (uint64_t[4]){0};
        if (((inner[0] & ~outer[0]) | (inner[1] & ~outer[1]) | (inner[2] & ~outer[2]) |
             (inner[3] & ~outer[3])) == 0)
            return true;
    }
    return false;
}

bool regex_is_within(struct regex_store *store, uint32_t node, uint32_t x, uint32_t *steps)
{
    while (*steps > 0 && regex_spend(store, 1)) {
        --*steps;
        if (node == x || node == REGEX_EMPTY || node == REGEX_NOTHING)
            return true;
        const struct regex_node here = store->nodes[node];
        switch ((enum regex_kind)here.kind) {
        case REGEX_KIND_SET: return set_is_part(store, node, x);
        case REGEX_KIND_REPEAT: node = here.a; break;
        case REGEX_KIND_CONCAT:
        case REGEX_KIND_OR:
            if (!regex_is_within(store, here.a, x, steps))
                return false;
            node = here.b;
            break;
        case REGEX_KIND_AND:
            if (regex_is_within(store, here.a, x, steps))
                return true;
            node = here.b;
            break;
        default: return false;
        }
    }
    return false;
}

/* Open addressing from node to the entry of the search that reached it. */
struct search {
    struct regex_store *store;
    uint32_t *found; /* nodes in the order of discovery */
    uint32_t *parent;
    uint8_t *byte;  /* that led there from the parent */
    uint32_t *heap; /* indices into found, smallest lower bound first */
    uint32_t *slots;
    uint32_t found_count;
    uint32_t heap_count;
    uint32_t capacity; /* slots: twice as many */
    bool failed;
};

static uint32_t bound_of(const struct search *search, uint32_t index)
{
    return search->store->nodes[search->found[index]].shortest;
}

static void heap_push(struct search *search, uint32_t index)
{
    uint32_t at = search->heap_count++;
    for (; at > 0; at = (at - 1) / 2) {
        uint32_t above = search->heap[(at - 1) / 2];
        if (bound_of(search, above) <= bound_of(search, index))
            break;
        search->heap[at] = above;
    }
    search->heap[at] = index;
}

static uint32_t heap_pop(struct search *search)
{
    uint32_t top = search->heap[0];
    uint32_t last = search->heap[--search->heap_count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < search->heap_count; child = 2 * at + 1) {
        if (child + 1 < search->heap_count &&
            bound_of(search, search->heap[child + 1]) < bound_of(search, search->heap[child]))
            child++;
        if (bound_of(search, search->heap[child]) >= bound_of(search, last))
            break;
        search->heap[at] = search->heap[child];
        at = child;
    }
    search->heap[at] = last;
    return top;
}

static uint32_t slot_of(const struct search *search, uint32_t node)
{
    uint32_t mask = 2 * search->capacity - 1;
    uint32_t at = node * 2654435761u >> 7 & mask;
    while (search->slots[at] != 0 && search->found[search->slots[at] - 1] != node)
        at = (at + 1) & mask;
    return at;
}

static bool search_grow(struct search *search)
{
    uint32_t wider = search->capacity == 0 ? 64 : search->capacity * 2;
    uint32_t *found = realloc(search->found, wider * sizeof *found);
    search->found = found != NULL ? found : search->found;
    uint32_t *parent = realloc(search->parent, wider * sizeof *parent);
    search->parent = parent != NULL ? parent : search->parent;
    uint8_t *byte = realloc(search->byte, wider);
    search->byte = byte != NULL ? byte : search->byte;
    uint32_t *heap = realloc(search->heap, wider * sizeof *heap);
    search->heap = heap != NULL ? heap : search->heap;
    uint32_t *slots = calloc(2 * (size_t)wider, sizeof *slots);
    if (found == NULL || parent == NULL || byte == NULL || heap == NULL || slots == NULL) {
        free(slots);
        search->failed = true;
        return false;
    }
    free(search->slots);
    search->slots = slots;
    search->capacity = wider;
    for (uint32_t i = 0; i < search->found_count; i++)
        slots[slot_of(search, search->found[i])] = i + 1;
    return true;
}

static void search_add(struct search *search, uint32_t node, uint32_t parent, uint8_t byte)
{
    if (search->failed || (search->found_count == search->capacity && !search_grow(search)))
        return;
    uint32_t slot = slot_of(search, node);
    if (search->slots[slot] != 0)
        return;
    search->found[search->found_count] = node;
    search->parent[search->found_count] = parent;
    search->byte[search->found_count] = byte;
    search->slots[slot] = ++search->found_count;
    heap_push(search, search->found_count - 1);
}

static void search_fini(struct search *search)
{
    free(search->found);
    free(search->parent);
    free(search->byte);
    free(search->heap);
    free(search->slots);
}

static bool walk_reach(struct regex_store *store, uint32_t node)
{
    if (store->nodes[node].mark == store->walk)
        return true;
    store->nodes[node].mark = store->walk;
    return regex_scratch_push(store, node);
}

bool regex_classes_of(struct regex_store *store, uint32_t node, struct regex_classes *classes)
{
    regex_classes_init(classes);
    if (node == REGEX_FAILED)
        return false;
    if (++store->walk == 0) { /* marks of 2^32 walks ago must not match */
        for (uint32_t i = 0; i < store->node_count; i++)
            store->nodes[i].mark = 0;
        store->walk = 1;
    }
    size_t base = store->scratch.count;
    bool good = walk_reach(store, node);
    for (size_t i = base; good && i < store->scratch.count; i++) {
        const struct regex_node *here = &store->nodes[store->scratch.ids[i]];
        if (here->kind == REGEX_KIND_SET) {
            good = regex_spend(store, classes->count / 8 + 2);
            regex_classes_split(classes, &store->sets[here->a]);
        } else {
            good = walk_reach(store, here->a) && walk_reach(store, here->b);
        }
    }
    store->scratch.count = base;
    return good && store->failure == REGEX_FINE;
}

static enum regex_liveness known_liveness(const struct regex_store *store, uint32_t node)
{
    const struct regex_node *here = &store->nodes[node];
    if (node == REGEX_NOTHING)
        return REGEX_DEAD;
    if (!here->is_complex || here->nullable)
        return REGEX_LIVE;
    return (enum regex_liveness)here->liveness;
}

static void note_live_byte(struct regex_store *store, uint8_t byte)
{
    uint32_t at = 0;
    while (at + 1 < REGEX_LIVE_BYTES && store->live_bytes[at] != byte)
        at++;
    memmove(store->live_bytes + 1, store->live_bytes, at);
    store->live_bytes[0] = byte;
}

/* Puts a path in front, once. */
static void note_live_path(struct regex_store *store, const struct regex_live_path *path)
{
    uint32_t at = 0;
    while (at + 1 < REGEX_LIVE_PATHS && memcmp(&store->live_paths[at], path, sizeof *path) != 0)
        at++;
    memmove(store->live_paths + 1, store->live_paths, at * sizeof *path);
    store->live_paths[0] = *path;
}

/* The nodes from the first one to `index` are live, because `byte` leads to a live one. */
static void note_found(struct search *search, uint32_t index, uint8_t byte)
{
    uint8_t bytes[REGEX_PATH_BYTES] = {byte};
    uint32_t count = 1;
    for (;; index = search->parent[index]) {
        search->store->nodes[search->found[index]].liveness = REGEX_LIVE;
        if (index == 0)
            break;
        if (count < REGEX_PATH_BYTES)
            bytes[count] = search->byte[index];
        count++;
    }
    note_live_byte(search->store, byte);
    if (count > REGEX_PATH_BYTES)
        return;
    struct regex_live_path path = {.count = (uint8_t)count};
    for (uint32_t i = 0; i < count; i++)
        path.bytes[i] = bytes[count - 1 - i];
    note_live_path(search->store, &path);
}

/* Follows the bytes of a path as long as liveness is unknown. */
static bool is_live_by_path(struct regex_store *store, uint32_t node,
                            const struct regex_live_path *path, uint32_t *steps)
{
    uint32_t passed[REGEX_PATH_BYTES];
    for (uint32_t i = 0; *steps > 0 && i < path->count; i++) {
        passed[i] = node;
        node = regex_derivative(store, node, path->bytes[i]);
        --*steps;
        if (node == REGEX_FAILED)
            return false;
        enum regex_liveness here = known_liveness(store, node);
        if (here == REGEX_DEAD)
            return false;
        if (here == REGEX_LIVENESS_UNKNOWN)
            continue;
        note_live_byte(store, path->bytes[i]);
        for (uint32_t p = 0; p <= i; p++)
            store->nodes[passed[p]].liveness = REGEX_LIVE;
        return true;
    }
    return false;
}

/* Tries what the latest searches found before a search tries all classes: the states of a long text
 * are new, but end alike. First the paths that ended them, then, one node after the other, their
 * last bytes. */
static bool is_live_by_recent(struct regex_store *store, uint32_t node, uint32_t *steps)
{
    for (uint32_t p = 0; p < REGEX_LIVE_PATHS && store->live_paths[p].count > 0; p++) {
        const struct regex_live_path path = store->live_paths[p];
        if (is_live_by_path(store, node, &path, steps)) {
            note_live_path(store, &path);
            return true;
        }
    }
    uint32_t nodes[REGEX_LIVE_BYTES];
    struct regex_live_path path = {0};
    while (path.count < REGEX_LIVE_BYTES && node != REGEX_NOTHING) {
        uint32_t below = REGEX_NOTHING, depth = path.count++;
        nodes[depth] = node;
        for (uint32_t i = 0; i < REGEX_LIVE_BYTES && store->live_bytes[i] != 0; i++) {
            uint8_t byte = store->live_bytes[i];
            uint32_t next = *steps == 0 ? REGEX_FAILED : regex_derivative(store, node, byte);
            if (next == REGEX_FAILED)
                return false;
            --*steps;
            enum regex_liveness here = known_liveness(store, next);
            if (here == REGEX_LIVE) {
                path.bytes[depth] = byte;
                note_live_byte(store, byte);
                note_live_path(store, &path);
                for (uint32_t d = 0; d <= depth; d++)
                    store->nodes[nodes[d]].liveness = REGEX_LIVE;
                return true;
            }
            if (here == REGEX_LIVENESS_UNKNOWN && below == REGEX_NOTHING) {
                below = next;
                path.bytes[depth] = byte;
            }
        }
        node = below;
    }
    return false;
}

enum regex_liveness regex_liveness(struct regex_store *store, uint32_t node,
                                   const struct regex_classes *classes, uint32_t steps)
{
    if (node == REGEX_FAILED)
        return REGEX_LIVENESS_UNKNOWN;
    enum regex_liveness known = known_liveness(store, node);
    if (known != REGEX_LIVENESS_UNKNOWN || steps == 0)
        return known;
    if (is_live_by_recent(store, node, &steps))
        return REGEX_LIVE;
    struct regex_classes own;
    if (classes == NULL) {
        if (!regex_classes_of(store, node, &own))
            return REGEX_LIVENESS_UNKNOWN;
        classes = &own;
    }
    struct search search = {.store = store};
    search_add(&search, node, 0, 0);
    while (search.heap_count > 0 && known == REGEX_LIVENESS_UNKNOWN && !search.failed) {
        uint32_t index = heap_pop(&search);
        struct regex_byte_set done = {{0}};
        for (uint32_t c = 0; c < classes->count && known == REGEX_LIVENESS_UNKNOWN; c++) {
            uint8_t byte = classes->representative[c];
            if (done.words[byte / 64] >> byte % 64 & 1)
                continue;
            struct regex_byte_set same = {{~0ull, ~0ull, ~0ull, ~0ull}};
            regex_same_derivative(store, search.found[index], byte, &same);
            for (uint32_t w = 0; w < 4; w++)
                done.words[w] |= same.words[w];
            uint32_t next =
                steps == 0 ? REGEX_FAILED : regex_derivative(store, search.found[index], byte);
            if (next == REGEX_FAILED) {
                search.failed = true;
                break;
            }
            steps--;
            enum regex_liveness here = known_liveness(store, next);
            if (here == REGEX_LIVE) {
                note_found(&search, index, byte);
                known = REGEX_LIVE;
            } else if (here == REGEX_LIVENESS_UNKNOWN) {
                search_add(&search, next, index, byte);
            }
        }
    }
    if (known == REGEX_LIVENESS_UNKNOWN && !search.failed) {
        for (uint32_t i = 0; i < search.found_count; i++)
            store->nodes[search.found[i]].liveness = REGEX_DEAD;
        known = REGEX_DEAD;
    }
    search_fini(&search);
    return known;
}
