/*
 * Walks the vocabulary's trie with the rows of the parser: a row for each byte of the path, cut
 * when the walk goes back. A byte that leaves the row dead skips all longer tokens.
 */
#include "worker/sample/grammar_mask.h"

#include <string.h>

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

enum grammar_result grammar_mask_fill(const struct grammar_vocabulary *vocabulary,
                                      struct grammar_rows *rows, uint32_t *words)
{
    const struct grammar_trie_node *nodes = vocabulary->nodes;
    const uint8_t *class_of = rows->program->automaton.classes.class_of;
    uint32_t base = rows->row_count;
    allow_named(vocabulary, rows, words);
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
