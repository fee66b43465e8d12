/*
 * Ranges are appended as they come and sorted once, when the class is complete. Appending merges
 * with the last range where it can, so that long lists in order stay short.
 */
#include "frontend/grammar/code_point_set.h"

#include <stdlib.h>

void code_point_set_clear(struct code_point_set *set)
{
    set->count = 0;
    set->overflown = false;
}

void code_point_set_add(struct code_point_set *set, uint32_t first, uint32_t last)
{
    if (first > last)
        return;
    if (set->count == CODE_POINT_SET_RANGES)
        code_point_set_normalize(set);
    if (set->count == CODE_POINT_SET_RANGES) {
        set->overflown = true;
        return;
    }
    set->ranges[set->count++] = (struct code_point_range){.first = first, .last = last};
}

void code_point_set_add_all(struct code_point_set *set, const struct code_point_range *ranges,
                            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        code_point_set_add(set, ranges[i].first, ranges[i].last);
}

static int range_compare(const void *left, const void *right)
{
    uint32_t a = ((const struct code_point_range *)left)->first;
    uint32_t b = ((const struct code_point_range *)right)->first;
    return a < b ? -1 : a > b;
}

void code_point_set_normalize(struct code_point_set *set)
{
    if (set->count < 2)
        return;
    qsort(set->ranges, set->count, sizeof(set->ranges[0]), range_compare);
    uint32_t kept = 0;
    for (uint32_t i = 1; i < set->count; i++) {
        struct code_point_range *last = &set->ranges[kept];
        if (set->ranges[i].first <= last->last + 1) {
            if (set->ranges[i].last > last->last)
                last->last = set->ranges[i].last;
        } else {
            set->ranges[++kept] = set->ranges[i];
        }
    }
    set->count = kept + 1;
}

void code_point_set_negate(struct code_point_set *set)
{
    code_point_set_normalize(set);
    struct code_point_range *ranges = set->ranges;
    uint32_t next = 0, kept = 0;
    bool end = false; /* a range ended at the last code point */
    for (uint32_t i = 0; i < set->count; i++) {
        struct code_point_range taken = ranges[i];
        /* kept <= i: a gap is written where the range before it was. */
        if (taken.first > next)
            ranges[kept++] = (struct code_point_range){.first = next, .last = taken.first - 1};
        next = taken.last + 1;
        end = taken.last >= CODE_POINT_LAST;
    }
    if (!end && kept == CODE_POINT_SET_RANGES)
        set->overflown = true;
    else if (!end)
        ranges[kept++] = (struct code_point_range){.first = next, .last = CODE_POINT_LAST};
    set->count = kept;
}
