/*
 * States of groups as bit sets with counts, found by hash. A choice is allowed only if the rest of
 * the group can still be read, so that no row of the parser is a dead end: with `texts` read, the
 * missing required choices, and the choices that the minimum lacks, must fit below the maximum.
 */
#include "worker/sample/grammar_groups.h"

#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "worker/sample/grammar_program.h"

#define BUCKETS 1024u /* a power of two */

void grammar_groups_init(struct grammar_groups *groups, const struct grammar_program *program)
{
    *groups = (struct grammar_groups){.program = program, .count = 1};
}

void grammar_groups_fini(struct grammar_groups *groups)
{
    free(groups->states);
    free(groups->words);
    free(groups->buckets);
}

static const struct grammar_blob_group *group_at(const struct grammar_groups *groups,
                                                 uint32_t group)
{
    return &groups->program->view.groups[group];
}

static uint32_t words_of(const struct grammar_blob_group *group)
{
    return (group->choice_count + 31) / 32;
}

static struct grammar_group_state state_at(const struct grammar_groups *groups, uint32_t group,
                                           uint32_t state)
{
    if (state != 0)
        return groups->states[state];
    return (struct grammar_group_state){.group = group,
                                        .missing = group_at(groups, group)->required_count};
}

static bool has_read(const struct grammar_groups *groups, uint32_t state, uint32_t choice)
{
    if (state == 0)
        return false;
    return groups->words[groups->states[state].first_word + choice / 32] >> choice % 32 & 1;
}

/* The state after the choice, without its bits. */
static struct grammar_group_state state_after(const struct grammar_groups *groups, uint32_t group,
                                              uint32_t state, uint32_t choice)
{
    const struct grammar_blob_group *shape = group_at(groups, group);
    struct grammar_group_state after = state_at(groups, group, state);
    after.texts += shape->maximum != REGEX_UNBOUNDED;
    if (choice == GRAMMAR_GROUP_EXTRA) {
        after.distinct += shape->minimum > 0 && !after.has_extra;
        after.has_extra = shape->minimum > 0;
        after.early += after.missing > 0;
    } else {
        after.distinct += shape->minimum > 0;
        after.missing -=
            groups->program->view.choices[groups->program->group_first[group] + choice].required;
        after.early = after.missing > 0 ? after.early : 0;
    }
    return after;
}

/* Texts that must still follow. */
static uint32_t lacking(const struct grammar_blob_group *shape,
                        const struct grammar_group_state *state)
{
    uint32_t distinct = shape->minimum > state->distinct ? shape->minimum - state->distinct : 0;
    return distinct > state->missing ? distinct : state->missing;
}

bool grammar_groups_allow(const struct grammar_groups *groups, uint32_t group, uint32_t state,
                          uint32_t choice)
{
    const struct grammar_blob_group *shape = group_at(groups, group);
    if (choice == GRAMMAR_GROUP_EXTRA) {
        struct grammar_group_state here = state_at(groups, group, state);
        if (shape->extra == GRAMMAR_NO_RULE || (here.missing > 0 && here.early >= shape->early))
            return false;
    } else if (has_read(groups, state, choice)) {
        return false;
    }
    if (shape->maximum == REGEX_UNBOUNDED)
        return true;
    struct grammar_group_state after = state_after(groups, group, state, choice);
    return after.texts <= shape->maximum && lacking(shape, &after) <= shape->maximum - after.texts;
}

bool grammar_groups_continue(const struct grammar_groups *groups, uint32_t group, uint32_t state)
{
    if (grammar_groups_allow(groups, group, state, GRAMMAR_GROUP_EXTRA))
        return true;
    uint32_t count = group_at(groups, group)->choice_count;
    for (uint32_t i = 0; i < count; i++)
        if (grammar_groups_allow(groups, group, state, i))
            return true;
    return false;
}

bool grammar_groups_may_end(const struct grammar_groups *groups, uint32_t group, uint32_t state)
{
    struct grammar_group_state here = state_at(groups, group, state);
    return state != 0 && lacking(group_at(groups, group), &here) == 0;
}

uint32_t grammar_groups_find(const struct grammar_program *program, uint32_t group, uint32_t rule)
{
    const struct grammar_blob_choice *choices = program->view.choices + program->group_first[group];
    uint32_t low = 0, high = program->view.groups[group].choice_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (choices[middle].rule < rule)
            low = middle + 1;
        else
            high = middle;
    }
    return low < program->view.groups[group].choice_count && choices[low].rule == rule ? low
                                                                                       : UINT32_MAX;
}

/* --- Numbers of states -------------------------------------------------------------------------- */

static uint32_t state_hash(const struct grammar_groups *groups,
                           const struct grammar_group_state *state)
{
    uint64_t hash = (uint64_t)state->group << 32 | state->texts << 1 | state->has_extra;
    hash ^= (uint64_t)state->early << 48;
    uint32_t count = words_of(group_at(groups, state->group));
    for (uint32_t w = 0; w < count; w++)
        hash = (hash ^ hash >> 29 ^ groups->words[state->first_word + w]) * 0x9E3779B97F4A7C15ull;
    return (uint32_t)(hash >> 40) & (BUCKETS - 1);
}

static bool same_state(const struct grammar_groups *groups, const struct grammar_group_state *x,
                       const struct grammar_group_state *y)
{
    return x->group == y->group && x->texts == y->texts && x->early == y->early &&
           x->has_extra == y->has_extra &&
           memcmp(groups->words + x->first_word, groups->words + y->first_word,
                  words_of(group_at(groups, x->group)) * sizeof *groups->words) == 0;
}

void grammar_groups_cut(struct grammar_groups *groups, uint32_t count)
{
    while (groups->count > count) {
        const struct grammar_group_state *last = &groups->states[--groups->count];
        groups->buckets[state_hash(groups, last)] = last->next;
        groups->word_count = last->first_word;
    }
}

static bool make_room(struct grammar_groups *groups, uint32_t words)
{
    if (groups->buckets == NULL) {
        groups->buckets = calloc(BUCKETS, sizeof *groups->buckets);
        if (groups->buckets == NULL)
            return false;
    }
    if (groups->count >= groups->capacity) {
        uint32_t wider = groups->capacity == 0 ? 64 : groups->capacity * 2;
        struct grammar_group_state *states = wider > LIMIT_GRAMMAR_GROUP_STATES
                                                 ? NULL
                                                 : realloc(groups->states, wider * sizeof *states);
        if (states == NULL)
            return false;
        groups->states = states;
        groups->capacity = wider;
    }
    if (groups->words == NULL || words > groups->word_capacity - groups->word_count) {
        uint64_t wider = groups->word_capacity == 0 ? 256 : groups->word_capacity;
        while (wider < (uint64_t)groups->word_count + words)
            wider *= 2;
        uint32_t *grown = wider > LIMIT_GRAMMAR_GROUP_WORDS
                              ? NULL
                              : realloc(groups->words, wider * sizeof *grown);
        if (grown == NULL)
            return false;
        groups->words = grown;
        groups->word_capacity = (uint32_t)wider;
    }
    return true;
}

uint32_t grammar_groups_read(struct grammar_groups *groups, uint32_t group, uint32_t state,
                             uint32_t choice)
{
    uint32_t words = words_of(group_at(groups, group));
    if (!make_room(groups, words))
        return UINT32_MAX;
    struct grammar_group_state after = state_after(groups, group, state, choice);
    uint32_t *bits = groups->words + groups->word_count;
    if (state == 0)
        memset(bits, 0, words * sizeof *bits);
    else
        memcpy(bits, groups->words + groups->states[state].first_word, words * sizeof *bits);
    if (choice != GRAMMAR_GROUP_EXTRA)
        bits[choice / 32] |= 1u << choice % 32;
    after.first_word = groups->word_count;
    uint32_t *bucket = &groups->buckets[state_hash(groups, &after)];
    for (uint32_t known = *bucket; known != 0; known = groups->states[known].next)
        if (same_state(groups, &groups->states[known], &after))
            return known;
    after.next = *bucket;
    groups->states[groups->count] = after;
    groups->word_count += words;
    *bucket = groups->count;
    return groups->count++;
}
