/*
 * Alternatives that another alternative X{0,} contains are dropped: known ones are the same node as
 * X{0,}, and random alternatives match what their parts match.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/grammar_regex.h"
#include "tests/support/test_random.h"

#define EXPRESSIONS 3000u
#define TEXT_BYTES  5u

static uint32_t set_of(struct regex_store *store, const char *bytes)
{
    uint64_t words[4] = {0};
    for (; *bytes; bytes++)
        words[(uint8_t)*bytes / 64] |= 1ull << (uint8_t)*bytes % 64;
    return regex_set(store, words);
}

static uint32_t star(struct regex_store *store, uint32_t x)
{
    return regex_repeat(store, x, 0, REGEX_UNBOUNDED);
}

static void known_alternatives(void **state)
{
    (void)state;
    struct regex_store store;
    assert_true(regex_store_init(&store, 1u << 24, 1u << 24));
    uint32_t pair = regex_concat(&store, regex_byte(&store, 0xC3), set_of(&store, "\x80\x81"));
    uint32_t x = regex_or(&store, set_of(&store, "abc"), pair), any = star(&store, x);
    uint32_t word = regex_concat(&store, regex_byte(&store, 'a'), set_of(&store, "bc"));
    uint32_t with_word = regex_concat(&store, any, regex_concat(&store, word, any));
    assert_int_equal(regex_or(&store, with_word, any), any);
    assert_int_equal(regex_or(&store, any, regex_repeat(&store, x, 2, 7)), any);
    assert_int_equal(regex_or(&store, any, regex_concat(&store, word, any)), any);
    assert_int_equal(regex_or(&store, any, regex_and(&store, any, regex_not(&store, word))), any);
    uint32_t other = regex_concat(&store, any, regex_byte(&store, 'd'));
    uint32_t half = regex_byte(&store, 0xC3);
    assert_int_not_equal(regex_or(&store, any, other), any);
    assert_int_not_equal(regex_or(&store, any, half), any);
    assert_int_not_equal(regex_or(&store, any, regex_not(&store, word)), any);
    assert_int_not_equal(regex_or(&store, regex_repeat(&store, x, 0, 9), with_word),
                         regex_repeat(&store, x, 0, 9));
    regex_store_fini(&store);
}

static uint32_t draw(struct regex_store *store, struct test_random *random, uint32_t depth)
{
    static const char *const sets[] = {"a", "b", "ab", "bc", "abc"};
    uint32_t kind = test_random_below(random, depth == 0 ? 1 : 6);
    if (kind == 0)
        return set_of(store, sets[test_random_below(random, 5)]);
    uint32_t one = draw(store, random, depth - 1);
    if (kind == 1)
        return star(store, one);
    if (kind == 2)
        return regex_repeat(store, one, test_random_below(random, 2),
                            1 + test_random_below(random, 3));
    uint32_t two = draw(store, random, depth - 1);
    if (kind == 3)
        return regex_and(store, one, regex_not(store, two));
    return kind == 4 ? regex_concat(store, one, two) : regex_or(store, one, two);
}

static bool matches(struct regex_store *store, uint32_t node, uint32_t number, uint32_t bytes)
{
    for (; bytes > 0; bytes--, number /= 3)
        node = regex_derivative(store, node, (uint8_t)('a' + number % 3));
    assert_int_not_equal(node, REGEX_FAILED);
    return store->nodes[node].nullable;
}

static void random_alternatives(void **state)
{
    (void)state;
    uint32_t absorbed = 0;
    for (uint32_t seed = 1; seed <= EXPRESSIONS; seed++) {
        struct test_random random = {seed};
        struct regex_store store;
        assert_true(regex_store_init(&store, 1u << 24, 1u << 24));
        uint32_t many = star(&store, draw(&store, &random, 1 + test_random_below(&random, 2)));
        uint32_t other = draw(&store, &random, 3), both = regex_or(&store, many, other);
        absorbed += both == many && other != many;
        for (uint32_t bytes = 0, count = 1; bytes <= TEXT_BYTES; bytes++, count *= 3)
            for (uint32_t number = 0; number < count; number++)
                if (matches(&store, both, number, bytes) !=
                    (matches(&store, many, number, bytes) || matches(&store, other, number, bytes)))
                    fail_msg("seed %u, text %u of %u bytes", seed, number, bytes);
        regex_store_fini(&store);
    }
    assert_true(absorbed > EXPRESSIONS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_alternatives),
                                       cmocka_unit_test(random_alternatives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
