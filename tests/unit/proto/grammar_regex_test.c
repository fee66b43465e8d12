/*
 * Nodes and derivatives of regular expressions: equal expressions have one id, and random
 * expressions match exactly the strings of a reference that lists all strings of up to four bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/grammar_regex.h"
#include "proto/limits.h"
#include "tests/support/regex_texts.h"
#include "tests/support/test_random.h"

#define BYTES_LIMIT ((size_t)64 << 20)
#define FUEL        1000000000ull
#define UNBOUNDED   REGEX_UNBOUNDED

static struct regex_store store;

static int open_store(void **state)
{
    (void)state;
    return regex_store_init(&store, BYTES_LIMIT, FUEL) ? 0 : -1;
}

static int close_store(void **state)
{
    (void)state;
    regex_store_fini(&store);
    return 0;
}

static uint32_t byte(char b)
{
    return regex_byte(&store, (uint8_t)b);
}

static uint32_t set_of(const char *bytes)
{
    return regex_texts_set(&store, bytes);
}

static uint32_t text(const char *bytes)
{
    return regex_texts_all(&store, bytes);
}

static uint32_t repeat(uint32_t x, uint32_t minimum, uint32_t maximum)
{
    return regex_repeat(&store, x, minimum, maximum);
}

static bool matches(uint32_t node, const char *bytes)
{
    for (; *bytes != '\0'; bytes++)
        node = regex_derivative(&store, node, (uint8_t)*bytes);
    assert_int_not_equal(node, REGEX_FAILED);
    return store.nodes[node].nullable;
}

/* --- Equal expressions -------------------------------------------------------------------------- */

static void neutral_and_absorbing_elements_vanish(void **state)
{
    (void)state;
    uint32_t a = byte('a');
    assert_int_equal(regex_concat(&store, a, REGEX_EMPTY), a);
    assert_int_equal(regex_concat(&store, REGEX_EMPTY, a), a);
    assert_int_equal(regex_concat(&store, a, REGEX_NOTHING), REGEX_NOTHING);
    assert_int_equal(regex_concat(&store, REGEX_NOTHING, a), REGEX_NOTHING);
    assert_int_equal(regex_or(&store, a, REGEX_NOTHING), a);
    assert_int_equal(regex_or(&store, a, REGEX_ANYTHING), REGEX_ANYTHING);
    assert_int_equal(regex_or(&store, REGEX_NOTHING, REGEX_NOTHING), REGEX_NOTHING);
    assert_int_equal(regex_or_of(&store, NULL, 0), REGEX_NOTHING);
    assert_int_equal(regex_and(&store, a, REGEX_ANYTHING), a);
    assert_int_equal(regex_and(&store, a, REGEX_NOTHING), REGEX_NOTHING);
    assert_int_equal(regex_and(&store, REGEX_ANYTHING, REGEX_ANYTHING), REGEX_ANYTHING);
    assert_int_equal(regex_and(&store, text("ab"), REGEX_EMPTY), REGEX_NOTHING);
    assert_int_equal(regex_and(&store, repeat(text("ab"), 0, 2), REGEX_EMPTY), REGEX_EMPTY);
    assert_int_equal(regex_and(&store, byte('a'), byte('b')), REGEX_NOTHING);
    assert_int_equal(regex_and(&store, text("ab"), regex_not(&store, text("ab"))), REGEX_NOTHING);
    assert_int_equal(regex_not(&store, regex_not(&store, a)), a);
    assert_int_equal(regex_not(&store, REGEX_NOTHING), REGEX_ANYTHING);
    assert_int_equal(regex_set(&store, (uint64_t[4]){0}), REGEX_NOTHING);
    /* The empty string is kept only beside members without it. */
    assert_true(matches(regex_or(&store, REGEX_EMPTY, text("ab")), ""));
    uint32_t optional = repeat(text("ab"), 0, 2);
    assert_int_equal(regex_or(&store, REGEX_EMPTY, optional), optional);
}

static void order_and_grouping_do_not_count(void **state)
{
    (void)state;
    uint32_t x = text("xa"), y = text("yb"), z = text("zc");
    uint32_t parts[20];
    for (size_t i = 0; i < 20; i++)
        parts[i] = text((char[]){(char)('a' + i), '-', '\0'});
    uint32_t some = regex_or_of(&store, parts, 10);
    uint32_t all = regex_or_of(&store, parts, 20);
    for (size_t i = 0; i < 10; i++) {
        uint32_t swapped = parts[i];
        parts[i] = parts[19 - i];
        parts[19 - i] = swapped;
    }
    assert_int_equal(regex_or_of(&store, parts, 20), all);
    assert_int_equal(regex_or(&store, some, all), all);
    for (size_t i = 0; i < 20; i++)
        assert_true(matches(all, (char[]){(char)('a' + i), '-', '\0'}));
    assert_false(matches(all, "u-"));

    assert_int_equal(regex_or(&store, x, y), regex_or(&store, y, x));
    assert_int_equal(regex_or(&store, x, x), x);
    assert_int_equal(regex_or(&store, regex_or(&store, x, y), z),
                     regex_or(&store, z, regex_or(&store, y, x)));
    uint32_t nx = regex_not(&store, x), ny = regex_not(&store, y), nz = regex_not(&store, z);
    assert_int_equal(regex_and(&store, regex_and(&store, nx, ny), nz),
                     regex_and(&store, nz, regex_and(&store, ny, nx)));
    assert_int_equal(regex_concat(&store, regex_concat(&store, x, y), z),
                     regex_concat(&store, x, regex_concat(&store, y, z)));
    assert_int_equal(regex_or(&store, byte('a'), byte('b')), set_of("ab"));
    assert_int_equal(regex_and(&store, set_of("abc"), set_of("bcd")), set_of("bc"));
}

static void counts_are_merged(void **state)
{
    (void)state;
    uint32_t ab = text("ab"), c = byte('c');
    assert_int_equal(repeat(ab, 1, 1), ab);
    assert_int_equal(repeat(ab, 0, 0), REGEX_EMPTY);
    assert_int_equal(repeat(ab, 3, 2), REGEX_NOTHING);
    assert_int_equal(repeat(ab, UNBOUNDED, UNBOUNDED), REGEX_NOTHING);
    assert_int_equal(repeat(REGEX_NOTHING, 0, 3), REGEX_EMPTY);
    assert_int_equal(repeat(REGEX_NOTHING, 1, 3), REGEX_NOTHING);
    assert_int_equal(repeat(REGEX_EMPTY, 2, 3), REGEX_EMPTY);
    assert_int_equal(repeat(REGEX_ANYTHING, 2, 3), REGEX_ANYTHING);
    assert_int_equal(repeat(repeat(ab, 0, UNBOUNDED), 2, 3), repeat(ab, 0, UNBOUNDED));
    assert_int_equal(repeat(repeat(ab, 1, UNBOUNDED), 2, 3), repeat(ab, 2, UNBOUNDED));
    assert_int_equal(repeat(repeat(ab, 1, UNBOUNDED), 0, 3), repeat(ab, 0, UNBOUNDED));
    assert_int_equal(repeat(repeat(ab, 0, 1), 2, 3), repeat(ab, 0, 3));
    assert_int_not_equal(repeat(repeat(ab, 0, 2), 0, 3), repeat(ab, 0, 3));
    assert_int_not_equal(repeat(repeat(ab, 2, UNBOUNDED), 2, 3), repeat(ab, 2, UNBOUNDED));

    assert_int_equal(regex_concat(&store, repeat(ab, 1, 2), repeat(ab, 3, 5)), repeat(ab, 4, 7));
    assert_int_equal(regex_concat(&store, repeat(ab, 1, 2), repeat(ab, 3, UNBOUNDED)),
                     repeat(ab, 4, UNBOUNDED));
    assert_int_equal(regex_concat(&store, repeat(ab, 2, UNBOUNDED), repeat(ab, 0, 2)),
                     repeat(ab, 2, UNBOUNDED));
    assert_int_equal(
        regex_concat(&store, repeat(ab, 1, 2), regex_concat(&store, repeat(ab, 0, 3), c)),
        regex_concat(&store, repeat(ab, 1, 5), c));
    /* Sums of 2^30 and more are not formed: they would reach the mark of no maximum. */
    uint32_t half = 1u << 29;
    uint32_t huge = regex_concat(&store, repeat(ab, half, half), repeat(ab, half, half));
    assert_int_equal(store.nodes[huge].kind, REGEX_KIND_CONCAT);
    huge = regex_concat(&store, repeat(ab, 0, half), repeat(ab, 0, half));
    assert_int_equal(store.nodes[huge].kind, REGEX_KIND_CONCAT);
    huge = regex_concat(&store, repeat(ab, 0, half), repeat(ab, 0, half - 1));
    assert_int_equal(huge, repeat(ab, 0, 2 * half - 1));

    assert_int_equal(regex_or(&store, repeat(ab, 0, 2), repeat(ab, 3, 5)), repeat(ab, 0, 5));
    assert_int_equal(regex_or(&store, repeat(ab, 3, 5), repeat(ab, 0, 2)), repeat(ab, 0, 5));
    assert_int_equal(regex_or(&store, repeat(ab, 2, 6), repeat(ab, 3, 5)), repeat(ab, 2, 6));
    assert_int_not_equal(regex_or(&store, repeat(ab, 0, 2), repeat(ab, 4, 5)), repeat(ab, 0, 5));
    assert_int_equal(regex_or(&store, regex_concat(&store, repeat(ab, 2, 3), c),
                              regex_concat(&store, repeat(ab, 4, 5), c)),
                     regex_concat(&store, repeat(ab, 2, 5), c));
    assert_int_equal(
        store.nodes[regex_or(&store, regex_concat(&store, repeat(ab, 2, 3), c), repeat(ab, 2, 3))]
            .kind,
        REGEX_KIND_OR);
    /* Three that meet one after the other. */
    uint32_t counts[3] = {repeat(ab, 0, 2), repeat(ab, 6, 8), repeat(ab, 3, 5)};
    assert_int_equal(regex_or_of(&store, counts, 3), repeat(ab, 0, 8));
}

static void tables_grow_and_keep_ids(void **state)
{
    (void)state;
    enum { NODES = 5000 };
    static uint32_t sets[NODES], nodes[NODES];
    for (uint32_t i = 0; i < NODES; i++) {
        sets[i] = regex_set(&store, (uint64_t[4]){i + 1, 0, 0, i % 3});
        nodes[i] = repeat(sets[i], 2, 3 + i);
        assert_int_not_equal(nodes[i], REGEX_FAILED);
    }
    assert_int_equal(store.node_count, 3 + 2 * NODES);
    assert_int_equal(store.set_count, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(regex_set(&store, (uint64_t[4]){i + 1, 0, 0, i % 3}), sets[i]);
        assert_int_equal(repeat(sets[i], 2, 3 + i), nodes[i]);
    }
    assert_int_equal(store.node_count, 3 + 2 * NODES);
    assert_int_equal(store.derived_mask + 1, store.node_capacity);
    assert_int_equal(store.bytes,
                     store.node_capacity * (sizeof *store.nodes + sizeof *store.derived) +
                         (store.slot_mask + 1) * sizeof *store.slots +
                         store.set_capacity * sizeof *store.sets +
                         (store.set_slot_mask + 1) * sizeof *store.set_slots);
}

/* --- What nodes record -------------------------------------------------------------------------- */

static void assert_lengths(uint32_t node, uint32_t shortest, uint32_t longest)
{
    assert_int_equal(store.nodes[node].shortest, shortest);
    assert_int_equal(store.nodes[node].longest, longest);
}

static void lengths_are_bounded_from_both_sides(void **state)
{
    (void)state;
    uint32_t a = text("ab"), b = text("cde");
    assert_lengths(REGEX_EMPTY, 0, 0);
    assert_lengths(REGEX_ANYTHING, 0, UNBOUNDED);
    assert_lengths(byte('a'), 1, 1);
    assert_lengths(regex_concat(&store, a, b), 5, 5);
    assert_lengths(regex_or(&store, a, b), 2, 3);
    assert_lengths(regex_or(&store, b, text("fg")), 2, 3);
    assert_lengths(repeat(b, 2, 4), 6, 12);
    assert_lengths(repeat(b, 2, UNBOUNDED), 6, UNBOUNDED);
    assert_lengths(repeat(repeat(b, 1, UNBOUNDED), 0, 1), 0, UNBOUNDED);
    assert_lengths(regex_not(&store, a), 0, UNBOUNDED);
    assert_lengths(regex_and(&store, regex_not(&store, a), b), 3, 3);
    assert_lengths(regex_and(&store, repeat(a, 1, 5), repeat(b, 1, 2)), 3, 6);
    /* Saturated. */
    uint32_t many = repeat(b, 1u << 30, 1u << 30);
    assert_lengths(many, 3u << 30, 3u << 30);
    assert_lengths(repeat(many, 2, 3), UINT32_MAX, UNBOUNDED);
    assert_lengths(regex_concat(&store, many, repeat(a, 1u << 29, UNBOUNDED)), UINT32_MAX,
                   UNBOUNDED);
    assert_lengths(regex_concat(&store, many, repeat(byte('x'), 1u << 29, 1u << 29)), 7u << 29,
                   7u << 29);
}

static void complexity_passes_to_the_whole(void **state)
{
    (void)state;
    uint32_t plain = text("ab"), complement = regex_not(&store, plain);
    assert_false(store.nodes[regex_or(&store, plain, repeat(plain, 2, 3))].is_complex);
    assert_true(store.nodes[complement].is_complex);
    assert_true(store.nodes[regex_and(&store, repeat(plain, 1, 2), text("abab"))].is_complex);
    assert_true(store.nodes[regex_concat(&store, complement, plain)].is_complex);
    assert_true(store.nodes[regex_concat(&store, plain, complement)].is_complex);
    assert_true(store.nodes[regex_or(&store, plain, complement)].is_complex);
    assert_true(store.nodes[repeat(complement, 2, 3)].is_complex);
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    uint32_t node = text("ab"); /* depth 1 */
    for (uint32_t depth = 2; depth <= LIMIT_GRAMMAR_DEPTH; depth++) {
        node = depth % 2 == 0 ? regex_not(&store, node) : repeat(node, 2, 5);
        assert_int_equal(store.nodes[node].depth, depth);
    }
    uint32_t right = regex_concat(&store, byte('x'), node);
    assert_int_equal(store.nodes[right].depth, LIMIT_GRAMMAR_DEPTH);
    assert_int_equal(store.failure, REGEX_FINE);
    assert_int_equal(repeat(node, 2, 7), REGEX_FAILED);
    assert_int_equal(store.failure, REGEX_TOO_DEEP);
    assert_int_equal(byte('a'), REGEX_FAILED);
}

/* --- Limits ------------------------------------------------------------------------------------- */

static void fuel_ends_and_stays_ended(void **state)
{
    (void)state;
    uint32_t a = byte('a');
    store.fuel = 11;
    assert_true(regex_scratch_push(&store, a));
    assert_int_equal(store.fuel, 10);
    assert_int_equal(store.scratch.ids[--store.scratch.count], a);
    assert_true(regex_spend(&store, 10));
    assert_int_equal(store.fuel, 0);
    assert_false(regex_spend(&store, 1));
    assert_int_equal(store.failure, REGEX_OUT_OF_FUEL);
    store.fuel = 100;
    assert_false(regex_spend(&store, 1));
    assert_int_equal(store.fuel, 100);
    size_t pushed = store.scratch.count;
    const uint32_t parts[] = {a, REGEX_EMPTY};
    assert_int_equal(regex_or_of(&store, parts, 2), REGEX_FAILED);
    assert_int_equal(regex_or_of(&store, NULL, 0), REGEX_FAILED);
    assert_int_equal(regex_and(&store, a, a), REGEX_FAILED);
    assert_int_equal(regex_not(&store, a), REGEX_FAILED);
    assert_int_equal(regex_concat(&store, a, a), REGEX_FAILED);
    assert_int_equal(repeat(a, 0, 0), REGEX_FAILED);
    assert_int_equal(regex_derivative(&store, a, 'a'), REGEX_FAILED);
    assert_int_equal(regex_set(&store, (uint64_t[4]){0}), REGEX_FAILED);
    assert_int_equal(store.scratch.count, pushed);
    store.failure = REGEX_FINE;
    assert_int_equal(regex_not(&store, REGEX_FAILED), REGEX_FAILED);
    assert_int_equal(repeat(REGEX_FAILED, 0, 0), REGEX_FAILED);
    assert_int_equal(regex_concat(&store, REGEX_NOTHING, REGEX_FAILED), REGEX_FAILED);
    assert_int_equal(regex_and(&store, REGEX_FAILED, REGEX_NOTHING), REGEX_FAILED);
    assert_int_equal(regex_or(&store, a, REGEX_FAILED), REGEX_FAILED);
    assert_int_equal(regex_derivative(&store, REGEX_FAILED, 'a'), REGEX_FAILED);
    assert_int_equal(store.scratch.count, pushed);
}

static uint32_t derive_something(void)
{
    uint32_t x = regex_or(&store, text("abc"), repeat(text("ad"), 2, 5));
    uint32_t y = regex_and(&store, regex_not(&store, text("ab")), x);
    uint32_t node = regex_derivative(&store, regex_concat(&store, y, x), 'a');
    assert_int_equal(store.scratch.count, 0);
    assert_int_equal(node == REGEX_FAILED, store.failure == REGEX_OUT_OF_FUEL);
    return node;
}

/* If fuel ends at any step, the work fails, and the same work with more fuel succeeds. */
static void any_step_may_be_the_last(void **state)
{
    (void)state;
    uint32_t node = REGEX_FAILED;
    for (uint64_t fuel = 0; node == REGEX_FAILED; fuel++) {
        assert_true(fuel < 10000);
        regex_store_fini(&store);
        assert_true(regex_store_init(&store, BYTES_LIMIT, fuel));
        node = derive_something();
        store.fuel = FUEL;
        store.failure = REGEX_FINE;
        assert_true(matches(derive_something(), "dadabc"));
    }
}

static void memory_is_bounded(void **state)
{
    (void)state;
    size_t limit = store.bytes + 200000;
    store.bytes_limit = limit;
    uint32_t count = 0;
    while (regex_set(&store, (uint64_t[4]){++count, 1, 0, 0}) != REGEX_FAILED)
        assert_true(store.bytes <= limit);
    assert_int_equal(store.failure, REGEX_OUT_OF_MEMORY);
    assert_true(store.bytes <= limit);
    assert_in_range(count, 512, 5000);
    /* With more memory it goes on where it stopped. */
    store.failure = REGEX_FINE;
    store.bytes_limit = BYTES_LIMIT;
    uint32_t again = regex_set(&store, (uint64_t[4]){count, 1, 0, 0});
    assert_int_not_equal(again, REGEX_FAILED);
    assert_int_equal(regex_derivative(&store, again, 64), REGEX_EMPTY);
    regex_store_fini(&store);
    assert_int_equal(store.failure, REGEX_OUT_OF_MEMORY);
    assert_int_equal(byte('a'), REGEX_FAILED);
}

/* --- Against a list of all short strings -------------------------------------------------------- */

/* Strings of up to LENGTH bytes of the alphabet, by length and then by value. The alphabet has bytes
 * on both sides of a word of a set. */
#define LENGTH  4u
#define LETTERS 3u
#define STRINGS (1u + 3u + 9u + 27u + 81u)
static const uint8_t alphabet[LETTERS] = {63, 64, 255};
static const uint32_t first_of[LENGTH + 2] = {0, 1, 4, 13, 40, STRINGS};
static const uint32_t power_of[LENGTH + 1] = {1, 3, 9, 27, 81};

struct language {
    bool has[STRINGS];
};

static uint32_t length_of(uint32_t string)
{
    uint32_t length = 0;
    while (string >= first_of[length + 1])
        length++;
    return length;
}

static void language_concat(struct language *out, const struct language *x,
                            const struct language *y)
{
    struct language both = {{false}};
    for (uint32_t s = 0; s < STRINGS; s++)
        for (uint32_t t = 0; x->has[s] && t < STRINGS; t++) {
            uint32_t left = length_of(s), right = length_of(t);
            if (y->has[t] && left + right <= LENGTH)
                both.has[first_of[left + right] + (s - first_of[left]) * power_of[right] + t -
                         first_of[right]] = true;
        }
    *out = both;
}

static void language_repeat(struct language *out, const struct language *x, uint32_t minimum,
                            uint32_t maximum)
{
    struct language power = {.has = {true}}, all = {{false}};
    uint32_t last = maximum == UNBOUNDED ? minimum + LENGTH : maximum;
    for (uint32_t count = 0; count <= last; count++) {
        for (uint32_t s = 0; count >= minimum && s < STRINGS; s++)
            all.has[s] = all.has[s] || power.has[s];
        language_concat(&power, &power, x);
    }
    *out = all;
}

/* A random expression and its language. */
static uint32_t draw(struct test_random *random, uint32_t depth, struct language *out)
{
    struct language x = {{false}}, y = {{false}};
    uint32_t choice = depth == 0 ? 0 : test_random_below(random, 7);
    if (choice < 2) {
        uint32_t letters = test_random_below(random, 8);
        uint64_t words[4] = {0};
        *out = x;
        for (uint32_t i = 0; i < LETTERS; i++)
            if (letters >> i & 1) {
                words[alphabet[i] / 64] |= 1ull << alphabet[i] % 64;
                out->has[1 + i] = true;
            }
        out->has[0] = letters == 0;
        return letters == 0 ? REGEX_EMPTY : regex_set(&store, words);
    }
    uint32_t a = draw(random, depth - 1, &x);
    if (choice == 2) {
        for (uint32_t s = 0; s < STRINGS; s++)
            out->has[s] = !x.has[s];
        return regex_not(&store, a);
    }
    if (choice == 3) {
        uint32_t minimum = test_random_below(random, 3);
        bool open = test_random_below(random, 3) == 0;
        uint32_t maximum = open ? UNBOUNDED : minimum + test_random_below(random, 3);
        language_repeat(out, &x, minimum, maximum);
        return regex_repeat(&store, a, minimum, maximum);
    }
    uint32_t b = draw(random, depth - 1, &y);
    if (choice == 4) {
        language_concat(out, &x, &y);
        return regex_concat(&store, a, b);
    }
    for (uint32_t s = 0; s < STRINGS; s++)
        out->has[s] = choice == 5 ? x.has[s] || y.has[s] : x.has[s] && y.has[s];
    return choice == 5 ? regex_or(&store, a, b) : regex_and(&store, a, b);
}

static void check_strings(uint64_t seed, uint32_t node, const struct language *language)
{
    uint32_t states[STRINGS] = {node};
    for (uint32_t s = 0; s < STRINGS; s++) {
        uint32_t length = length_of(s);
        if (length > 0) {
            uint32_t value = s - first_of[length];
            states[s] = regex_derivative(&store, states[first_of[length - 1] + value / LETTERS],
                                         alphabet[value % LETTERS]);
        }
        assert_int_not_equal(states[s], REGEX_FAILED);
        if (store.nodes[states[s]].nullable != language->has[s])
            fail_msg("seed %llu: string %u", (unsigned long long)seed, s);
        if (language->has[s] &&
            (store.nodes[node].shortest > length || store.nodes[node].longest < length))
            fail_msg("seed %llu: bounds of string %u", (unsigned long long)seed, s);
        if (length >= LENGTH)
            continue;
        /* Each byte that same_derivative names has the same derivative. */
        for (uint32_t i = 0; i < LETTERS; i++) {
            struct regex_byte_set same = {{~0ull, ~0ull, ~0ull, ~0ull}};
            regex_same_derivative(&store, states[s], alphabet[i], &same);
            assert_true(same.words[alphabet[i] / 64] >> alphabet[i] % 64 & 1);
            uint32_t next = regex_derivative(&store, states[s], alphabet[i]);
            for (uint32_t j = 0; j < LETTERS; j++)
                if ((same.words[alphabet[j] / 64] >> alphabet[j] % 64 & 1) &&
                    regex_derivative(&store, states[s], alphabet[j]) != next)
                    fail_msg("seed %llu: letters %u and %u", (unsigned long long)seed, i, j);
        }
    }
}

static void random_expressions_match_their_language(void **state)
{
    (void)state;
    uint64_t first = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)first);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t seed = i < 500 ? i : first + i;
        struct test_random random = {.state = seed};
        struct language language;
        uint32_t node = draw(&random, 4, &language);
        check_strings(seed, node, &language);
    }
    assert_int_equal(store.failure, REGEX_FINE);
    assert_int_equal(store.scratch.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)
        TEST(neutral_and_absorbing_elements_vanish),
        TEST(order_and_grouping_do_not_count),
        TEST(counts_are_merged),
        TEST(tables_grow_and_keep_ids),
        TEST(lengths_are_bounded_from_both_sides),
        TEST(complexity_passes_to_the_whole),
        TEST(nesting_is_bounded),
        TEST(fuel_ends_and_stays_ended),
        TEST(any_step_may_be_the_last),
        TEST(memory_is_bounded),
        TEST(random_expressions_match_their_language),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
