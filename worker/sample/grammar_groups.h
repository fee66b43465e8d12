/*
 * Which choices of a group (proto/grammar_blob.h) an item of the parser has read. States are
 * numbered in the order in which they are found, equal states have one number, and the latest ones
 * can be dropped, as rows of the parser are. State 0 is that of every group before its first text.
 */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_GROUPS_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar_program;

#define GRAMMAR_GROUP_EXTRA UINT32_MAX /* as a choice: an undeclared text */

struct grammar_group_state {
    uint32_t group;
    uint32_t texts;      /* read so far, if the group has a maximum */
    uint32_t early;      /* undeclared texts read, while a required choice is missing */
    uint32_t distinct;   /* choices read, undeclared texts as one, if the group has a minimum */
    uint32_t missing;    /* required choices that were not read */
    bool has_extra;      /* an undeclared text was read, if the group has a minimum */
    uint32_t first_word; /* bits of the choices read */
    uint32_t next;       /* with the same hash */
};

struct grammar_groups {
    const struct grammar_program *program;
    struct grammar_group_state *states; /* [0] is unused */
    uint32_t count, capacity;
    uint32_t *words;
    uint32_t word_count, word_capacity;
    uint32_t *buckets; /* NULL: no group was read yet */
};

void grammar_groups_init(struct grammar_groups *groups, const struct grammar_program *program);
void grammar_groups_fini(struct grammar_groups *groups);
/* Drops all states but the first `count` >= 1. */
void grammar_groups_cut(struct grammar_groups *groups, uint32_t count);

/* The choice may come next: it was not read, and what the group's counts require can follow it. */
bool grammar_groups_allow(const struct grammar_groups *groups, uint32_t group, uint32_t state,
                          uint32_t choice);
/* Some text may come next. */
bool grammar_groups_continue(const struct grammar_groups *groups, uint32_t group, uint32_t state);
/* The group may end; never in state 0. */
bool grammar_groups_may_end(const struct grammar_groups *groups, uint32_t group, uint32_t state);
/* The state after the choice, which is allowed; UINT32_MAX: out of memory or its bound. */
uint32_t grammar_groups_read(struct grammar_groups *groups, uint32_t group, uint32_t state,
                             uint32_t choice);
/* The choice with this rule, or UINT32_MAX. */
uint32_t grammar_groups_find(const struct grammar_program *program, uint32_t group, uint32_t rule);

#endif
