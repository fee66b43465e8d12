/*
 * Sets of Unicode code points as sorted ranges: the character classes of regular expressions.
 * Bounded: a set that needs more than CODE_POINT_SET_RANGES ranges becomes `overflown`.
 */
#ifndef SHOAL_FRONTEND_GRAMMAR_CODE_POINT_SET_H
#define SHOAL_FRONTEND_GRAMMAR_CODE_POINT_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/grammar/grammar_builder.h"

#define CODE_POINT_LAST       0x10FFFFu
#define CODE_POINT_SET_RANGES 1024u

struct code_point_set {
    struct code_point_range ranges[CODE_POINT_SET_RANGES];
    uint32_t count;
    bool overflown;
};

void code_point_set_clear(struct code_point_set *set);
/* Ranges may be added in any order and may overlap; the set is normalized by the functions below. */
void code_point_set_add(struct code_point_set *set, uint32_t first, uint32_t last);
void code_point_set_add_all(struct code_point_set *set, const struct code_point_range *ranges,
                            uint32_t count);
/* Sorts and merges. */
void code_point_set_normalize(struct code_point_set *set);
/* Normalizes, then replaces the set by all other code points. */
void code_point_set_negate(struct code_point_set *set);

#endif
