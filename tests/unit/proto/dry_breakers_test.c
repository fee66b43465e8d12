/*
 * Sequence breakers of DRY: what the payload may contain, and the last breaker of a text, compared
 * with a search of every sequence at every place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/dry_breakers.h"
#include "proto/limits.h"
#include "tests/support/test_random.h"

#define VOCAB_TOKENS 10u
#define WORDS(...)                                                                                 \
    (const uint32_t[]){__VA_ARGS__}, sizeof(const uint32_t[]){__VA_ARGS__} / sizeof(uint32_t)

static enum result init(struct dry_breakers *breakers, const uint32_t *words, size_t count,
                        struct error_text *error)
{
    uint32_t *copy = malloc(count * sizeof *copy + 1);
    assert_non_null(copy);
    if (count > 0)
        memcpy(copy, words, count * sizeof *copy);
    return dry_breakers_init(breakers, copy, (uint32_t)count, VOCAB_TOKENS, error);
}

static void expect_valid(const uint32_t *words, size_t count, uint32_t sequences)
{
    struct dry_breakers breakers;
    struct error_text error = {""};
    if (init(&breakers, words, count, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(breakers.sequence_count, sequences);
    dry_breakers_fini(&breakers);
    assert_null(breakers.words);
    dry_breakers_fini(&breakers);
}

static void expect_invalid(const uint32_t *words, size_t count, const char *reason)
{
    struct dry_breakers breakers;
    struct error_text error = {""};
    assert_int_equal(init(&breakers, words, count, &error), RESULT_INVALID);
    assert_string_equal(error.text, reason);
    assert_null(breakers.words);
    assert_null(breakers.starts);
}

static void sequences_are_checked(void **state)
{
    (void)state;
    expect_valid(NULL, 0, 0);
    expect_valid(WORDS(1, 0), 1);
    expect_valid(WORDS(1, 9), 1);
    expect_valid(WORDS(1, 3, 2, 3, 0, 1, 4), 3);
    expect_invalid(WORDS(0), "DRY_BREAKERS[0]: a sequence of 0 ids");
    expect_invalid(WORDS(1), "DRY_BREAKERS[0]: a sequence of 1 ids");
    expect_invalid(WORDS(1, 3, 2, 4), "DRY_BREAKERS[2]: a sequence of 2 ids");
    expect_invalid(WORDS(1, 10),
                   "DRY_BREAKERS[1]: token 10 is outside the vocabulary or of the order");
    expect_invalid(WORDS(2, 1, 10),
                   "DRY_BREAKERS[2]: token 10 is outside the vocabulary or of the order");
    expect_invalid(WORDS(1, 4, 1, 3),
                   "DRY_BREAKERS[3]: token 3 is outside the vocabulary or of the order");
}

static void lengths_are_bounded(void **state)
{
    (void)state;
    uint32_t words[LIMIT_DRY_BREAKER_TOKENS + 2] = {0};
    struct dry_breakers breakers;
    struct error_text error;
    words[0] = LIMIT_DRY_BREAKER_TOKENS;
    expect_valid(words, LIMIT_DRY_BREAKER_TOKENS + 1, 1);
    words[0]++;
    assert_int_equal(init(&breakers, words, LIMIT_DRY_BREAKER_TOKENS + 2, &error), RESULT_INVALID);
}

/* As many with the same first token, and as many more with the next. */
static void sequences_of_one_token_are_bounded(void **state)
{
    (void)state;
    static uint32_t words[4 * LIMIT_DRY_BREAKERS + 2];
    struct dry_breakers breakers;
    struct error_text error;
    for (uint32_t i = 0; i < 2 * LIMIT_DRY_BREAKERS + 1; i++) {
        words[2 * i] = 1;
        words[2 * i + 1] = i < LIMIT_DRY_BREAKERS ? 0 : 5;
    }
    expect_valid(words, 4 * LIMIT_DRY_BREAKERS, 2 * LIMIT_DRY_BREAKERS);
    assert_int_equal(init(&breakers, words, 4 * LIMIT_DRY_BREAKERS + 2, &error), RESULT_INVALID);
    assert_non_null(strstr(error.text, "of token 5"));
    /* The first token of all, of sequences that end with another one. */
    for (uint32_t i = 0; i <= LIMIT_DRY_BREAKERS; i++) {
        words[3 * i] = 2;
        words[3 * i + 1] = 4;
        words[3 * i + 2] = 9;
    }
    expect_valid(words, 3 * LIMIT_DRY_BREAKERS, LIMIT_DRY_BREAKERS);
    assert_int_equal(init(&breakers, words, 3 * LIMIT_DRY_BREAKERS + 3, &error), RESULT_INVALID);
    assert_string_equal(error.text, "DRY_BREAKERS[48]: sequence 17 of token 4");
}

static void the_last_breaker_is_found(void **state)
{
    (void)state;
    const uint32_t text[] = {7, 1, 2, 3, 8, 1, 2, 9};
    const uint32_t *newest = text + sizeof text / sizeof text[0] - 1;
    struct dry_breakers breakers;
    struct error_text error;
    assert_int_equal(init(&breakers, WORDS(1, 1, 2, 1, 2, 3, 1, 2, 3, 1, 7), &error), RESULT_OK);
    assert_int_equal(dry_breakers_find_last(&breakers, newest, 8), 1);     /* 1 2 before 9 */
    assert_int_equal(dry_breakers_find_last(&breakers, newest - 1, 7), 0); /* at the end */
    assert_int_equal(dry_breakers_find_last(&breakers, newest - 2, 6), 0); /* 1 alone */
    assert_int_equal(dry_breakers_find_last(&breakers, newest - 3, 5), 1); /* 1 2 3 before 8 */
    assert_int_equal(dry_breakers_find_last(&breakers, newest - 3, 3), 3); /* 1 is too far back */
    assert_int_equal(dry_breakers_find_last(&breakers, newest - 3, 4), 1);
    assert_int_equal(dry_breakers_find_last(&breakers, newest - 7, 1), 0);
    assert_int_equal(dry_breakers_find_last(&breakers, newest, 0), 0);
    assert_int_equal(dry_breakers_find_last(NULL, newest, 8), 8);
    dry_breakers_fini(&breakers);
}

/* Of sequences that begin at the newest beginning of all, the longest decides. */
static uint32_t last_of_all(const uint32_t *words, uint32_t word_count, const uint32_t *text,
                            uint32_t bytes)
{
    for (uint32_t begin = bytes; begin-- > 0;) {
        uint32_t longest = 0;
        for (uint32_t at = 0; at < word_count; at += 1 + words[at]) {
            uint32_t length = words[at];
            if (begin + length <= bytes && length > longest &&
                memcmp(text + begin, words + at + 1, length * sizeof *text) == 0)
                longest = length;
        }
        if (longest > 0)
            return bytes - begin - longest;
    }
    return bytes;
}

static void random_texts_agree_with_a_plain_search(void **state)
{
    (void)state;
    struct test_random random = {.state = 11};
    for (uint32_t trial = 0; trial < 3000; trial++) {
        uint32_t words[128], count = 0, text[12];
        uint32_t sequences = test_random_below(&random, 9);
        uint32_t first = test_random_below(&random, 3);
        for (uint32_t i = 0; i < sequences; i++) {
            uint32_t length = 1 + test_random_below(&random, 3);
            words[count++] = length;
            for (uint32_t k = 0; k < length; k++)
                words[count++] = k == 0 ? first : test_random_below(&random, 4);
            first += test_random_below(&random, 2);
        }
        for (uint32_t i = 0; i < 12; i++)
            text[i] = test_random_below(&random, 6);
        struct dry_breakers breakers;
        struct error_text error;
        assert_int_equal(
            dry_breakers_init(&breakers, memcpy(malloc(512), words, count * 4), count, 16, &error),
            RESULT_OK);
        for (uint32_t from = 0; from < 12; from++)
            assert_int_equal(dry_breakers_find_last(&breakers, text + 11, 12 - from),
                             last_of_all(words, count, text + from, 12 - from));
        dry_breakers_fini(&breakers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_are_checked),
        cmocka_unit_test(lengths_are_bounded),
        cmocka_unit_test(sequences_of_one_token_are_bounded),
        cmocka_unit_test(the_last_breaker_is_found),
        cmocka_unit_test(random_texts_agree_with_a_plain_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
