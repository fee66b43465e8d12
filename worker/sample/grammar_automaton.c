/*
 * Fills the automaton of grammar_automaton.h. The blob's nodes go through the constructors of the
 * store again, so nothing depends on how the blob was normalized. All tables count against the
 * store's memory limit.
 */
#include "worker/sample/grammar_automaton.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

#define FIRST_TABLE 4096u

/* Doubles an array of words inside the memory limit and fills the new part with ones. */
static bool widen(struct grammar_automaton *automaton, uint32_t **words, uint32_t *count,
                  uint32_t least)
{
    uint32_t wider = *count == 0 ? FIRST_TABLE : *count;
    while (wider < least)
        wider *= 2;
    size_t added = (size_t)(wider - *count) * sizeof **words;
    struct regex_store *store = &automaton->store;
    if (added > store->bytes_limit - store->bytes) {
        store->failure = REGEX_OUT_OF_MEMORY;
        return false;
    }
    uint32_t *grown = realloc(*words, wider * sizeof *grown);
    if (grown == NULL) {
        store->failure = REGEX_OUT_OF_MEMORY;
        return false;
    }
    memset(grown + *count, 0xFF, added);
    store->bytes += added;
    *words = grown;
    *count = wider;
    return true;
}

uint32_t grammar_automaton_state(struct grammar_automaton *automaton, uint32_t node)
{
    struct regex_store *store = &automaton->store;
    if (node == REGEX_FAILED || store->failure != REGEX_FINE)
        return GRAMMAR_STATE_FAILED;
    if (node == REGEX_NOTHING)
        return GRAMMAR_STATE_DEAD;
    if (store->nodes[node].is_complex) {
        enum regex_liveness liveness =
            regex_liveness(store, node, &automaton->classes, LIMIT_GRAMMAR_STEP_FUEL);
        if (liveness == REGEX_LIVENESS_UNKNOWN)
            return GRAMMAR_STATE_FAILED;
        if (liveness == REGEX_DEAD)
            return GRAMMAR_STATE_DEAD;
    }
    if (node >= automaton->row_of_count &&
        !widen(automaton, &automaton->row_of, &automaton->row_of_count, node + 1))
        return GRAMMAR_STATE_FAILED;
    return node | (store->nodes[node].nullable ? GRAMMAR_STATE_ACCEPTS : 0);
}

uint32_t grammar_automaton_derive(struct grammar_automaton *automaton, uint32_t state,
                                  uint32_t byte_class)
{
    uint32_t node = state & ~GRAMMAR_STATE_ACCEPTS;
    if (automaton->row_of[node] == GRAMMAR_STATE_FAILED) {
        uint32_t end = automaton->table_used + automaton->classes.count;
        if (end > automaton->table_size &&
            !widen(automaton, &automaton->table, &automaton->table_size, end))
            return GRAMMAR_STATE_FAILED;
        automaton->row_of[node] = automaton->table_used;
        automaton->table_used = end;
    }
    uint8_t byte = automaton->classes.representative[byte_class];
    uint32_t derivative = regex_derivative(&automaton->store, node, byte);
    uint32_t next = grammar_automaton_state(automaton, derivative);
    if (next == GRAMMAR_STATE_FAILED)
        return next;
    struct regex_byte_set same = {{~0ull, ~0ull, ~0ull, ~0ull}};
    regex_same_derivative(&automaton->store, node, byte, &same);
    uint32_t *row = automaton->table + automaton->row_of[node];
    row[byte_class] = next;
    for (uint32_t c = 0; c < automaton->classes.count && automaton->store.failure == REGEX_FINE;
         c++) {
        uint8_t other = automaton->classes.representative[c];
        if (same.words[other / 64] >> other % 64 & 1)
            row[c] = next;
    }
    return next;
}

static uint32_t build_node(struct regex_store *store, const struct grammar_blob_view *view,
                           const struct grammar_blob_node *node, const uint32_t *built)
{
    switch ((enum regex_kind)node->kind) {
    case REGEX_KIND_SET: return regex_set(store, view->sets[node->a].words);
    case REGEX_KIND_CONCAT: return regex_concat(store, built[node->a], built[node->b]);
    case REGEX_KIND_OR: return regex_or(store, built[node->a], built[node->b]);
    case REGEX_KIND_AND: return regex_and(store, built[node->a], built[node->b]);
    case REGEX_KIND_NOT: return regex_not(store, built[node->a]);
    default: return regex_repeat(store, built[node->a], node->minimum, node->maximum);
    }
}

static bool build_nodes(struct grammar_automaton *automaton, const struct grammar_blob_view *view,
                        uint32_t *terminal_states)
{
    uint32_t count = view->header->node_count;
    uint32_t *built = malloc(((size_t)count + GRAMMAR_BLOB_FIRST_NODE) * sizeof *built);
    if (built == NULL)
        return false;
    bool good = true;
    for (uint32_t i = 0; i < GRAMMAR_BLOB_FIRST_NODE; i++)
        built[i] = i;
    for (uint32_t i = 0; i < count && good; i++) {
        uint32_t id = build_node(&automaton->store, view, &view->nodes[i], built);
        built[i + GRAMMAR_BLOB_FIRST_NODE] = id;
        good = id != REGEX_FAILED;
    }
    for (uint32_t i = 0; i < automaton->store.set_count; i++)
        regex_classes_split(&automaton->classes, &automaton->store.sets[i]);
    for (uint32_t i = 0; i < view->header->terminal_count && good; i++) {
        terminal_states[i] = grammar_automaton_state(automaton, built[view->terminals[i]]);
        good = terminal_states[i] != GRAMMAR_STATE_FAILED;
    }
    free(built);
    return good;
}

bool grammar_automaton_init(struct grammar_automaton *automaton,
                            const struct grammar_blob_view *view, uint32_t *terminal_states)
{
    memset(automaton, 0, sizeof *automaton);
    regex_classes_init(&automaton->classes);
    return regex_store_init(&automaton->store, LIMIT_GRAMMAR_CACHE_BYTES,
                            LIMIT_GRAMMAR_BUILD_FUEL) &&
           widen(automaton, &automaton->row_of, &automaton->row_of_count, FIRST_TABLE) &&
           build_nodes(automaton, view, terminal_states);
}

void grammar_automaton_fini(struct grammar_automaton *automaton)
{
    regex_store_fini(&automaton->store);
    free(automaton->row_of);
    free(automaton->table);
}

void grammar_automaton_refill(struct grammar_automaton *automaton)
{
    automaton->store.fuel = LIMIT_GRAMMAR_STEP_FUEL;
    if (automaton->store.failure == REGEX_OUT_OF_FUEL || automaton->store.failure == REGEX_TOO_DEEP)
        automaton->store.failure = REGEX_FINE;
}
