/*
 * Bounds of encoding: never more tokens than allowed, a refused prompt leaves the list as it was,
 * and a megabyte of any one thing takes time in proportion.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "tests/support/tiny_tokenizer.h"

static struct tokenizer *tokenizer;

static int open_tiny(void **state)
{
    (void)state;
    tokenizer = tiny_tokenizer_open();
    return 0;
}

static int close_tiny(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    return 0;
}

static enum result encode(const char *text, size_t text_bytes, size_t max_tokens,
                          struct token_list *list)
{
    struct prompt_span span = {text, text_bytes, true};
    return tokenizer_encode(tokenizer, &span, 1, max_tokens, NULL, list);
}

static void test_a_cancelled_encoding_leaves_the_list_as_it_was(void **state)
{
    (void)state;
    struct token_list list = {0};
    atomic_bool cancelled = true;
    struct prompt_span span = {"hello", 5, true};
    assert_int_equal(encode("hello", 5, 9, &list), RESULT_OK);
    assert_int_equal(tokenizer_encode(tokenizer, &span, 1, 9, &cancelled, &list), RESULT_CANCELLED);
    assert_int_equal(list.count, 3);
    cancelled = false;
    assert_int_equal(tokenizer_encode(tokenizer, &span, 1, 9, &cancelled, &list), RESULT_OK);
    assert_int_equal(list.count, 6);
    token_list_fini(&list);
}

static void test_bound_counts_the_tokens_already_there(void **state)
{
    (void)state;
    struct token_list list = {0};
    assert_int_equal(encode("hello", 5, 2, &list), RESULT_TOO_LARGE);
    assert_int_equal(encode("hello 1", 7, 4, &list),
                     RESULT_TOO_LARGE); /* the second word is over */
    assert_int_equal(list.count, 0);
    assert_int_equal(encode("hello", 5, 3, &list), RESULT_OK);
    assert_int_equal(list.count, 3);
    assert_int_equal(encode("hello", 5, 5, &list), RESULT_TOO_LARGE);
    assert_int_equal(list.count, 3);
    assert_int_equal(encode("hello", 5, 6, &list), RESULT_OK);
    assert_int_equal(list.count, 6);
    assert_int_equal(list.ids[3], TINY_HE);
    assert_int_equal(encode("", 0, 5, &list), RESULT_TOO_LARGE); /* already over it */
    token_list_fini(&list);
}

static void test_nothing_gives_nothing(void **state)
{
    (void)state;
    struct token_list list = {0};
    assert_int_equal(encode("", 0, 0, &list), RESULT_OK);
    assert_int_equal(tokenizer_encode(tokenizer, NULL, 0, 0, NULL, &list), RESULT_OK);
    assert_int_equal(list.count, 0);
    token_list_fini(&list);
}

static double seconds_for(const char *unit, size_t bytes)
{
    size_t unit_bytes = strlen(unit);
    char *text = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        text[i] = unit[i % unit_bytes];
    struct token_list list = {0};
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    assert_int_equal(encode(text, bytes, SIZE_MAX, &list), RESULT_OK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_true(list.count > 0);
    token_list_fini(&list);
    free(text);
    return (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
}

/* Sixteen times the text may take 16 * log-ish times as long; a quadratic step would take 256
 * times. */
static void test_time_grows_with_the_text(void **state)
{
    (void)state;
    static const char *const units[] = {"a",  " ",      "\n",  "1",        "!",          "l",
                                        "' ", "a \n\n", " \n", "\xC3\xA9", "<|im_end|>", "<|im_"};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double small = seconds_for(units[i], 1 << 15);
        double large = seconds_for(units[i], 1 << 19);
        if (large > 64 * small + 0.1)
            fail_msg("'%s': %.3f s for 32 KiB, %.3f s for 512 KiB", units[i], small, large);
    }
}

/* What no tokens could cover is refused before any work. */
static void test_hopeless_prompt_is_refused_at_once(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20 };
    char *text = malloc(BYTES);
    memset(text, 'a', BYTES);
    struct token_list list = {0};
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(encode(text, BYTES, 1000, &list), RESULT_TOO_LARGE);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_true(after.tv_sec - before.tv_sec < 2);
    free(text);
}

#define TINY(test) cmocka_unit_test_setup_teardown(test, open_tiny, close_tiny)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TINY(test_bound_counts_the_tokens_already_there),
        TINY(test_a_cancelled_encoding_leaves_the_list_as_it_was),
        TINY(test_nothing_gives_nothing),
        TINY(test_time_grows_with_the_text),
        TINY(test_hopeless_prompt_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
