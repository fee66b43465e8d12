/*
 * Two proofs that plain characters may follow a state, the cheaper one first:
 *
 * 1. From the state's regex (X{m,n} & ~E) T: X contains every plain character, n is at least the
 *    slice's length and more than E's, which is finite, so that a text can always leave E. X{m,n}
 *    and ~E may be several.
 * 2. By walking automaton and plain characters together, one character further at a time, until no
 *    new pair of states is found. The states of several terminals are walked as their union: names
 *    that some patterns match and names that none of them matches allow all texts together. Finite
 *    exceptions are left out, if texts may be longer than all of them: a text can leave them.
 *
 * In both cases no text of plain characters matches T, so that no terminal ends inside.
 */
#include "worker/sample/grammar_slices.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"
#include "worker/sample/grammar_automaton.h"
#include "worker/sample/grammar_trie.h"

/* Bytes of an excluded text; a name of a member */
#define LONGEST_EXCEPTION 100000u
/* Pairs of states of the second proof, which takes up to about 10 us for each */
#define WALK_PAIRS     200u
#define WALK_SLOTS     512u
#define CHEAP_PAIRS    30u /* that a failed walk may take without being noted */
#define HOPEFUL_LENGTH 6u  /* of such a walk: the next one may succeed */
#define LONGEST_TAIL   64u /* parts of a state that are looked at */
#define MOST_SKIPS     7u  /* as a power of two */

enum { FACT_CHARACTER_KNOWN = 1, FACT_CHARACTER = 2 };

void grammar_slices_fini(struct grammar_slices *slices)
{
    free(slices->facts);
}

/* --- Facts of regex nodes ----------------------------------------------------------------------- */

/* NULL: out of memory. */
static uint8_t *facts_of(struct grammar_slices *slices, uint32_t node)
{
    if (node >= slices->fact_count) {
        uint32_t wider = slices->fact_count == 0 ? 1024 : slices->fact_count;
        while (wider <= node)
            wider *= 2;
        uint8_t *facts = realloc(slices->facts, wider);
        if (facts == NULL)
            return NULL;
        memset(facts + slices->fact_count, 0, wider - slices->fact_count);
        slices->facts = facts;
        slices->fact_count = wider;
    }
    return &slices->facts[node];
}

/* Whether no string matches both; false also if that is not known. */
static bool is_disjoint(struct regex_store *store, uint32_t x, uint32_t y)
{
    uint32_t both = regex_and(store, x, y);
    return regex_liveness(store, both, NULL, LIMIT_GRAMMAR_EMPTY_STEPS) == REGEX_DEAD;
}

static bool is_plain_superset(struct grammar_slices *slices, struct regex_store *store,
                              uint32_t node)
{
    uint8_t *facts = facts_of(slices, node);
    if (facts != NULL && (*facts & FACT_CHARACTER_KNOWN) == 0) {
        if (is_disjoint(store, slices->plain, regex_not(store, node)))
            *facts |= FACT_CHARACTER;
        *facts |= FACT_CHARACTER_KNOWN;
    }
    return facts != NULL && (*facts & FACT_CHARACTER) != 0;
}

/* Whether each text of the node has a byte that no plain character has, such as a quote; false also
 * if that is not seen at once. */
static bool must_leave_plain(const struct grammar_slices *slices, const struct regex_store *store,
                             uint32_t node)
{
    for (uint32_t left = LONGEST_TAIL; left > 0; left--, node = store->nodes[node].b) {
        bool last = store->nodes[node].kind != REGEX_KIND_CONCAT;
        const struct regex_node part = store->nodes[last ? node : store->nodes[node].a];
        if (part.kind == REGEX_KIND_SET) {
            const uint64_t *set = store->sets[part.a].words, *plain = slices->plain_bytes;
            if (((set[0] & plain[0]) | (set[1] & plain[1]) | (set[2] & plain[2]) |
                 (set[3] & plain[3])) == 0)
                return true;
        }
        if (last)
            return false;
    }
    return false;
}

/* --- First proof -------------------------------------------------------------------------------- */

/* Every text of at most this many plain characters begins a text that `head`, (X{m,n} & ~E), matches
 * by plain characters alone; 0: not known. */
static uint32_t length_by_regex(struct grammar_slices *slices, struct regex_store *store,
                                uint32_t head)
{
    uint32_t most = REGEX_UNBOUNDED, least = 0;
    for (bool last = false, found = false; !last; head = store->nodes[head].b) {
        last = store->nodes[head].kind != REGEX_KIND_AND;
        struct regex_node part = store->nodes[last ? head : store->nodes[head].a];
        if (part.kind == REGEX_KIND_REPEAT) {
            most = part.maximum < most ? part.maximum : most;
            least = part.minimum > least ? part.minimum : least;
            found = true;
        } else if (part.kind == REGEX_KIND_NOT &&
                   store->nodes[part.a].longest < LONGEST_EXCEPTION) {
            uint32_t beyond = store->nodes[part.a].longest + 1;
            least = beyond > least ? beyond : least;
        } else {
            return 0;
        }
        if ((last && !found) ||
            (part.kind == REGEX_KIND_REPEAT && !is_plain_superset(slices, store, part.a)))
            return 0;
    }
    return most >= least ? most : 0;
}

/* --- Second proof ------------------------------------------------------------------------------- */

struct pair {
    uint32_t state;
    uint8_t plain; /* state of grammar_plain_steps */
};

struct pair_walk {
    const struct grammar_slices *slices;
    struct grammar_automaton *automaton;
    struct pair pairs[WALK_PAIRS];
    uint16_t slots[WALK_SLOTS]; /* of pair + 1 */
    uint16_t open[WALK_PAIRS];  /* pairs inside the character that is being read */
    uint16_t next[WALK_PAIRS];  /* pairs after it */
    uint32_t pair_count, open_count, next_count;
    bool is_full;
};

static void find_classes(struct grammar_slices *slices, const struct regex_classes *classes)
{
    for (size_t s = 0; s < GRAMMAR_PLAIN_STEPS; s++) {
        memset(slices->classes[s], 0, sizeof slices->classes[s]);
        for (uint32_t b = grammar_plain_steps[s].first; b <= grammar_plain_steps[s].last; b++) {
            slices->classes[s][classes->class_of[b] / 64] |= 1ull << classes->class_of[b] % 64;
            slices->plain_bytes[b / 64] |= 1ull << b % 64;
        }
    }
}

static void add_pair(struct pair_walk *walk, uint32_t state, uint8_t plain)
{
    uint32_t at = (state * 2654435761u ^ plain * 40503u) >> 7 & (WALK_SLOTS - 1);
    for (; walk->slots[at] != 0; at = (at + 1) & (WALK_SLOTS - 1)) {
        const struct pair *pair = &walk->pairs[walk->slots[at] - 1];
        if (pair->state == state && pair->plain == plain)
            return;
    }
    if (walk->pair_count == WALK_PAIRS) {
        walk->is_full = true;
        return;
    }
    uint16_t added = (uint16_t)walk->pair_count++;
    walk->pairs[added] = (struct pair){state, plain};
    walk->slots[at] = (uint16_t)(added + 1);
    if (plain == GRAMMAR_PLAIN_BOUNDARY)
        walk->next[walk->next_count++] = added;
    else
        walk->open[walk->open_count++] = added;
}

/* All bytes after the pair; false: some byte may not follow, or ends a match. */
static bool expand_pair(struct pair_walk *walk, uint16_t index)
{
    const struct pair pair = walk->pairs[index];
    for (size_t s = 0; s < GRAMMAR_PLAIN_STEPS && !walk->is_full; s++) {
        if (grammar_plain_steps[s].from != pair.plain)
            continue;
        for (uint32_t w = 0; w < 4; w++)
            for (uint64_t left = walk->slices->classes[s][w]; left != 0; left &= left - 1) {
                uint32_t class = w * 64 + (uint32_t)__builtin_ctzll(left);
                uint32_t next = grammar_automaton_next(walk->automaton, pair.state, class);
                if (next == GRAMMAR_STATE_DEAD || (next & GRAMMAR_STATE_ACCEPTS) != 0)
                    return false; /* GRAMMAR_STATE_FAILED has the flag, too */
                add_pair(walk, next, grammar_plain_steps[s].to);
            }
    }
    return true;
}

/* Every text of at most this many plain characters may follow the state. */
static uint32_t length_by_walk(const struct grammar_slices *slices,
                               struct grammar_automaton *automaton, uint32_t state, uint32_t *pairs)
{
    struct pair_walk walk = {.slices = slices, .automaton = automaton};
    uint16_t now[WALK_PAIRS];
    uint32_t length = 0;
    add_pair(&walk, state, GRAMMAR_PLAIN_BOUNDARY);
    for (; walk.next_count > 0; length++) {
        uint32_t count = walk.next_count;
        memcpy(now, walk.next, count * sizeof *now);
        walk.next_count = 0;
        for (uint32_t i = 0; i < count; i++) {
            bool good = expand_pair(&walk, now[i]);
            while (good && walk.open_count > 0)
                good = expand_pair(&walk, walk.open[--walk.open_count]);
            *pairs = walk.pair_count;
            if (!good || walk.is_full)
                return length;
        }
    }
    return REGEX_UNBOUNDED;
}

/* --- Several terminals -------------------------------------------------------------------------- */

static uint32_t slices_within(const struct grammar_vocabulary *vocabulary, uint32_t length)
{
    uint32_t slices = 0;
    while (slices < GRAMMAR_SLICES && length >= vocabulary->slice_length[slices])
        slices++;
    return slices;
}

/* A node (X & ~E) T without its finite E, whose longest text raises *longest. */
static uint32_t without_exceptions(struct regex_store *store, uint32_t node, uint32_t *longest)
{
    const uint32_t tail = store->nodes[node].b;
    uint32_t head = store->nodes[node].a, kept = REGEX_ANYTHING;
    for (bool last = false; !last; head = store->nodes[head].b) {
        last = store->nodes[head].kind != REGEX_KIND_AND;
        uint32_t part = last ? head : store->nodes[head].a;
        const struct regex_node here = store->nodes[part];
        uint32_t length = here.kind == REGEX_KIND_NOT ? store->nodes[here.a].longest : UINT32_MAX;
        if (length >= LONGEST_EXCEPTION)
            kept = regex_and(store, kept, part);
        else if (length > *longest)
            *longest = length;
        if (kept == REGEX_FAILED)
            return REGEX_FAILED;
    }
    return regex_concat(store, kept, tail);
}

/* The union of the states' nodes as a state, without finite exceptions; dead if it cannot be built. */
static uint32_t union_state(struct grammar_automaton *automaton, const uint32_t *states,
                            uint32_t count, uint32_t *longest)
{
    uint32_t nodes[GRAMMAR_SLICE_STATES];
    for (uint32_t i = 0; i < count; i++)
        nodes[i] =
            without_exceptions(&automaton->store, states[i] & ~GRAMMAR_STATE_ACCEPTS, longest);
    uint32_t node = regex_or_of(&automaton->store, nodes, count);
    return node == REGEX_FAILED ? GRAMMAR_STATE_DEAD : grammar_automaton_state(automaton, node);
}

/* A grammar whose walks fail early and dearly is tried less and less often: its counters may make every
 * state new. */
static bool walk_is_due(struct grammar_slices *slices)
{
    if (slices->walks_to_skip == 0)
        return true;
    slices->walks_to_skip--;
    return false;
}

static void note_walk(struct grammar_slices *slices, uint32_t length, uint32_t pairs)
{
    if (length >= HOPEFUL_LENGTH) {
        slices->failed_walks = 0;
    } else if (pairs > CHEAP_PAIRS) {
        slices->failed_walks += slices->failed_walks < MOST_SKIPS;
        slices->walks_to_skip = 1u << slices->failed_walks;
    }
}

static uint32_t find_slices(struct grammar_slices *slices,
                            const struct grammar_vocabulary *vocabulary,
                            struct grammar_automaton *automaton, const uint32_t *states,
                            uint32_t count)
{
    struct regex_store *store = &automaton->store;
    uint32_t length = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t head = store->nodes[states[i] & ~GRAMMAR_STATE_ACCEPTS].a;
        uint32_t here = length_by_regex(slices, store, head);
        length = here > length ? here : length;
    }
    if (slices_within(vocabulary, length) == 0 && walk_is_due(slices)) {
        uint32_t longest = 0, pairs = 0;
        uint32_t state = union_state(automaton, states, count, &longest);
        if (state != GRAMMAR_STATE_DEAD && state != GRAMMAR_STATE_FAILED)
            length = length_by_walk(slices, automaton, state, &pairs);
        if (length <= longest)
            length = 0;
        note_walk(slices, length, pairs);
    }
    return store->failure == REGEX_FINE ? slices_within(vocabulary, length) : 0;
}

static bool make_plain(struct grammar_slices *slices, struct grammar_automaton *automaton)
{
    if (slices->plain != 0)
        return true;
    uint32_t plain = grammar_plain_regex(&automaton->store);
    if (plain == REGEX_FAILED)
        return false;
    find_classes(slices, &automaton->classes);
    slices->plain = plain;
    return true;
}

/* States that go on with fixed bytes are left for last: the names that are declared, beside those
 * that are not. */
static void choose_states(const struct grammar_slices *slices, const struct regex_store *store,
                          const uint32_t *states, size_t count, struct grammar_slice_set *set)
{
    for (uint32_t fixed = 0; fixed < 2; fixed++)
        for (size_t i = 0; i < count && set->count < GRAMMAR_SLICE_STATES; i++) {
            const struct regex_node node = store->nodes[states[i] & ~GRAMMAR_STATE_ACCEPTS];
            if (node.kind == REGEX_KIND_CONCAT &&
                (store->nodes[node.a].kind == REGEX_KIND_SET) == fixed &&
                must_leave_plain(slices, store, node.b))
                set->states[set->count++] = states[i];
        }
}

uint32_t grammar_slices_allowed(struct grammar_slices *slices,
                                const struct grammar_vocabulary *vocabulary,
                                struct grammar_automaton *automaton, const uint32_t *states,
                                size_t count)
{
    struct grammar_slice_set wanted = {.count = 0};
    uint64_t hash = 0;
    if (!make_plain(slices, automaton))
        return 0;
    choose_states(slices, &automaton->store, states, count, &wanted);
    if (wanted.count == 0)
        return 0;
    for (uint32_t i = 0; i < wanted.count; i++)
        hash = (hash ^ wanted.states[i]) * 0x9E3779B97F4A7C15ull;
    struct grammar_slice_set *kept = &slices->sets[(hash >> 40) % GRAMMAR_SLICE_SETS];
    if (kept->count != wanted.count || memcmp(kept->states, wanted.states, sizeof kept->states)) {
        wanted.slices = find_slices(slices, vocabulary, automaton, wanted.states, wanted.count);
        *kept = wanted;
    }
    return kept->slices;
}
