/*
 * Derivatives of grammar_regex.h. Parts recur in many expressions, such as counters beside patterns, so
 * the latest derivatives are kept.
 */
#include "proto/grammar_regex.h"

static bool set_has(const struct regex_byte_set *set, uint8_t byte)
{
    return set->words[byte / 64] >> byte % 64 & 1;
}

/* d(ab) = d(a) b, or d(a) b | d(b) if a contains the empty string. */
static uint32_t concat_derivative(struct regex_store *store, uint32_t node, uint8_t byte)
{
    size_t base = store->scratch.count;
    bool more = true, good = true;
    while (more && good) {
        struct regex_node here = store->nodes[node];
        if (here.kind == REGEX_KIND_CONCAT) {
            uint32_t first = regex_derivative(store, here.a, byte);
            good = regex_scratch_push(store, regex_concat(store, first, here.b));
            more = good && store->nodes[here.a].nullable;
            node = here.b;
        } else {
            good = regex_scratch_push(store, regex_derivative(store, node, byte));
            more = false;
        }
    }
    if (good && store->scratch.count == base + 1)
        return store->scratch.ids[--store->scratch.count];
    if (good)
        return regex_or_scratch(store, base);
    store->scratch.count = base;
    return REGEX_FAILED;
}

static uint32_t or_derivative(struct regex_store *store, uint32_t node, uint8_t byte)
{
    size_t base = store->scratch.count;
    bool good = true;
    for (; good && regex_is_kind(store, node, REGEX_KIND_OR); node = store->nodes[node].b)
        good = regex_scratch_push(store, regex_derivative(store, store->nodes[node].a, byte));
    if (good && regex_scratch_push(store, regex_derivative(store, node, byte)))
        return regex_or_scratch(store, base);
    store->scratch.count = base;
    return REGEX_FAILED;
}

static uint32_t and_derivative(struct regex_store *store, uint32_t node, uint8_t byte)
{
    uint32_t all = REGEX_ANYTHING;
    for (;
         regex_is_kind(store, node, REGEX_KIND_AND) && all != REGEX_NOTHING && all != REGEX_FAILED;
         node = store->nodes[node].b)
        all = regex_and(store, all, regex_derivative(store, store->nodes[node].a, byte));
    if (all == REGEX_NOTHING || all == REGEX_FAILED)
        return all;
    return regex_and(store, all, regex_derivative(store, node, byte));
}

static uint32_t make_derivative(struct regex_store *store, uint32_t node, uint8_t byte)
{
    struct regex_node here = store->nodes[node];
    switch ((enum regex_kind)here.kind) {
    case REGEX_KIND_CONCAT: return concat_derivative(store, node, byte);
    case REGEX_KIND_OR: return or_derivative(store, node, byte);
    case REGEX_KIND_AND: return and_derivative(store, node, byte);
    case REGEX_KIND_NOT: return regex_not(store, regex_derivative(store, here.a, byte));
    case REGEX_KIND_REPEAT: {
        uint32_t first = regex_derivative(store, here.a, byte);
        if (first == REGEX_NOTHING || first == REGEX_FAILED)
            return first;
        uint32_t rest =
            regex_repeat(store, here.a, here.minimum == 0 ? 0 : here.minimum - 1,
                         here.maximum == REGEX_UNBOUNDED ? REGEX_UNBOUNDED : here.maximum - 1);
        return regex_concat(store, first, rest);
    }
    default: return REGEX_NOTHING;
    }
}

uint32_t regex_derivative(struct regex_store *store, uint32_t node, uint8_t byte)
{
    if (!regex_spend(store, 1) || node == REGEX_FAILED)
        return REGEX_FAILED;
    const struct regex_node *here = &store->nodes[node];
    if (here->kind == REGEX_KIND_SET)
        return set_has(&store->sets[here->a], byte) ? REGEX_EMPTY : REGEX_NOTHING;
    uint32_t hash = (node * 2654435761u ^ byte * 2246822519u) >> 12;
    const struct regex_derived *kept = &store->derived[hash & store->derived_mask];
    if (kept->node == node && kept->byte == byte)
        return kept->result;
    uint32_t result = make_derivative(store, node, byte);
    if (result != REGEX_FAILED)
        store->derived[hash & store->derived_mask] = (struct regex_derived){node, result, byte};
    return result;
}
