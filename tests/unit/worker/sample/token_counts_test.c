/*
 * token_counts against a plain array: random tokens, every count right, each token once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/sample/token_counts.h"

#define VOCAB 5000u

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 33);
}

static void assert_equal(const struct token_counts *counts, const struct token_count *model)
{
    static uint8_t seen[VOCAB];
    memset(seen, 0, sizeof seen);
    uint32_t distinct = 0;
    for (uint32_t token = 0; token < VOCAB; token++)
        distinct += model[token].prompt + model[token].generated > 0;
    assert_int_equal(token_counts_size(counts), distinct);
    for (uint32_t i = 0; i < distinct; i++) {
        struct token_count count = token_counts_at(counts, i);
        assert_true(count.token < VOCAB && !seen[count.token]);
        seen[count.token] = 1;
        assert_int_equal(count.prompt, model[count.token].prompt);
        assert_int_equal(count.generated, model[count.token].generated);
    }
}

static void test_counts_match_a_plain_array(void **state)
{
    (void)state;
    static struct token_count model[VOCAB];
    struct token_counts *counts = token_counts_create();
    assert_int_equal(token_counts_size(counts), 0);
    uint64_t random = 7;
    for (uint32_t i = 0; i < 20000; i++) {
        /* Few distinct tokens at first, then strides that collide in a power-of-two table. */
        uint32_t token = i < 5000 ? next_random(&random) % 50 : next_random(&random) % 78 * 64;
        if (next_random(&random) & 1) {
            assert_int_equal(token_counts_add_prompt(counts, token), RESULT_OK);
            model[token].prompt++;
        } else {
            assert_int_equal(token_counts_add_generated(counts, token), RESULT_OK);
            model[token].generated++;
        }
        if (i % 1000 == 0)
            assert_equal(counts, model);
    }
    for (uint32_t token = 0; token < VOCAB; token++) {
        assert_int_equal(token_counts_add_prompt(counts, token), RESULT_OK);
        model[token].prompt++;
    }
    assert_equal(counts, model);
    token_counts_destroy(counts);
}

static void test_destroy_takes_null(void **state)
{
    (void)state;
    token_counts_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_match_a_plain_array),
        cmocka_unit_test(test_destroy_takes_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
