/*
 * Iteration.
 *
 * Loops, filters, join(), `in` and unpacking iterate over seven kinds of values; one cursor handles
 * them all. A generator of Python is computed at once here, because its items cannot change before
 * they are read; a failure among them is stored in the iterator and reported only if the reader
 * gets there, as in Python.
 */
#include "frontend/prompt/jinja/jinja_cursor.h"

#include <string.h>

#include "frontend/prompt/jinja/jinja_string.h"
#include "proto/utf8.h"

bool jinja_cursor_can(struct jinja_value value)
{
    switch (value.kind) {
    case JINJA_UNDEFINED:
    case JINJA_STRING:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_VIEW:
    case JINJA_RANGE:
    case JINJA_LOOP:
    case JINJA_ITERATOR: return true;
    default: return false;
    }
}

bool jinja_cursor_start(struct jinja_run *run, struct jinja_value value,
                        struct jinja_cursor *cursor)
{
    *cursor = (struct jinja_cursor){.over = value};
    if (!jinja_cursor_can(value) || value.kind == JINJA_LOOP)
        return jinja_fail(run, "'%s' object is not iterable", jinja_value_type(value));
    return true;
}

static bool next_char(struct jinja_run *run, struct jinja_cursor *cursor, struct jinja_value *item)
{
    const struct jinja_string *string = cursor->over.as.string;
    if (cursor->next >= string->length)
        return true;
    bool valid;
    size_t bytes = utf8_scan(string->bytes + cursor->next, string->length - cursor->next, &valid);
    size_t start = cursor->next;
    cursor->next += bytes;
    return jinja_string_slice(run, string, start, start + bytes, item);
}

static bool next_entry(struct jinja_run *run, struct jinja_cursor *cursor,
                       const struct jinja_dict *dict, enum jinja_view_part part,
                       struct jinja_value *item)
{
    if (cursor->next >= dict->count)
        return true;
    const struct jinja_entry *entry = &dict->entries[cursor->next++];
    if (part == JINJA_VIEW_ITEMS)
        return jinja_items_pair(run, entry->key, entry->value, item);
    *item = part == JINJA_VIEW_KEYS ? entry->key : entry->value;
    return true;
}

static bool next_of_iterator(struct jinja_run *run, struct jinja_iterator *iterator,
                             struct jinja_value *item)
{
    if (iterator->next < iterator->count) {
        *item = iterator->items[iterator->next++];
        return true;
    }
    if (iterator->failure == NULL)
        return true;
    const char *failure = iterator->failure;
    iterator->failure = NULL; /* a generator that failed is exhausted */
    return jinja_fail(run, "%s", failure);
}

bool jinja_cursor_next(struct jinja_run *run, struct jinja_cursor *cursor, struct jinja_value *item)
{
    *item = (struct jinja_value){0};
    if (!jinja_run_step(run, 1))
        return false;
    const struct jinja_value *over = &cursor->over;
    switch (over->kind) {
    case JINJA_STRING: return next_char(run, cursor, item);
    case JINJA_LIST:
    case JINJA_TUPLE:
        if (cursor->next < over->as.list->count)
            *item = over->as.list->items[cursor->next++];
        return true;
    case JINJA_DICT: return next_entry(run, cursor, over->as.dict, JINJA_VIEW_KEYS, item);
    case JINJA_VIEW: return next_entry(run, cursor, over->as.view->dict, over->as.view->part, item);
    case JINJA_RANGE:
        if (cursor->next < over->as.range->count)
            *item =
                jinja_int(over->as.range->start + over->as.range->step * (int64_t)cursor->next++);
        return true;
    case JINJA_ITERATOR: return next_of_iterator(run, over->as.iterator, item);
    default: return true;
    }
}

bool jinja_cursor_length(struct jinja_value value, size_t *length)
{
    switch (value.kind) {
    case JINJA_UNDEFINED: *length = 0; return true;
    case JINJA_STRING: *length = jinja_string_chars(value.as.string); return true;
    case JINJA_LIST:
    case JINJA_TUPLE: *length = value.as.list->count; return true;
    case JINJA_DICT: *length = value.as.dict->count; return true;
    case JINJA_VIEW: *length = value.as.view->dict->count; return true;
    case JINJA_RANGE: *length = value.as.range->count; return true;
    default: return false;
    }
}

bool jinja_cursor_collect(struct jinja_run *run, struct jinja_value value, struct jinja_list *list)
{
    if (value.kind == JINJA_LIST || value.kind == JINJA_TUPLE) {
        *list = *value.as.list;
        return true;
    }
    struct jinja_cursor cursor;
    struct jinja_items items = {0};
    if (!jinja_cursor_start(run, value, &cursor))
        return false;
    for (;;) {
        struct jinja_value item;
        if (!jinja_cursor_next(run, &cursor, &item))
            return false;
        if (jinja_is_absent(item))
            break;
        if (!jinja_items_add(run, &items, item))
            return false;
    }
    *list = (struct jinja_list){.items = items.items, .count = items.count};
    return true;
}

bool jinja_items_add(struct jinja_run *run, struct jinja_items *items, struct jinja_value value)
{
    if (items->count == items->capacity) {
        size_t capacity = items->capacity == 0 ? 8 : items->capacity * 2;
        struct jinja_value *grown = jinja_run_take(run, capacity, sizeof(*grown));
        if (grown == NULL || !jinja_run_step(run, capacity / 8))
            return false;
        if (items->count > 0)
            memcpy(grown, items->items, items->count * sizeof(*grown));
        items->items = grown;
        items->capacity = capacity;
    }
    items->items[items->count++] = value;
    return true;
}

bool jinja_items_list(struct jinja_run *run, const struct jinja_items *items, enum jinja_kind kind,
                      struct jinja_value *out)
{
    struct jinja_list *list = jinja_run_take(run, 1, sizeof(*list));
    if (list == NULL)
        return false;
    *list = (struct jinja_list){.items = items->items, .count = items->count};
    *out = (struct jinja_value){.kind = kind, .as.list = list};
    return true;
}

bool jinja_items_iterator(struct jinja_run *run, const struct jinja_items *items, bool failed,
                          struct jinja_value *out)
{
    if (failed && (run->failure != RESULT_INVALID || run->raised))
        return false; /* a bound, or the template's own exception: fails at once */
    struct jinja_iterator *iterator = jinja_run_take(run, 1, sizeof(*iterator));
    if (iterator == NULL)
        return false;
    *iterator = (struct jinja_iterator){.items = items->items, .count = items->count};
    if (failed) {
        size_t bytes = strlen(run->error.text) + 1;
        char *words = jinja_run_take(run, bytes, 1);
        if (words == NULL)
            return false;
        memcpy(words, run->error.text, bytes);
        iterator->failure = words;
        run->failure = RESULT_OK;
    }
    *out = (struct jinja_value){.kind = JINJA_ITERATOR, .as.iterator = iterator};
    return true;
}

bool jinja_items_pair(struct jinja_run *run, struct jinja_value first, struct jinja_value second,
                      struct jinja_value *out)
{
    struct jinja_value *pair = jinja_run_take(run, 2, sizeof(*pair));
    if (pair == NULL)
        return false;
    pair[0] = first;
    pair[1] = second;
    struct jinja_items items = {.items = pair, .count = 2};
    return jinja_items_list(run, &items, JINJA_TUPLE, out);
}
