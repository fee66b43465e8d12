/*
 * The random stream: Philox4x32-10 gives the published words, and uniform_draw() takes its 24 bits
 * from the block that seed and position name.
 *
 * Known answers: the vectors of Random123's kat_vectors file for philox4x32 with 10 rounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/sample/row_sampler.h"
#include "worker/sample/uniform.h"

struct vector {
    struct philox_block counter;
    uint64_t key;
    struct philox_block expected;
};

static const struct vector vectors[] = {
    {{{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
    {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
     0xffffffffffffffff,
     {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
    {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
     0x299f31d0a4093822,
     {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
};

static void test_known_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        struct philox_block block = uniform_philox(vectors[i].counter, vectors[i].key);
        for (int word = 0; word < 4; word++)
            assert_int_equal(block.word[word], vectors[i].expected.word[word]);
    }
}

static void test_draw_uses_the_first_word(void **state)
{
    (void)state;
    assert_true(uniform_draw(0, 0) == (float)(0x6627e8d5u >> 8) * 0x1p-24f);
    struct philox_block block =
        uniform_philox((struct philox_block){{77, 0, 0, 0}}, 0x0123456789abcdef);
    assert_true(uniform_draw(0x0123456789abcdef, 77) == (float)(block.word[0] >> 8) * 0x1p-24f);
}

static void test_draws_fill_the_interval_evenly(void **state)
{
    (void)state;
    enum { BINS = 64, DRAWS = 64000 };
    uint32_t bins[BINS] = {0};
    for (uint32_t position = 0; position < DRAWS; position++) {
        float u = uniform_draw(42, position);
        assert_true(u >= 0.0f && u < 1.0f);
        bins[(uint32_t)(u * (float)BINS)]++;
    }
    const double expected = (double)DRAWS / (double)BINS;
    double chi_square = 0.0;
    for (int bin = 0; bin < BINS; bin++) {
        double distance = (double)bins[bin] - expected;
        chi_square += distance * distance / expected;
    }
    assert_true(chi_square < 110.0); /* 63 degrees of freedom: p = 0.0002 */
}

static void test_neighbours_differ(void **state)
{
    (void)state;
    for (uint32_t position = 0; position < 1000; position++) {
        assert_true(uniform_draw(1, position) != uniform_draw(1, position + 1));
        assert_true(uniform_draw(1, position) != uniform_draw(1ull << 32, position));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_draw_uses_the_first_word),
        cmocka_unit_test(test_draws_fill_the_interval_evenly),
        cmocka_unit_test(test_neighbours_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
