/*
 * The tokens that a row of the parser allows: for each item, those that its terminal in progress
 * allows and, where tokens are longer than the terminal, those that the parser allows after it.
 *
 * The bytes of a token are read by a chain of terminals. Which tokens a chain reads does not depend
 * on the parser and is cached (grammar_mask_cache); the parser is asked once per chain, not once
 * per token. Grammars in which a token has very many chains are walked with a row for each byte.
 */
#include "worker/sample/grammar_mask.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

static void allow(uint32_t *words, uint32_t token)
{
    words[token / 32] |= 1u << token % 32;
}

static void allow_node(const struct grammar_vocabulary *vocabulary, uint32_t *words, uint32_t node)
{
    for (uint32_t token = vocabulary->nodes[node].token; token != GRAMMAR_NO_TOKEN;
         token = vocabulary->same_text[token])
        allow(words, token);
}

static void allow_named(const struct grammar_vocabulary *vocabulary,
                        const struct grammar_rows *rows, uint32_t *words)
{
    const struct grammar_row *row = &rows->rows[rows->row_count - 1];
    for (uint32_t i = row->first; i < row->waiting; i++)
        if (rows->items[i].state == GRAMMAR_ITEM_TOKEN) {
            uint32_t token = rows->program->view.slots[rows->items[i].slot] & GRAMMAR_SLOT_VALUE;
            if (token < vocabulary->logit_count)
                allow(words, token);
        }
    if (row->may_end)
        for (uint32_t token = 0; token < vocabulary->logit_count; token++)
            if (vocabulary->is_end[token])
                allow(words, token);
}

/* --- Walking with rows -------------------------------------------------------------------------- */

/* Exact for every grammar, at the cost of a row for each node that is visited. */
static enum grammar_result fill_by_rows(const struct grammar_vocabulary *vocabulary,
                                        struct grammar_rows *rows, uint32_t *words)
{
    const struct grammar_trie_node *nodes = vocabulary->nodes;
    const uint8_t *class_of = rows->program->automaton.classes.class_of;
    uint32_t base = rows->row_count;
    for (uint32_t n = 1; n < vocabulary->node_count;) {
        uint32_t depth = nodes[n].depth;
        grammar_rows_cut(rows, base + depth - 1);
        if (!grammar_rows_push_byte(rows, base + depth - 2, class_of[nodes[n].byte]))
            break;
        if (grammar_row_is_alive(&rows->rows[base + depth - 1])) {
            allow_node(vocabulary, words, n);
            n++;
        } else {
            n = nodes[n].end;
        }
    }
    grammar_rows_cut(rows, base);
    return rows->failure;
}

/* --- Chains of terminals ------------------------------------------------------------------------ */

enum chain_end {
    CHAINS_DONE,
    CHAINS_TOO_MANY, /* or too large: fill_by_rows() decides */
    CHAINS_FAILED
};

struct chains {
    const struct grammar_vocabulary *vocabulary;
    struct grammar_rows *rows;
    uint32_t *words;
    uint32_t left; /* chains that may still be visited */
    enum chain_end end;
};

static void visit_row(struct chains *chains, uint32_t row, uint32_t parent);

static void allow_words(const struct chains *chains, const uint32_t *words)
{
    size_t count = grammar_trie_mask_words(chains->vocabulary);
    for (size_t w = 0; w < count; w++)
        chains->words[w] |= words[w];
}

/* The tokens of the chain `parent`, `state`, whose last terminal is read by the items of `row` in
 * that state; then the chains that are one terminal longer. */
static void visit_chain(struct chains *chains, uint32_t row, uint32_t parent, uint32_t state)
{
    struct grammar_rows *rows = chains->rows;
    struct grammar_program *program = rows->program;
    struct grammar_mask_cache *cache = &program->masks;
    if (chains->left == 0 || cache->bytes > 2 * LIMIT_GRAMMAR_MASK_BYTES) {
        chains->end = CHAINS_TOO_MANY;
        return;
    }
    chains->left--;
    uint32_t index =
        grammar_mask_cache_find(cache, chains->vocabulary, &program->automaton, parent, state);
    if (index == UINT32_MAX) {
        chains->end = CHAINS_FAILED;
        return;
    }
    const struct grammar_mask_entry *entry = &cache->entries[index];
    if (entry->words != NULL)
        allow_words(chains, entry->words);
    else
        for (uint32_t i = 0; i < entry->token_count; i++)
            allow(chains->words, entry->tokens[i]);
    if (entry->exit_count == 0)
        return;
    uint32_t count = rows->row_count;
    if (!grammar_rows_push_state(rows, row, state)) {
        chains->end = CHAINS_FAILED;
        return;
    }
    visit_row(chains, count, index);
    grammar_rows_cut(rows, count);
}

static int compare_states(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Allows the slices of plain tokens that a start at these states proves; returns the parent of its
 * chains. */
static uint32_t start_chains(struct chains *chains, const uint32_t *states, size_t count)
{
    struct grammar_program *program = chains->rows->program;
    uint32_t slices = grammar_slices_allowed(&program->masks.slices, chains->vocabulary,
                                             &program->automaton, states, count);
    if (slices > 0)
        allow_words(chains, chains->vocabulary->slice_words[slices - 1]);
    return GRAMMAR_CHAIN_START(slices);
}

static uint32_t unique_states(uint32_t *states, uint32_t count)
{
    uint32_t kept = 0;
    qsort(states, count, sizeof *states, compare_states);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || states[kept - 1] != states[i])
            states[kept++] = states[i];
    return kept;
}

/* Each state of the items that read once. */
static void visit_row(struct chains *chains, uint32_t row, uint32_t parent)
{
    struct grammar_row here = chains->rows->rows[row];
    uint32_t few[16], *states = few, count = 0;
    if (here.waiting - here.first > sizeof few / sizeof few[0])
        states = malloc((here.waiting - here.first) * sizeof *states);
    if (states == NULL) {
        chains->end = CHAINS_FAILED;
        return;
    }
    for (uint32_t i = here.first; i < here.waiting; i++)
        if (chains->rows->items[i].state != GRAMMAR_ITEM_TOKEN)
            states[count++] = chains->rows->items[i].state;
    count = unique_states(states, count);
    if (parent == GRAMMAR_CHAIN_START(0))
        parent = start_chains(chains, states, count);
    for (uint32_t i = 0; i < count && chains->end == CHAINS_DONE; i++)
        visit_chain(chains, row, parent, states[i]);
    if (states != few)
        free(states);
}

enum grammar_result grammar_mask_fill(const struct grammar_vocabulary *vocabulary,
                                      struct grammar_rows *rows, uint32_t *words)
{
    uint32_t base = rows->row_count;
    grammar_mask_cache_trim(&rows->program->masks, LIMIT_GRAMMAR_MASK_BYTES);
    allow_named(vocabulary, rows, words);
    struct chains chains = {vocabulary, rows, words, LIMIT_GRAMMAR_CHAINS, CHAINS_DONE};
    visit_row(&chains, base - 1, GRAMMAR_CHAIN_START(0));
    grammar_rows_cut(rows, base);
    if (chains.end == CHAINS_DONE)
        return GRAMMAR_OK;
    if (chains.end == CHAINS_TOO_MANY)
        return fill_by_rows(vocabulary, rows, words);
    return rows->failure != GRAMMAR_OK ? rows->failure : GRAMMAR_FUEL;
}
