/*
 * Builds Earley rows. The items of a new row are at the end of the item array, which is also the
 * list of work: an item that waits for a rule predicts it, an ended production completes the items
 * that wait for its rule in the row where it began. Afterwards the row keeps only the items that
 * later steps read.
 */
#include "worker/sample/grammar_rows.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/must.h"

#define SEEN_SLOTS      (2 * LIMIT_GRAMMAR_ROW_ITEMS) /* a power of two */
#define LINEAR_ROWS     8u  /* smaller rows are searched without the table */
#define REDUCTION_ITEMS 64u /* the search for reductions is quadratic in the items that wait */

_Static_assert((SEEN_SLOTS & (SEEN_SLOTS - 1)) == 0, "a mask selects the slot");

bool grammar_rows_init(struct grammar_rows *rows, struct grammar_program *program)
{
    *rows = (struct grammar_rows){.program = program, .fuel = LIMIT_GRAMMAR_STEP_ITEMS};
    grammar_groups_init(&rows->groups, program);
    rows->predicted = calloc(program->view.header->rule_count, sizeof *rows->predicted);
    rows->seen = calloc(SEEN_SLOTS, sizeof *rows->seen);
    return rows->predicted != NULL && rows->seen != NULL;
}

void grammar_rows_fini(struct grammar_rows *rows)
{
    free(rows->items);
    free(rows->rows);
    free(rows->reductions);
    grammar_groups_fini(&rows->groups);
    free(rows->predicted);
    free(rows->seen);
}

void grammar_rows_refill(struct grammar_rows *rows)
{
    rows->fuel = LIMIT_GRAMMAR_STEP_ITEMS;
    rows->failure = GRAMMAR_OK;
}

void grammar_rows_cut(struct grammar_rows *rows, uint32_t count)
{
    must(count <= rows->row_count);
    rows->row_count = count;
    rows->item_count = count == 0 ? 0 : rows->rows[count - 1].end;
    rows->reduction_count = count == 0 ? 0 : rows->rows[count - 1].end_reduction;
    grammar_groups_cut(&rows->groups, count == 0 ? 1 : rows->rows[count - 1].states);
}

static bool fail(struct grammar_rows *rows, enum grammar_result failure)
{
    if (rows->failure == GRAMMAR_OK)
        rows->failure = failure;
    return false;
}

/* --- Items -------------------------------------------------------------------------------------- */

static bool same_item(const struct grammar_item *x, const struct grammar_item *y)
{
    return x->slot == y->slot && x->count == y->count && x->origin == y->origin &&
           x->state == y->state;
}

static uint32_t item_hash(const struct grammar_item *item)
{
    uint64_t hash = ((uint64_t)item->slot << 32 | item->count) * 0x9E3779B97F4A7C15ull;
    hash =
        (hash ^ hash >> 31 ^ ((uint64_t)item->origin << 32 | item->state)) * 0xD6E8FEB86659FD93ull;
    return (uint32_t)(hash >> 40);
}

/* Finds the item in the row being built or the free slot for it. */
static bool find_item(struct grammar_rows *rows, uint32_t first, const struct grammar_item *item,
                      uint64_t **slot)
{
    uint32_t at = item_hash(item) & (SEEN_SLOTS - 1);
    for (; rows->seen[at] >> 32 == rows->stamp; at = (at + 1) & (SEEN_SLOTS - 1))
        if (same_item(&rows->items[first + (uint32_t)rows->seen[at]], item))
            return true;
    *slot = &rows->seen[at];
    return false;
}

static bool is_new_item(struct grammar_rows *rows, uint32_t first, const struct grammar_item *item)
{
    uint32_t count = rows->item_count - first;
    uint64_t *slot;
    if (count < LINEAR_ROWS) {
        for (uint32_t i = first; i < rows->item_count; i++)
            if (same_item(&rows->items[i], item))
                return false;
        return true;
    }
    if (count == LINEAR_ROWS)
        for (uint32_t i = 0; i < count; i++)
            if (!find_item(rows, first, &rows->items[first + i], &slot))
                *slot = (uint64_t)rows->stamp << 32 | i;
    if (find_item(rows, first, item, &slot))
        return false;
    *slot = (uint64_t)rows->stamp << 32 | count;
    return true;
}

static void add_item(struct grammar_rows *rows, uint32_t first, struct grammar_item item)
{
    if (rows->failure != GRAMMAR_OK || !is_new_item(rows, first, &item))
        return;
    if (rows->item_count - first >= LIMIT_GRAMMAR_ROW_ITEMS ||
        rows->item_count >= LIMIT_GRAMMAR_ANSWER_ITEMS || rows->fuel == 0) {
        fail(rows, GRAMMAR_FUEL);
        return;
    }
    rows->fuel--;
    if (rows->item_count == rows->item_capacity) {
        uint32_t wider = rows->item_capacity == 0 ? 256 : rows->item_capacity * 2;
        struct grammar_item *items = realloc(rows->items, wider * sizeof *items);
        if (items == NULL) {
            fail(rows, GRAMMAR_MEMORY);
            return;
        }
        rows->items = items;
        rows->item_capacity = wider;
    }
    rows->items[rows->item_count++] = item;
}

/* --- The closure of a row ----------------------------------------------------------------------- */

/* An item about to read a terminal. */
static uint32_t add_terminal(struct grammar_rows *rows, uint32_t first, struct grammar_item item,
                             uint32_t terminal)
{
    item.state = rows->program->terminal_states[terminal];
    if (item.state != GRAMMAR_STATE_DEAD && item.state != GRAMMAR_STATE_LAST)
        add_item(rows, first, item);
    return item.state;
}

/* Places an item before slot `item.slot`, and after it if the symbol there may be empty. */
static void enter(struct grammar_rows *rows, uint32_t first, struct grammar_item item)
{
    const struct grammar_program *program = rows->program;
    for (bool skips = true; skips; item.slot++, item.count = 0) {
        uint32_t symbol = program->view.slots[item.slot], value = symbol & GRAMMAR_SLOT_VALUE;
        switch (symbol & GRAMMAR_SLOT_KIND) {
        case GRAMMAR_SLOT_TERMINAL:
            skips = (add_terminal(rows, first, item, value) & GRAMMAR_STATE_ACCEPTS) != 0;
            break;
        case GRAMMAR_SLOT_RULE:
            item.state = GRAMMAR_ITEM_WAITS;
            add_item(rows, first, item);
            skips = program->rule_nullable[value];
            break;
        case GRAMMAR_SLOT_REPEAT: {
            const struct grammar_blob_repeat *repeat = &program->view.repeats[value];
            if (item.count < repeat->maximum) {
                item.state = GRAMMAR_ITEM_WAITS;
                if ((repeat->symbol & GRAMMAR_SLOT_KIND) == GRAMMAR_SLOT_RULE)
                    add_item(rows, first, item);
                else
                    add_terminal(rows, first, item, repeat->symbol & GRAMMAR_SLOT_VALUE);
            }
            skips = item.count >= program->repeat_minimum[value];
            break;
        }
        case GRAMMAR_SLOT_GROUP: /* about to read its first text */
            item.state = GRAMMAR_ITEM_WAITS;
            add_item(rows, first, item);
            skips = false;
            break;
        case GRAMMAR_SLOT_TOKEN:
            item.state = GRAMMAR_ITEM_TOKEN;
            add_item(rows, first, item);
            skips = false;
            break;
        default: /* END: the slot becomes the symbol, so productions of one rule are one item */
            item.slot = symbol;
            item.state = GRAMMAR_ITEM_ENDS;
            add_item(rows, first, item);
            skips = false;
        }
    }
}

/* Places the item after its next symbol, or after one more repetition of it. */
static void advance(struct grammar_rows *rows, uint32_t first, struct grammar_item item)
{
    const struct grammar_program *program = rows->program;
    uint32_t symbol = program->view.slots[item.slot], value = symbol & GRAMMAR_SLOT_VALUE;
    if ((symbol & GRAMMAR_SLOT_KIND) == GRAMMAR_SLOT_GROUP) { /* the separator was read */
        item.state = GRAMMAR_ITEM_WAITS;
        add_item(rows, first, item);
        return;
    }
    if ((symbol & GRAMMAR_SLOT_KIND) == GRAMMAR_SLOT_REPEAT) {
        bool open = program->view.repeats[value].maximum == REGEX_UNBOUNDED;
        if (!open || item.count < program->repeat_minimum[value])
            item.count++;
    } else {
        item.slot++;
        item.count = 0;
    }
    enter(rows, first, item);
}

/* The rule for which a waiting item waits. */
static uint32_t awaited_rule(const struct grammar_program *program, const struct grammar_item *item)
{
    uint32_t symbol = program->view.slots[item->slot];
    if ((symbol & GRAMMAR_SLOT_KIND) == GRAMMAR_SLOT_REPEAT)
        symbol = program->view.repeats[symbol & GRAMMAR_SLOT_VALUE].symbol;
    return symbol & GRAMMAR_SLOT_VALUE;
}

/* Places an item of a group after one more text. */
static void advance_group(struct grammar_rows *rows, uint32_t first, struct grammar_item item,
                          uint32_t choice)
{
    uint32_t group = rows->program->view.slots[item.slot] & GRAMMAR_SLOT_VALUE;
    if (!grammar_groups_allow(&rows->groups, group, item.count, choice))
        return;
    item.count = grammar_groups_read(&rows->groups, group, item.count, choice);
    if (item.count == UINT32_MAX) {
        fail(rows, GRAMMAR_FUEL);
        return;
    }
    if (grammar_groups_continue(&rows->groups, group, item.count))
        add_terminal(rows, first, item, rows->program->view.groups[group].separator);
    if (grammar_groups_may_end(&rows->groups, group, item.count)) {
        item.slot++;
        item.count = 0;
        enter(rows, first, item);
    }
}

/* The rule was read from the row where the item waits. */
static void advance_rule(struct grammar_rows *rows, uint32_t first, struct grammar_item item,
                         uint32_t rule)
{
    const struct grammar_program *program = rows->program;
    uint32_t symbol = program->view.slots[item.slot], group = symbol & GRAMMAR_SLOT_VALUE;
    if ((symbol & GRAMMAR_SLOT_KIND) != GRAMMAR_SLOT_GROUP) {
        if (awaited_rule(program, &item) == rule)
            advance(rows, first, item);
        return;
    }
    uint32_t choice = grammar_groups_find(program, group, rule);
    if (choice != UINT32_MAX)
        advance_group(rows, first, item, choice);
    if (program->view.groups[group].extra == rule)
        advance_group(rows, first, item, GRAMMAR_GROUP_EXTRA);
}

static void predict(struct grammar_rows *rows, uint32_t first, uint32_t rule)
{
    const struct grammar_blob_view *view = &rows->program->view;
    if (rows->predicted[rule] == rows->stamp)
        return;
    rows->predicted[rule] = rows->stamp;
    for (uint32_t p = view->rules[rule]; p < view->rules[rule + 1] && rows->failure == GRAMMAR_OK;
         p++)
        enter(rows, first,
              (struct grammar_item){view->productions[p], 0, rows->row_count, GRAMMAR_ITEM_WAITS});
}

/* What a waiting item may read next. */
static void predict_awaited(struct grammar_rows *rows, uint32_t first, struct grammar_item item)
{
    const struct grammar_program *program = rows->program;
    uint32_t symbol = program->view.slots[item.slot], group = symbol & GRAMMAR_SLOT_VALUE;
    if ((symbol & GRAMMAR_SLOT_KIND) != GRAMMAR_SLOT_GROUP) {
        predict(rows, first, awaited_rule(program, &item));
        return;
    }
    const struct grammar_blob_group *shape = &program->view.groups[group];
    const struct grammar_blob_choice *choices = program->view.choices + program->group_first[group];
    uint32_t work = shape->choice_count / 16;
    rows->fuel -= work < rows->fuel ? work : rows->fuel;
    for (uint32_t i = 0; i < shape->choice_count && rows->failure == GRAMMAR_OK; i++)
        if (grammar_groups_allow(&rows->groups, group, item.count, i))
            predict(rows, first, choices[i].rule);
    if (grammar_groups_allow(&rows->groups, group, item.count, GRAMMAR_GROUP_EXTRA))
        predict(rows, first, shape->extra);
}

/* Productions that began in this row were skipped as empty symbols already. */
static void complete(struct grammar_rows *rows, uint32_t first, struct grammar_item ended)
{
    uint32_t rule = ended.slot & GRAMMAR_SLOT_VALUE;
    if (rule == 0 && ended.origin == 0)
        rows->rows[rows->row_count].may_end = true;
    if (ended.origin == rows->row_count)
        return;
    const struct grammar_row *began = &rows->rows[ended.origin];
    for (uint32_t i = began->first_reduction; i < began->end_reduction; i++) {
        const struct grammar_reduction *reduction = &rows->reductions[i];
        if (reduction->rule != rule)
            continue;
        ended.slot = GRAMMAR_SLOT_END | reduction->top;
        ended.origin = reduction->origin;
        add_item(rows, first, ended);
        return;
    }
    for (uint32_t i = began->waiting; i < began->end && rows->failure == GRAMMAR_OK; i++)
        advance_rule(rows, first, rows->items[i], rule);
}

/* --- Reductions --------------------------------------------------------------------------------- */

static bool awaits(const struct grammar_program *program, const struct grammar_item *item,
                   uint32_t rule)
{
    uint32_t symbol = program->view.slots[item->slot], group = symbol & GRAMMAR_SLOT_VALUE;
    if ((symbol & GRAMMAR_SLOT_KIND) != GRAMMAR_SLOT_GROUP)
        return awaited_rule(program, item) == rule;
    const struct grammar_blob_group *shape = &program->view.groups[group];
    return shape->extra == rule || grammar_groups_find(program, group, rule) != UINT32_MAX;
}

static bool add_reduction(struct grammar_rows *rows, struct grammar_reduction reduction)
{
    if (rows->reduction_count == rows->reduction_capacity) {
        uint32_t wider = rows->reduction_capacity == 0 ? 64 : rows->reduction_capacity * 2;
        struct grammar_reduction *grown = realloc(rows->reductions, wider * sizeof *grown);
        if (grown == NULL)
            return fail(rows, GRAMMAR_MEMORY);
        rows->reductions = grown;
        rows->reduction_capacity = wider;
    }
    rows->reductions[rows->reduction_count++] = reduction;
    return true;
}

/* The item waits for the last symbol of its production, and no other item of the row does. */
static bool is_only_way(const struct grammar_rows *rows, const struct grammar_row *row,
                        uint32_t index, uint32_t rule)
{
    for (uint32_t i = row->waiting; i < row->end; i++)
        if (i != index && awaits(rows->program, &rows->items[i], rule))
            return false;
    return true;
}

/* Of a row that is built but for them. Rows with many waiting items go without. */
static bool find_reductions(struct grammar_rows *rows, struct grammar_row *row)
{
    const uint32_t *slots = rows->program->view.slots;
    bool few = row->end - row->waiting <= REDUCTION_ITEMS;
    for (uint32_t i = row->waiting; i < row->end && few; i++) {
        const struct grammar_item *item = &rows->items[i];
        uint32_t symbol = slots[item->slot], next = slots[item->slot + 1];
        uint32_t rule = symbol & GRAMMAR_SLOT_VALUE, top = next & GRAMMAR_SLOT_VALUE;
        if ((symbol & GRAMMAR_SLOT_KIND) != GRAMMAR_SLOT_RULE ||
            (next & GRAMMAR_SLOT_KIND) != GRAMMAR_SLOT_END || !is_only_way(rows, row, i, rule))
            continue;
        struct grammar_reduction reduction = {rule, top, item->origin};
        const struct grammar_row *began = &rows->rows[item->origin];
        bool earlier = item->origin < rows->row_count && top != 0; /* the root's end is noted */
        for (uint32_t r = began->first_reduction; earlier && r < began->end_reduction; r++)
            if (rows->reductions[r].rule == top) {
                reduction.top = rows->reductions[r].top;
                reduction.origin = rows->reductions[r].origin;
                break;
            }
        if (!add_reduction(rows, reduction))
            return false;
    }
    row->end_reduction = rows->reduction_count;
    return true;
}

/* --- Rows --------------------------------------------------------------------------------------- */

static bool begin_row(struct grammar_rows *rows)
{
    if (rows->failure != GRAMMAR_OK)
        return false;
    if (rows->row_count == rows->row_capacity) {
        uint32_t wider = rows->row_capacity == 0 ? 64 : rows->row_capacity * 2;
        struct grammar_row *grown = realloc(rows->rows, wider * sizeof *grown);
        if (grown == NULL)
            return fail(rows, GRAMMAR_MEMORY);
        rows->rows = grown;
        rows->row_capacity = wider;
    }
    rows->rows[rows->row_count] = (struct grammar_row){.first = rows->item_count,
                                                       .waiting = rows->item_count,
                                                       .end = rows->item_count,
                                                       .states = 1,
                                                       .first_reduction = rows->reduction_count,
                                                       .end_reduction = rows->reduction_count};
    if (++rows->stamp == 0) { /* stamps of 2^32 rows ago must not match */
        memset(rows->predicted, 0, rows->program->view.header->rule_count * sizeof(uint32_t));
        memset(rows->seen, 0, SEEN_SLOTS * sizeof *rows->seen);
        rows->stamp = 1;
    }
    return true;
}

/* Runs the list of work and keeps the items that later steps read: first those that read. */
static bool end_row(struct grammar_rows *rows)
{
    struct grammar_row *row = &rows->rows[rows->row_count];
    for (uint32_t i = row->first; i < rows->item_count && rows->failure == GRAMMAR_OK; i++) {
        struct grammar_item item = rows->items[i];
        if (item.state == GRAMMAR_ITEM_WAITS)
            predict_awaited(rows, row->first, item);
        else if (item.state == GRAMMAR_ITEM_ENDS)
            complete(rows, row->first, item);
    }
    if (rows->failure != GRAMMAR_OK) {
        rows->item_count = row->first;
        return false;
    }
    uint32_t kept = row->first;
    for (uint32_t i = row->first; i < rows->item_count; i++)
        if (rows->items[i].state != GRAMMAR_ITEM_ENDS)
            rows->items[kept++] = rows->items[i];
    uint32_t reading = row->first;
    for (uint32_t i = row->first; i < kept; i++) {
        struct grammar_item item = rows->items[i];
        if (item.state == GRAMMAR_ITEM_WAITS)
            continue;
        rows->items[i] = rows->items[reading];
        rows->items[reading++] = item;
    }
    rows->item_count = kept;
    row->waiting = reading;
    row->end = kept;
    row->states = rows->groups.count;
    if (!find_reductions(rows, row)) {
        rows->item_count = row->first;
        return false;
    }
    rows->row_count++;
    return true;
}

bool grammar_rows_start(struct grammar_rows *rows)
{
    if (!begin_row(rows))
        return false;
    predict(rows, rows->item_count, 0);
    return end_row(rows);
}

static void advance_bytes(struct grammar_rows *rows, uint32_t first, uint32_t from,
                          uint32_t byte_class)
{
    struct grammar_row row = rows->rows[from];
    for (uint32_t i = row.first; i < row.waiting && rows->failure == GRAMMAR_OK; i++) {
        struct grammar_item item = rows->items[i];
        if (item.state == GRAMMAR_ITEM_TOKEN)
            continue;
        item.state = grammar_automaton_next(&rows->program->automaton, item.state, byte_class);
        if (item.state == GRAMMAR_STATE_DEAD)
            continue;
        if (item.state == GRAMMAR_STATE_FAILED) {
            fail(rows, GRAMMAR_FUEL);
            return;
        }
        if (item.state != GRAMMAR_STATE_LAST)
            add_item(rows, first, item);
        if ((item.state & GRAMMAR_STATE_ACCEPTS) != 0)
            advance(rows, first, item);
    }
}

static void advance_tokens(struct grammar_rows *rows, uint32_t first, uint32_t from, uint32_t token)
{
    struct grammar_row row = rows->rows[from];
    for (uint32_t i = row.first; i < row.waiting && rows->failure == GRAMMAR_OK; i++)
        if (rows->items[i].state == GRAMMAR_ITEM_TOKEN &&
            rows->program->view.slots[rows->items[i].slot] == (GRAMMAR_SLOT_TOKEN | token))
            advance(rows, first, rows->items[i]);
}

bool grammar_rows_push_byte(struct grammar_rows *rows, uint32_t from, uint32_t byte_class)
{
    if (!begin_row(rows))
        return false;
    advance_bytes(rows, rows->item_count, from, byte_class);
    return end_row(rows);
}

bool grammar_rows_push_last_byte(struct grammar_rows *rows, uint32_t from, uint32_t byte_class,
                                 uint32_t token_from, uint32_t token)
{
    if (!begin_row(rows))
        return false;
    uint32_t first = rows->item_count;
    advance_bytes(rows, first, from, byte_class);
    advance_tokens(rows, first, token_from, token);
    return end_row(rows);
}

bool grammar_rows_push_token(struct grammar_rows *rows, uint32_t from, uint32_t token)
{
    if (!begin_row(rows))
        return false;
    advance_tokens(rows, rows->item_count, from, token);
    return end_row(rows);
}

bool grammar_rows_push_state(struct grammar_rows *rows, uint32_t from, uint32_t state)
{
    if (!begin_row(rows))
        return false;
    uint32_t first = rows->item_count;
    struct grammar_row row = rows->rows[from];
    for (uint32_t i = row.first; i < row.waiting && rows->failure == GRAMMAR_OK; i++)
        if (rows->items[i].state == state)
            advance(rows, first, rows->items[i]);
    return end_row(rows);
}
