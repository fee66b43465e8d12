/*
 * The builder's regexes: characters as UTF-8, alternatives that share prefixes, complements of
 * text.
 *
 * Sets of code points become a bitmap with one 64-bit word for each last byte's continuation; equal
 * words, and equal subtrees above them, become one node.
 */
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/grammar_builder_state.h"
#include "proto/limits.h"
#include "proto/must.h"

#define CODE_POINTS     0x110000u
#define FIRST_SURROGATE 0xD800u
#define LAST_SURROGATE  0xDFFFu
#define FACTOR_DEPTH    (LIMIT_GRAMMAR_DEPTH / 2)

_Static_assert(GRAMMAR_NONE == REGEX_FAILED, "one value for failed");
_Static_assert(GRAMMAR_UNBOUNDED == REGEX_UNBOUNDED, "one value for unbounded");

/* The id, or GRAMMAR_NONE once the builder has failed. */
static regex_id give(struct grammar_builder *builder, uint32_t id)
{
    return grammar_builder_spend(builder, 1) ? id : GRAMMAR_NONE;
}

static bool is_usable(const struct grammar_builder *builder, regex_id x)
{
    must(x == GRAMMAR_NONE || x < builder->store.node_count);
    return x != GRAMMAR_NONE && builder->failure == GRAMMAR_FINE;
}

regex_id grammar_regex_nothing(struct grammar_builder *builder)
{
    return give(builder, REGEX_NOTHING);
}

regex_id grammar_regex_empty(struct grammar_builder *builder)
{
    return give(builder, REGEX_EMPTY);
}

regex_id grammar_regex_bytes(struct grammar_builder *builder, const uint64_t set[4])
{
    return give(builder, regex_set(&builder->store, set));
}

regex_id grammar_regex_literal(struct grammar_builder *builder, const char *bytes, size_t length)
{
    uint32_t literal = REGEX_EMPTY;
    for (size_t i = length; i-- > 0 && literal != REGEX_FAILED;)
        literal =
            regex_concat(&builder->store, regex_byte(&builder->store, (uint8_t)bytes[i]), literal);
    return give(builder, literal);
}

/* --- Code points -------------------------------------------------------------------------------- */

static void mark_range(uint64_t *bitmap, uint32_t first, uint32_t last)
{
    for (uint32_t word = first / 64; word <= last / 64; word++) {
        uint32_t low = word == first / 64 ? first % 64 : 0;
        uint32_t high = word == last / 64 ? last % 64 : 63;
        bitmap[word] |= (~0ull << low) & (~0ull >> (63 - high));
    }
}

static uint32_t continuation(struct grammar_builder *builder, uint64_t bits)
{
    return bits == 0 ? REGEX_NOTHING
                     : regex_set(&builder->store, (const uint64_t[]){0, 0, bits, 0});
}

/* Byte first + i, then next[i]: alternatives with the same continuation share a byte set. */
static uint32_t branch(struct grammar_builder *builder, uint8_t first, const uint32_t *next,
                       uint32_t count)
{
    uint32_t parts[64];
    uint32_t part_count = 0;
    bool done[64] = {false};
    for (uint32_t i = 0; i < count; i++) {
        if (done[i] || next[i] == REGEX_NOTHING)
            continue;
        uint64_t words[4] = {0};
        for (uint32_t j = i; j < count; j++)
            if (next[j] == next[i]) {
                uint32_t byte = first + j;
                words[byte / 64] |= 1ull << byte % 64;
                done[j] = true;
            }
        parts[part_count++] =
            regex_concat(&builder->store, regex_set(&builder->store, words), next[i]);
    }
    return regex_or_of(&builder->store, parts, part_count);
}

/* The two continuation bytes whose words start at `words`. */
static uint32_t two_bytes(struct grammar_builder *builder, const uint64_t *words)
{
    uint32_t next[64];
    for (uint32_t i = 0; i < 64; i++)
        next[i] = i > 0 && words[i] == words[i - 1] ? next[i - 1] : continuation(builder, words[i]);
    return branch(builder, 0x80, next, 64);
}

static uint32_t characters_of(struct grammar_builder *builder, const uint64_t *bitmap)
{
    struct regex_store *store = &builder->store;
    uint32_t next[64], parts[4];
    parts[0] = regex_set(store, (const uint64_t[]){bitmap[0], bitmap[1], 0, 0});
    for (uint32_t lead = 2; lead < 32; lead++)
        next[lead] = continuation(builder, bitmap[lead]);
    parts[1] = branch(builder, 0xC2, next + 2, 30);
    uint64_t first[64] = {0}; /* after 0xE0 without the code points of two bytes */
    memcpy(first + 32, bitmap + 32, 32 * sizeof *first);
    for (uint32_t lead = 0; lead < 16; lead++)
        next[lead] = two_bytes(builder, lead == 0 ? first : bitmap + lead * 64);
    parts[2] = branch(builder, 0xE0, next, 16);
    uint32_t planes[5];
    for (uint32_t lead = 0; lead < 5; lead++) {
        for (uint32_t second = 0; second < 64; second++) {
            uint32_t word = lead * 4096 + second * 64;
            bool exists = word >= 0x10000 / 64 && word < CODE_POINTS / 64;
            bool repeated = exists && second > 0 && word > 0x10000 / 64 &&
                            memcmp(bitmap + word, bitmap + word - 64, 64 * sizeof *bitmap) == 0;
            next[second] = !exists    ? REGEX_NOTHING
                           : repeated ? next[second - 1]
                                      : two_bytes(builder, bitmap + word);
        }
        planes[lead] = branch(builder, 0x80, next, 64);
    }
    parts[3] = branch(builder, 0xF0, planes, 5);
    return regex_or_of(store, parts, 4);
}

regex_id grammar_regex_code_points(struct grammar_builder *builder,
                                   const struct code_point_range *ranges, size_t count)
{
    bool is_ascii = true;
    for (size_t i = 0; i < count; i++)
        is_ascii = is_ascii && ranges[i].last < 128;
    if (is_ascii) {
        uint64_t set[4] = {0};
        for (size_t i = 0; i < count; i++)
            if (ranges[i].first <= ranges[i].last)
                mark_range(set, ranges[i].first, ranges[i].last);
        return grammar_regex_bytes(builder, set);
    }
    if (!grammar_builder_spend(builder, CODE_POINTS / 512 + count))
        return GRAMMAR_NONE;
    if (builder->code_points == NULL)
        builder->code_points = calloc(CODE_POINTS / 64, sizeof(uint64_t));
    if (builder->code_points == NULL) {
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
        return GRAMMAR_NONE;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t last = ranges[i].last < CODE_POINTS ? ranges[i].last : CODE_POINTS - 1;
        if (ranges[i].first <= last)
            mark_range(builder->code_points, ranges[i].first, last);
    }
    memset(builder->code_points + FIRST_SURROGATE / 64, 0,
           (LAST_SURROGATE + 1 - FIRST_SURROGATE) / 8);
    uint32_t characters = characters_of(builder, builder->code_points);
    memset(builder->code_points, 0, CODE_POINTS / 8);
    return give(builder, characters);
}

regex_id grammar_regex_any_text(struct grammar_builder *builder)
{
    if (builder->any_text == REGEX_FAILED) {
        regex_id any = grammar_regex_code_points(
            builder, &(const struct code_point_range){0, CODE_POINTS - 1}, 1);
        builder->any_text = regex_repeat(&builder->store, any, 0, REGEX_UNBOUNDED);
    }
    return give(builder, builder->any_text);
}

/* --- Combinations ------------------------------------------------------------------------------- */

regex_id grammar_regex_concat(struct grammar_builder *builder, regex_id x, regex_id y)
{
    if (!is_usable(builder, x) || !is_usable(builder, y))
        return GRAMMAR_NONE;
    return give(builder, regex_concat(&builder->store, x, y));
}

regex_id grammar_regex_or(struct grammar_builder *builder, regex_id x, regex_id y)
{
    if (!is_usable(builder, x) || !is_usable(builder, y))
        return GRAMMAR_NONE;
    return give(builder, regex_or(&builder->store, x, y));
}

struct headed {
    uint32_t head;
    uint32_t tail;
};

static int compare_headed(const void *a, const void *b)
{
    const struct headed *x = a, *y = b;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    return x->tail < y->tail ? -1 : x->tail > y->tail;
}

/* ht | hu | ... = h(t | u) | ...; uses and changes `parts`. */
static uint32_t factor(struct grammar_builder *builder, uint32_t *parts, size_t count,
                       uint32_t depth)
{
    struct regex_store *store = &builder->store;
    if (count < 3 || depth == 0 || !grammar_builder_spend(builder, 4 * count))
        return regex_or_of(store, parts, count);
    struct headed *headed = malloc(count * sizeof *headed);
    if (headed == NULL) {
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
        return REGEX_FAILED;
    }
    for (size_t i = 0; i < count; i++) {
        const struct regex_node *node = &store->nodes[parts[i]];
        bool is_list = node->kind == REGEX_KIND_CONCAT;
        headed[i] = (struct headed){is_list ? node->a : parts[i], is_list ? node->b : REGEX_EMPTY};
    }
    qsort(headed, count, sizeof *headed, compare_headed);
    size_t unique = 1;
    for (size_t i = 1; i < count; i++)
        if (compare_headed(&headed[i], &headed[unique - 1]) != 0)
            headed[unique++] = headed[i];
    count = unique;
    size_t kept = 0;
    uint32_t *tails = parts; /* the parts are in `headed` now */
    uint32_t *groups = malloc(count * sizeof *groups);
    bool good = groups != NULL;
    for (size_t i = 0; i < count && good;) {
        size_t end = i;
        for (; end < count && headed[end].head == headed[i].head; end++)
            tails[end] = headed[end].tail;
        groups[kept] =
            regex_concat(store, headed[i].head, factor(builder, tails + i, end - i, depth - 1));
        good = groups[kept++] != REGEX_FAILED;
        i = end;
    }
    uint32_t all = good ? regex_or_of(store, groups, kept) : REGEX_FAILED;
    if (groups == NULL)
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
    free(groups);
    free(headed);
    return all;
}

regex_id grammar_regex_or_of(struct grammar_builder *builder, const regex_id *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_usable(builder, parts[i]))
            return GRAMMAR_NONE;
    if (grammar_builder_failed(builder))
        return GRAMMAR_NONE;
    uint32_t *copy = malloc((count + 1) * sizeof *copy);
    if (copy == NULL) {
        builder_fail(builder, GRAMMAR_OUT_OF_MEMORY);
        return GRAMMAR_NONE;
    }
    if (count > 0)
        memcpy(copy, parts, count * sizeof *copy);
    uint32_t all = factor(builder, copy, count, FACTOR_DEPTH);
    free(copy);
    return give(builder, all);
}

regex_id grammar_regex_and(struct grammar_builder *builder, regex_id x, regex_id y)
{
    if (!is_usable(builder, x) || !is_usable(builder, y))
        return GRAMMAR_NONE;
    return give(builder, regex_and(&builder->store, x, y));
}

regex_id grammar_regex_not(struct grammar_builder *builder, regex_id x)
{
    if (!is_usable(builder, x))
        return GRAMMAR_NONE;
    regex_id text = grammar_regex_any_text(builder);
    return give(builder, regex_and(&builder->store, text, regex_not(&builder->store, x)));
}

regex_id grammar_regex_repeat(struct grammar_builder *builder, regex_id x, uint32_t minimum,
                              uint32_t maximum)
{
    if (!is_usable(builder, x))
        return GRAMMAR_NONE;
    if (minimum > LIMIT_GRAMMAR_COUNT && minimum <= maximum) {
        builder_fail(builder, GRAMMAR_OUT_OF_FUEL); /* no answer is that long */
        return GRAMMAR_NONE;
    }
    if (maximum > LIMIT_GRAMMAR_COUNT)
        maximum = GRAMMAR_UNBOUNDED;
    return give(builder, regex_repeat(&builder->store, x, minimum, maximum));
}

bool grammar_regex_is_nullable(const struct grammar_builder *builder, regex_id x)
{
    return is_usable(builder, x) && builder->store.nodes[x].nullable;
}

/* --- Emptiness ---------------------------------------------------------------------------------- */

#define QUESTION_FUEL 1000000u

bool grammar_regex_is_nothing(struct grammar_builder *builder, regex_id x, bool *known)
{
    *known = false;
    if (!is_usable(builder, x) || !grammar_builder_spend(builder, 1))
        return false;
    struct regex_store *store = &builder->store;
    uint64_t kept = store->fuel > QUESTION_FUEL ? store->fuel - QUESTION_FUEL : 0;
    store->fuel -= kept;
    enum regex_liveness liveness = REGEX_LIVENESS_UNKNOWN;
    if (!store->nodes[x].is_complex)
        liveness = x == REGEX_NOTHING ? REGEX_DEAD : REGEX_LIVE;
    else
        liveness = regex_liveness(store, x, NULL, LIMIT_GRAMMAR_EMPTY_STEPS);
    if (store->failure == REGEX_OUT_OF_FUEL && kept > 0)
        store->failure = REGEX_FINE;
    store->fuel += kept;
    *known = liveness != REGEX_LIVENESS_UNKNOWN && !grammar_builder_failed(builder);
    return *known && liveness == REGEX_DEAD;
}
