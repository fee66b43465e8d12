/*
 * The rows of an Earley parser over bytes (Earley 1970, with the treatment of empty rules of Aycock
 * and Horspool 2002). Row i holds the items after i steps; an item whose next symbol is a terminal
 * carries the automaton's state of the part of the terminal that was read. Rows are pushed and cut
 * like a stack. Chains of completions without a choice, as right recursion makes them, are followed
 * once (Leo 1991), so a list costs the same per element whichever side it recurs on.
 */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_ROWS_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_ROWS_H

#include "worker/sample/grammar_groups.h"
#include "worker/sample/grammar_program.h"

/* States of items that read no terminal. */
#define GRAMMAR_ITEM_WAITS 0x7FFFFFFFu /* for the rule that is its next symbol */
#define GRAMMAR_ITEM_TOKEN 0x7FFFFFFEu /* for the token that is its next symbol */
#define GRAMMAR_ITEM_ENDS                                                                          \
    0x7FFFFFFDu /* slot is GRAMMAR_SLOT_END | rule; only while a row is built */

struct grammar_item {
    uint32_t slot;   /* index in the blob's slots: the next symbol */
    uint32_t count;  /* repetitions read, if that is a repeat; the state of a group */
    uint32_t origin; /* row where its production began */
    uint32_t state;
};

struct grammar_row {
    uint32_t first;   /* items that read a terminal or wait for a token */
    uint32_t waiting; /* items that wait for a rule, */
    uint32_t end;     /* up to here */
    uint32_t states;  /* states of groups that were known then */
    uint32_t first_reduction, end_reduction;
    bool may_end; /* the root has been read */
};

/* A rule that ends and began in this row also ends `top`, which began in row `origin`: one item of the
 * row waits for it, as the last symbol of its production, and so on up to `top`. */
struct grammar_reduction {
    uint32_t rule;
    uint32_t top;
    uint32_t origin;
};

struct grammar_rows {
    struct grammar_program *program;
    struct grammar_item *items;
    uint32_t item_count;
    uint32_t item_capacity;
    struct grammar_row *rows;
    uint32_t row_count;
    uint32_t row_capacity;
    struct grammar_reduction *reductions;
    uint32_t reduction_count;
    uint32_t reduction_capacity;
    struct grammar_groups groups;
    uint32_t *predicted; /* [rules] stamp of the row that predicted it last */
    uint64_t *seen;      /* hash table of the items of the row being built: stamp, index */
    uint32_t stamp;
    uint32_t fuel; /* items that the current step may still add */
    enum grammar_result failure;
};

bool grammar_rows_init(struct grammar_rows *rows, struct grammar_program *program);
void grammar_rows_fini(struct grammar_rows *rows);
/* Fuel for one token or mask. */
void grammar_rows_refill(struct grammar_rows *rows);

/* These push one row; false: rows->failure, nothing is pushed. The row may be dead. */
bool grammar_rows_start(struct grammar_rows *rows);
bool grammar_rows_push_byte(struct grammar_rows *rows, uint32_t from, uint32_t byte_class);
/* The same, and after `token` at row `token_from` in one row. */
bool grammar_rows_push_last_byte(struct grammar_rows *rows, uint32_t from, uint32_t byte_class,
                                 uint32_t token_from, uint32_t token);
bool grammar_rows_push_token(struct grammar_rows *rows, uint32_t from, uint32_t token);
/* After the items of row `from` in this state, as terminals that are read. */
bool grammar_rows_push_state(struct grammar_rows *rows, uint32_t from, uint32_t state);

/* Keeps the first `count` rows. */
void grammar_rows_cut(struct grammar_rows *rows, uint32_t count);

static inline bool grammar_row_is_alive(const struct grammar_row *row)
{
    return row->waiting > row->first || row->may_end;
}

#endif
