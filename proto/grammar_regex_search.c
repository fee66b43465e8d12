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
    memset(classes, 0, sizeof *classes);
    classes->count = 1;
}

void regex_classes_split(struct regex_classes *classes, const struct regex_byte_set *set)
{
    uint32_t first = classes->count;
    if (first == 256)
        return;
    uint32_t inside[256] = {0}; /* the new class of members of an old one, 0: none so far */
    bool outside[256] = {false};
    for (uint32_t byte = 0; byte < 256; byte++)
        if ((set->words[byte / 64] >> byte % 64 & 1) == 0)
            outside[classes->class_of[byte]] = true;
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint8_t old = classes->class_of[byte];
        if (!outside[old] || old >= first || (set->words[byte / 64] >> byte % 64 & 1) == 0)
            continue;
        if (inside[old] == 0)
            inside[old] = classes->count++;
        classes->class_of[byte] = (uint8_t)inside[old];
    }
    for (uint32_t byte = 256; byte-- > 0;)
        classes->representative[classes->class_of[byte]] = (uint8_t)byte;
}

/* Open addressing from node to the entry of the search that reached it. */
struct search {
    struct regex_store *store;
    uint32_t *found; /* nodes in the order of discovery */
    uint32_t *parent;
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
    uint32_t *heap = realloc(search->heap, wider * sizeof *heap);
    search->heap = heap != NULL ? heap : search->heap;
    uint32_t *slots = calloc(2 * (size_t)wider, sizeof *slots);
    if (found == NULL || parent == NULL || heap == NULL || slots == NULL) {
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

static void search_add(struct search *search, uint32_t node, uint32_t parent)
{
    if (search->failed || (search->found_count == search->capacity && !search_grow(search)))
        return;
    uint32_t slot = slot_of(search, node);
    if (search->slots[slot] != 0)
        return;
    search->found[search->found_count] = node;
    search->parent[search->found_count] = parent;
    search->slots[slot] = ++search->found_count;
    heap_push(search, search->found_count - 1);
}

static void search_fini(struct search *search)
{
    free(search->found);
    free(search->parent);
    free(search->heap);
    free(search->slots);
}

bool regex_classes_of(struct regex_store *store, uint32_t node, struct regex_classes *classes)
{
    regex_classes_init(classes);
    if (node == REGEX_FAILED)
        return false;
    struct search search = {.store = store};
    search_add(&search, node, 0);
    for (uint32_t i = 0; i < search.found_count && regex_spend(store, 2) && !search.failed; i++) {
        const struct regex_node *here = &store->nodes[search.found[i]];
        search.heap_count = 0; /* only the list is used */
        if (here->kind == REGEX_KIND_SET) {
            if (!regex_spend(store, 16))
                break;
            regex_classes_split(classes, &store->sets[here->a]);
            continue;
        }
        search_add(&search, here->a, 0);
        search_add(&search, here->b, 0);
    }
    search_fini(&search);
    return !search.failed && store->failure == REGEX_FINE;
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

static void note_live_path(struct search *search, uint32_t index)
{
    for (;; index = search->parent[index]) {
        search->store->nodes[search->found[index]].liveness = REGEX_LIVE;
        if (index == 0)
            return;
    }
}

enum regex_liveness regex_liveness(struct regex_store *store, uint32_t node,
                                   const struct regex_classes *classes, uint32_t steps)
{
    if (node == REGEX_FAILED)
        return REGEX_LIVENESS_UNKNOWN;
    enum regex_liveness known = known_liveness(store, node);
    if (known != REGEX_LIVENESS_UNKNOWN || steps == 0)
        return known;
    struct search search = {.store = store};
    search_add(&search, node, 0);
    while (search.heap_count > 0 && known == REGEX_LIVENESS_UNKNOWN && !search.failed) {
        uint32_t index = heap_pop(&search);
        for (uint32_t c = 0; c < classes->count && known == REGEX_LIVENESS_UNKNOWN; c++) {
            uint32_t next = steps == 0 ? REGEX_FAILED
                                       : regex_derivative(store, search.found[index],
                                                          classes->representative[c]);
            if (next == REGEX_FAILED) {
                search.failed = true;
                break;
            }
            steps--;
            enum regex_liveness here = known_liveness(store, next);
            if (here == REGEX_LIVE) {
                note_live_path(&search, index);
                known = REGEX_LIVE;
            } else if (here == REGEX_LIVENESS_UNKNOWN) {
                search_add(&search, next, index);
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
