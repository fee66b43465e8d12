/*
 * Classes of bytes and liveness: classes are those that membership in each set gives, and an
 * expression is live exactly if a search over all derivatives, written here without bounds, order or
 * marks, finds one with the empty string.
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
#include "tests/support/regex_texts.h"
#include "tests/support/test_random.h"

#define FUEL 1000000000ull

static struct regex_store store;

static int open_store(void **state)
{
    (void)state;
    return regex_store_init(&store, (size_t)64 << 20, FUEL) ? 0 : -1;
}

static int close_store(void **state)
{
    (void)state;
    regex_store_fini(&store);
    return 0;
}

static uint32_t set_of(const char *bytes)
{
    return regex_texts_set(&store, bytes);
}

static uint32_t text(const char *bytes)
{
    return regex_texts_all(&store, bytes);
}

static bool set_has(const struct regex_byte_set *set, uint32_t byte)
{
    return set->words[byte / 64] >> byte % 64 & 1;
}

/* --- Classes ------------------------------------------------------------------------------------ */

static void assert_classes(const struct regex_classes *classes, const struct regex_byte_set *sets,
                           uint32_t count)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t class = classes->class_of[b];
        assert_true(class < classes->count);
        for (uint32_t c = 0; c < classes->count; c++)
            assert_int_equal(set_has(&classes->members[c], b), c == class);
        for (uint32_t other = 0; other < b; other++) {
            bool apart = false;
            for (uint32_t s = 0; s < count; s++)
                apart = apart || set_has(&sets[s], b) != set_has(&sets[s], other);
            assert_int_equal(class != classes->class_of[other], apart);
        }
    }
    /* The representative is the smallest byte of the class. */
    for (uint32_t c = 0; c < classes->count; c++) {
        assert_int_equal(classes->class_of[classes->representative[c]], c);
        for (uint32_t b = 0; b < classes->representative[c]; b++)
            assert_int_not_equal(classes->class_of[b], c);
    }
}

static void classes_are_what_the_sets_tell_apart(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    struct test_random random = {.state = seed};
    static struct regex_classes classes;
    for (int trial = 0; trial < 30; trial++) {
        struct regex_byte_set sets[7];
        uint32_t count = test_random_below(&random, 8);
        regex_classes_init(&classes);
        assert_int_equal(classes.count, 1);
        for (uint32_t s = 0; s < count; s++) {
            for (int w = 0; w < 4; w++)
                sets[s].words[w] = test_random_below(&random, 2) == 0
                                       ? 0
                                       : test_random_next(&random) & test_random_next(&random);
            regex_classes_split(&classes, &sets[s]);
        }
        assert_classes(&classes, sets, count);
    }
}

static void every_byte_may_have_a_class_of_its_own(void **state)
{
    (void)state;
    static struct regex_classes classes;
    regex_classes_init(&classes);
    for (uint32_t b = 0; b < 256; b++) {
        struct regex_byte_set set = {{0}};
        set.words[b / 64] = 1ull << b % 64;
        regex_classes_split(&classes, &set);
    }
    assert_int_equal(classes.count, 256);
    for (uint32_t b = 0; b < 256; b++)
        assert_int_equal(classes.representative[classes.class_of[b]], b);
}

static void classes_of_an_expression_are_those_of_its_sets(void **state)
{
    (void)state;
    static struct regex_classes classes;
    uint32_t inner = regex_repeat(&store, set_of("ab"), 2, 5);
    uint32_t node = regex_or(&store, regex_concat(&store, set_of("bc"), inner),
                             regex_and(&store, regex_not(&store, text("x")),
                                       regex_concat(&store, inner, set_of("\xC3\xA4"))));
    struct regex_byte_set sets[4];
    const char *letters[4] = {"ab", "bc", "x", "\xC3\xA4"};
    for (uint32_t s = 0; s < 4; s++)
        sets[s] = store.sets[store.nodes[set_of(letters[s])].a];
    for (int trial = 0; trial < 2; trial++) { /* marks of the walk before do not count */
        assert_true(regex_classes_of(&store, node, &classes));
        assert_int_equal(classes.count, 6);
        assert_classes(&classes, sets, 4);
    }
    /* The number of walks passes 2^32: a mark left by walk 1 must not match the new walk 1. */
    for (uint32_t i = 0; i < store.node_count; i++)
        store.nodes[i].mark = 1;
    store.walk = UINT32_MAX;
    assert_true(regex_classes_of(&store, node, &classes));
    assert_int_equal(store.walk, 1);
    assert_classes(&classes, sets, 4);

    assert_true(regex_classes_of(&store, REGEX_EMPTY, &classes));
    assert_int_equal(classes.count, 1);
    assert_false(regex_classes_of(&store, REGEX_FAILED, &classes));
    assert_int_equal(classes.count, 1);
    /* One step for each node, two for each set and one more for each eight classes so far. */
    const char *distinct = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint32_t word = text(distinct), count = (uint32_t)strlen(distinct);
    uint64_t steps = 2 * count - 1;
    for (uint32_t i = 0; i < count; i++)
        steps += (i + 1) / 8 + 2;
    store.fuel = FUEL;
    assert_true(regex_classes_of(&store, word, &classes));
    assert_int_equal(store.fuel, FUEL - steps);
    for (uint64_t fuel = 0;; fuel++) {
        store.fuel = fuel;
        bool good = regex_classes_of(&store, node, &classes);
        assert_int_equal(store.scratch.count, 0);
        assert_int_equal(good, store.failure == REGEX_FINE);
        store.failure = REGEX_FINE;
        if (good)
            break;
    }
    assert_classes(&classes, sets, 4);
}

/* --- Bytes with the same derivative ------------------------------------------------------------- */

static void assert_same(uint32_t node, uint8_t byte, const char *expected)
{
    struct regex_byte_set same = {{~0ull, ~0ull, ~0ull, ~0ull}};
    regex_same_derivative(&store, node, byte, &same);
    for (uint32_t b = 'a'; b <= 'z'; b++)
        if (set_has(&same, b) != (strchr(expected, (int)b) != NULL))
            fail_msg("byte %c: %c", byte, (int)b);
}

static void same_derivative_asks_only_sets_of_a_first_byte(void **state)
{
    (void)state;
    uint32_t ab = set_of("ab"), bc = set_of("bc");
    uint32_t open = regex_repeat(&store, ab, 0, 2);
    assert_same(ab, 'a', "ab");
    assert_same(ab, 'c', "cdefghijklmnopqrstuvwxyz");
    assert_same(regex_concat(&store, ab, bc), 'b', "ab");
    assert_same(regex_concat(&store, open, regex_concat(&store, bc, text("z"))), 'b', "b");
    assert_same(regex_concat(&store, open, regex_concat(&store, bc, text("z"))), 'a', "a");
    assert_same(regex_repeat(&store, bc, 2, 3), 'b', "bc");
    assert_same(regex_not(&store, bc), 'b', "bc");
    assert_same(regex_or(&store, regex_repeat(&store, ab, 2, 3), text("cd")), 'c', "c");
    assert_same(regex_and(&store, regex_not(&store, text("cd")), regex_repeat(&store, ab, 2, 3)),
                'd', "defghijklmnopqrstuvwxyz");
    assert_same(REGEX_EMPTY, 'a', "abcdefghijklmnopqrstuvwxyz");
    struct regex_byte_set same = {{~0ull, ~0ull, ~0ull, ~0ull}};
    regex_same_derivative(&store, ab, 'a', &same);
    assert_int_equal(same.words[0] | same.words[2] | same.words[3], 0);
    assert_int_equal(same.words[1], 3ull << ('a' - 64));
}

/* --- Parts -------------------------------------------------------------------------------------- */

static bool is_within(uint32_t node, uint32_t x)
{
    uint32_t steps = 100;
    return regex_is_within(&store, node, x, &steps);
}

static void sets_are_compared_in_all_their_words(void **state)
{
    (void)state;
    for (uint32_t b = 1; b < 256; b += 51) {
        uint64_t words[4] = {2, 2, 2, 2};
        uint32_t byte = regex_byte(&store, (uint8_t)b);
        words[b / 64] &= ~(1ull << b % 64);
        uint32_t without = regex_set(&store, words);
        words[b / 64] |= 1ull << b % 64;
        uint32_t with = regex_set(&store, words);
        assert_true(is_within(byte, with));
        assert_false(is_within(byte, without));
        assert_true(is_within(byte, regex_or(&store, text("xyz"), with)));
        assert_false(is_within(byte, regex_or(&store, text("xyz"), without)));
        assert_true(is_within(regex_repeat(&store, byte, 2, 7), with));
        assert_true(is_within(regex_concat(&store, byte, byte), with));
        assert_false(is_within(regex_concat(&store, byte, regex_byte(&store, 7)), with));
    }
    uint32_t steps = 0;
    assert_false(regex_is_within(&store, REGEX_EMPTY, set_of("a"), &steps));
}

/* --- Liveness ----------------------------------------------------------------------------------- */

static enum regex_liveness liveness(uint32_t node, uint32_t steps)
{
    static struct regex_classes classes;
    assert_true(regex_classes_of(&store, node, &classes));
    return regex_liveness(&store, node, &classes, steps);
}

/* The first string has `before` bytes of any kind; both demand other ones after it. */
static uint32_t contradiction(uint32_t before, const char *x, const char *y)
{
    uint64_t every[4] = {~0ull, ~0ull, ~0ull, ~0ull};
    uint32_t any = regex_repeat(&store, regex_set(&store, every), before, before);
    return regex_and(&store, regex_concat(&store, any, text(x)),
                     regex_concat(&store, any, text(y)));
}

static void simple_expressions_are_live_unless_nothing(void **state)
{
    (void)state;
    assert_int_equal(liveness(REGEX_NOTHING, 0), REGEX_DEAD);
    assert_int_equal(liveness(REGEX_EMPTY, 0), REGEX_LIVE);
    assert_int_equal(liveness(text("abc"), 0), REGEX_LIVE);
    assert_int_equal(liveness(regex_not(&store, text("a")), 0), REGEX_LIVE);
    assert_int_equal(liveness(regex_and(&store, regex_repeat(&store, text("ab"), 0, 2),
                                        regex_repeat(&store, text("cd"), 0, 2)),
                              0),
                     REGEX_LIVE);
    static struct regex_classes classes;
    regex_classes_init(&classes);
    assert_int_equal(regex_liveness(&store, REGEX_FAILED, &classes, 10), REGEX_LIVENESS_UNKNOWN);
}

static void steps_bound_the_search(void **state)
{
    (void)state;
    uint32_t dead = contradiction(5, "a", "b"), live = contradiction(5, "ab", "ab");
    assert_int_equal(
        live, regex_concat(
                  &store,
                  regex_repeat(&store, regex_set(&store, (uint64_t[4]){~0ull, ~0ull, ~0ull, ~0ull}),
                               5, 5),
                  text("ab")));
    for (uint32_t trial = 0; trial < 2; trial++) {
        uint32_t node = trial == 0 ? dead : contradiction(4, "abc", "[abd");
        uint32_t steps = 0;
        enum regex_liveness found;
        while ((found = liveness(node, steps)) == REGEX_LIVENESS_UNKNOWN) {
            assert_int_equal(store.nodes[node].liveness, REGEX_LIVENESS_UNKNOWN);
            steps++;
        }
        assert_int_equal(found, REGEX_DEAD);
        assert_in_range(steps, 5, 20);
        /* The nodes that were searched are known now. */
        assert_int_equal(liveness(node, 0), REGEX_DEAD);
        assert_int_equal(liveness(regex_derivative(&store, node, 'z'), 0), REGEX_DEAD);
    }
}

/* (x|y){n} and something that forbids one kind of end: live, with its shortest string n bytes long. */
static uint32_t with_end(uint32_t length, const char *bytes, uint8_t forbidden)
{
    uint32_t all = regex_repeat(&store, set_of(bytes), length, length);
    uint32_t end = regex_concat(&store, REGEX_ANYTHING, regex_byte(&store, forbidden));
    return regex_and(&store, all, regex_not(&store, end));
}

static void a_found_path_is_live(void **state)
{
    (void)state;
    uint32_t node = with_end(6, "pq", 'p');
    assert_int_equal(store.live_bytes[0], 0);
    assert_int_equal(liveness(node, 1000), REGEX_LIVE);
    assert_int_equal(store.live_bytes[0], 'q');
    uint32_t on_path = 0;
    for (uint32_t at = node, left = 6; left > 1; left--) {
        uint32_t p = regex_derivative(&store, at, 'p'), q = regex_derivative(&store, at, 'q');
        at = store.nodes[p].liveness == REGEX_LIVE ? p : q;
        on_path += store.nodes[at].liveness == REGEX_LIVE;
    }
    assert_int_equal(on_path, 5);
    assert_int_equal(liveness(node, 0), REGEX_LIVE);
    assert_int_equal(store.nodes[REGEX_NOTHING].liveness, REGEX_LIVENESS_UNKNOWN);
}

/* A search within reach of the latest bytes needs one step for each byte tried. */
static void recent_bytes_are_tried_first(void **state)
{
    (void)state;
    uint32_t one = with_end(1, "pqr", 'p'); /* the search: p leads nowhere, q ends it */
    assert_int_equal(liveness(one, 1), REGEX_LIVENESS_UNKNOWN);
    assert_int_equal(liveness(one, 1000), REGEX_LIVE);
    assert_int_equal(store.live_bytes[0], 'q');
    uint32_t next = with_end(1, "opqrs", 'o');
    assert_int_equal(liveness(next, 1), REGEX_LIVE);
    assert_int_equal(store.nodes[next].liveness, REGEX_LIVE);
    uint32_t four = with_end(4, "qz", 'z');
    assert_int_equal(liveness(four, 4), REGEX_LIVENESS_UNKNOWN); /* one for the path "q" */
    assert_int_equal(liveness(four, 5), REGEX_LIVE);
    for (uint32_t at = four, depth = 0; depth < 4; depth++) {
        assert_int_equal(store.nodes[at].liveness, REGEX_LIVE);
        at = regex_derivative(&store, at, 'q');
    }
    /* Other bytes end searches: the latest four are kept, each once, latest first. */
    const char *ends[] = {"ab", "ac", "ad", "ae", "af", "xd"};
    for (size_t i = 0; i < 6; i++) {
        uint32_t other = with_end(1, ends[i], (uint8_t)ends[i][0]);
        assert_int_equal(liveness(regex_concat(&store, other, text(ends[i] + 1)), 1000),
                         REGEX_LIVE);
    }
    assert_memory_equal(store.live_bytes, "dfec", REGEX_LIVE_BYTES);
}

static void assert_path(uint32_t index, const char *bytes)
{
    assert_int_equal(store.live_paths[index].count, strlen(bytes));
    assert_memory_equal(store.live_paths[index].bytes, bytes, strlen(bytes));
}

/* What ended a search is tried byte by byte before anything else, the latest first. */
static void recent_paths_are_tried_first(void **state)
{
    (void)state;
    assert_int_equal(liveness(with_end(6, "pq", 'p'), 1000), REGEX_LIVE);
    const struct regex_live_path first = store.live_paths[0];
    assert_int_equal(first.count, 6);
    assert_int_equal(first.bytes[5], 'q');
    uint32_t six = with_end(6, "pqr", 'r');
    assert_int_equal(liveness(six, 5), REGEX_LIVENESS_UNKNOWN);
    assert_int_equal(liveness(six, 6), REGEX_LIVE);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(store.nodes[six].liveness, REGEX_LIVE);
        six = regex_derivative(&store, six, first.bytes[i]);
    }
    assert_int_equal(store.live_paths[1].count, 0);
    /* Four paths are kept, each once. */
    const char *texts[] = {"stu", "vwx", "stuvw", "yz", "stu"};
    for (size_t i = 0; i < 5; i++) {
        uint32_t longer = (uint32_t)strlen(texts[i]) + 1;
        uint32_t others = regex_repeat(&store, set_of(i < 4 ? "stuvwxyz" : "stu"), longer, longer);
        uint32_t node = regex_and(&store, text(texts[i]), regex_not(&store, others));
        assert_int_equal(liveness(node, 1000), REGEX_LIVE);
    }
    assert_path(0, "stuvw"); /* its beginning ended the last search */
    assert_path(1, "yz");
    assert_path(2, "vwx");
    assert_path(3, "stu");
    /* A longer path than is kept is found, and not kept. */
    assert_int_equal(liveness(with_end(REGEX_PATH_BYTES + 1, "kl", 'k'), 100000), REGEX_LIVE);
    assert_path(0, "stuvw");
}

/* A search over all derivatives. */
#define STATES 4000u
static bool is_empty(uint32_t node)
{
    static uint32_t states[STATES];
    uint32_t count = 1;
    states[0] = node;
    for (uint32_t i = 0; i < count; i++) {
        if (store.nodes[states[i]].nullable)
            return false;
        for (uint32_t b = 'a'; b <= 'd'; b++) { /* no set tells d from other bytes */
            uint32_t next = regex_derivative(&store, states[i], (uint8_t)b), at = 0;
            while (at < count && states[at] != next)
                at++;
            if (at == count)
                states[count++] = next;
            assert_true(count < STATES);
        }
    }
    return true;
}

static uint32_t draw(struct test_random *random, uint32_t depth)
{
    uint32_t choice = depth == 0 ? 0 : test_random_below(random, 8);
    if (choice < 2) {
        const char *sets[] = {"a", "b", "c", "ab", "bc", "abc", "ac"};
        return set_of(sets[test_random_below(random, 7)]);
    }
    uint32_t x = draw(random, depth - 1);
    if (choice == 2)
        return regex_not(&store, x);
    if (choice == 3) {
        uint32_t minimum = test_random_below(random, 4);
        return regex_repeat(&store, x, minimum,
                            test_random_below(random, 2) == 0
                                ? REGEX_UNBOUNDED
                                : minimum + test_random_below(random, 3));
    }
    uint32_t y = draw(random, depth - 1);
    if (choice == 4)
        return regex_or(&store, x, y);
    return choice == 5 ? regex_concat(&store, x, y) : regex_and(&store, x, y);
}

static void random_expressions_are_live_if_a_string_matches(void **state)
{
    (void)state;
    uint64_t first = (uint64_t)time(NULL);
    uint32_t dead = 0, searched = 0;
    printf("seed %llu\n", (unsigned long long)first);
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t seed = i < 1500 ? i : first + i;
        struct test_random random = {.state = seed};
        uint32_t node = draw(&random, 5);
        if (!store.nodes[node].is_complex || store.nodes[node].longest > 200)
            continue;
        enum regex_liveness found = liveness(node, UINT32_MAX);
        bool empty = is_empty(node);
        if (found != (empty ? REGEX_DEAD : REGEX_LIVE))
            fail_msg("seed %llu: liveness %d", (unsigned long long)seed, found);
        dead += empty && node != REGEX_NOTHING;
        searched += node != REGEX_NOTHING && !store.nodes[node].nullable;
    }
    printf("%u searched, %u dead\n", searched, dead);
    assert_true(searched > 100 && dead > 10);
}

/* Shortest first: beside a long way that never ends, the search takes the short one. */
static void states_with_the_smallest_bound_come_first(void **state)
{
    (void)state;
    uint32_t letters = set_of("abcdefgh");
    uint32_t same = regex_repeat(&store, letters, 300, 300);
    uint32_t pairs[8];
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t first = regex_byte(&store, (uint8_t)('a' + i));
        uint32_t rest = i == 5 ? regex_repeat(&store, letters, 3, 3) : same;
        pairs[i] = regex_concat(&store, first, rest);
    }
    uint32_t any_of = regex_or_of(&store, pairs, 8);
    uint32_t no_h = regex_not(&store, regex_concat(&store, REGEX_ANYTHING, text("a")));
    uint32_t node = regex_and(&store, any_of, no_h);
    assert_int_equal(store.nodes[node].shortest, 4);
    assert_int_equal(liveness(node, 60), REGEX_LIVE);
}

/* letter i, then x as often as its length says. All but the live one end in a contradiction, which
 * shows only at their ends. */
static void the_order_holds_among_many(void **state)
{
    (void)state;
    enum { LETTERS = 24, FAR = 3000, LIVE_LENGTH = 7 };
    static const char letters[] = "abcdefghijklmnopqrstuvwz";
    for (uint32_t trial = 0; trial < 40; trial++) {
        struct test_random random = {.state = trial};
        (void)close_store(NULL);
        assert_int_equal(open_store(NULL), 0);
        uint32_t lengths[LETTERS], parts[LETTERS];
        for (uint32_t i = 0; i < LETTERS; i++)
            lengths[i] = i < LIVE_LENGTH ? i + 1 : FAR + 10 * i;
        for (uint32_t i = LETTERS - 1; i > 0; i--) {
            uint32_t other = test_random_below(&random, i + 1), swapped = lengths[i];
            lengths[i] = lengths[other];
            lengths[other] = swapped;
        }
        for (uint32_t i = 0; i < LETTERS; i++) {
            uint32_t x = regex_repeat(&store, set_of("x"), lengths[i], lengths[i]);
            uint32_t xy = regex_repeat(&store, set_of("xy"), lengths[i], lengths[i]);
            uint32_t none = lengths[i] == LIVE_LENGTH ? text("z") : xy;
            parts[i] = regex_concat(&store, regex_byte(&store, (uint8_t)letters[i]),
                                    regex_and(&store, x, regex_not(&store, none)));
        }
        uint32_t node = regex_or_of(&store, parts, LETTERS);
        assert_int_equal(store.nodes[node].shortest, 2);
        assert_int_equal(liveness(node, 300), REGEX_LIVE);
        /* No longer one was looked into. */
        for (uint32_t i = 0; i < store.node_count; i++)
            if (store.nodes[i].kind == REGEX_KIND_REPEAT && store.nodes[i].minimum > FAR / 2)
                assert_int_equal(store.nodes[i].minimum % 10, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)
        TEST(classes_are_what_the_sets_tell_apart),
        TEST(every_byte_may_have_a_class_of_its_own),
        TEST(classes_of_an_expression_are_those_of_its_sets),
        TEST(same_derivative_asks_only_sets_of_a_first_byte),
        TEST(sets_are_compared_in_all_their_words),
        TEST(simple_expressions_are_live_unless_nothing),
        TEST(steps_bound_the_search),
        TEST(a_found_path_is_live),
        TEST(recent_bytes_are_tried_first),
        TEST(recent_paths_are_tried_first),
        TEST(random_expressions_are_live_if_a_string_matches),
        TEST(states_with_the_smallest_bound_come_first),
        TEST(the_order_holds_among_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
