/*
 * Buckets of requests, tokens and images, requests in progress, the reply headers, and the bound of the table.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/http/key_usage.h"

static const struct client_key one = {{1}}, two = {{2}}, three = {{3}};
static struct key_usage *usage;
static uint32_t wait_s;

static int setup(void **state)
{
    (void)state;
    usage = key_usage_create(2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    key_usage_destroy(usage);
    return 0;
}

/* A request that ends at once. */
static enum key_verdict ask(const struct client_key *key, const struct key_limits *limits,
                            int64_t now_ms)
{
    enum key_verdict verdict = key_usage_begin(usage, key, limits, now_ms, &wait_s);
    if (verdict == KEY_ADMITTED)
        key_usage_end(usage, key);
    return verdict;
}

static void requests_fill_at_their_rate(void **state)
{
    (void)state;
    const struct key_limits limits = {.requests = 6}; /* one in 10 s */
    for (int i = 0; i < 6; i++)
        assert_int_equal(ask(&one, &limits, 1000), KEY_ADMITTED);
    assert_int_equal(ask(&one, &limits, 1000), KEY_OVER_REQUESTS);
    assert_int_equal(wait_s, 10);
    assert_int_equal(ask(&one, &limits, 10999), KEY_OVER_REQUESTS);
    assert_int_equal(wait_s, 1);
    assert_int_equal(ask(&one, &limits, 11000), KEY_ADMITTED);
    assert_int_equal(ask(&one, &limits, 11000), KEY_OVER_REQUESTS);
    assert_int_equal(ask(&two, &limits, 11000), KEY_ADMITTED); /* another key has its own */
    for (int i = 0; i < 6; i++)
        assert_int_equal(ask(&one, &limits, 1000000), KEY_ADMITTED); /* never more than the limit */
    assert_int_equal(ask(&one, &limits, 1000000), KEY_OVER_REQUESTS);
}

static void tokens_are_taken_when_they_are_known(void **state)
{
    (void)state;
    const struct key_limits limits = {.tokens = 600}; /* ten a second */
    assert_int_equal(ask(&one, &limits, 0), KEY_ADMITTED);
    key_usage_take_tokens(usage, &one, 599, 0);
    assert_int_equal(ask(&one, &limits, 0), KEY_ADMITTED);
    key_usage_take_tokens(usage, &one, 101, 0); /* 100 below zero */
    assert_int_equal(ask(&one, &limits, 0), KEY_OVER_TOKENS);
    assert_int_equal(wait_s, 11);
    assert_int_equal(ask(&one, &limits, 10000), KEY_OVER_TOKENS);
    assert_int_equal(ask(&one, &limits, 10100), KEY_ADMITTED);
    key_usage_take_tokens(usage, &two, 1000,
                          0); /* of a key that has no entry: nothing to take from */
    assert_int_equal(ask(&two, &limits, 0), KEY_ADMITTED);
}

static void images_have_their_own_bucket(void **state)
{
    (void)state;
    const struct key_limits limits = {.requests = 100, .images = 2};
    assert_int_equal(ask(&one, &limits, 0), KEY_ADMITTED);
    key_usage_take_images(usage, &one, 2, 0);
    assert_int_equal(ask(&one, &limits, 0), KEY_OVER_IMAGES);
    assert_int_equal(wait_s, 30);
    assert_int_equal(ask(&one, &limits, 30000), KEY_ADMITTED);
}

static void requests_in_progress_are_counted(void **state)
{
    (void)state;
    const struct key_limits limits = {.concurrent = 2};
    assert_int_equal(key_usage_begin(usage, &one, &limits, 0, &wait_s), KEY_ADMITTED);
    assert_int_equal(key_usage_begin(usage, &one, &limits, 0, &wait_s), KEY_ADMITTED);
    assert_int_equal(key_usage_begin(usage, &one, &limits, 0, &wait_s), KEY_OVER_CONCURRENT);
    assert_int_equal(wait_s, 1);
    key_usage_end(usage, &one);
    assert_int_equal(key_usage_begin(usage, &one, &limits, 0, &wait_s), KEY_ADMITTED);
    assert_int_equal(key_usage_begin(usage, &one, &limits, 0, &wait_s), KEY_OVER_CONCURRENT);
}

static void changed_limits_count_from_then_on(void **state)
{
    (void)state;
    assert_int_equal(ask(&one, &(struct key_limits){.requests = 100}, 0), KEY_ADMITTED);
    const struct key_limits fewer = {.requests = 1};
    assert_int_equal(ask(&one, &fewer, 0), KEY_ADMITTED);
    assert_int_equal(ask(&one, &fewer, 0), KEY_OVER_REQUESTS);
    assert_int_equal(ask(&one, &(struct key_limits){0}, 0), KEY_ADMITTED);
    const struct key_limits more = {.requests = 1, .tokens = 5};
    assert_int_equal(ask(&one, &more, 0), KEY_OVER_REQUESTS);
    assert_int_equal(ask(&one, &more, 60000), KEY_ADMITTED); /* the new bucket is full */
}

static void a_place_is_given_on_once_its_key_is_idle(void **state)
{
    (void)state;
    const struct key_limits limits = {.requests = 60};
    assert_int_equal(ask(&one, &limits, 0), KEY_ADMITTED);
    assert_int_equal(ask(&two, &limits, 0), KEY_ADMITTED);
    struct text_buffer text = {0};
    assert_int_equal(ask(&three, &limits, 999), KEY_ADMITTED); /* no room: not limited */
    key_usage_append_headers(usage, &three, 999, &text);
    assert_int_equal(text.length, 0);
    assert_int_equal(ask(&three, &limits, 1000), KEY_ADMITTED);
    key_usage_append_headers(usage, &three, 1000, &text);
    assert_string_equal(text.bytes,
                        "x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-requests: 59\r\n"
                        "x-ratelimit-reset-requests: 1.000s\r\n");
    text_buffer_fini(&text);
}

static void headers_tell_limit_remaining_and_reset(void **state)
{
    (void)state;
    const struct key_limits limits = {.requests = 60, .tokens = 60000, .images = 30};
    struct text_buffer text = {0};
    assert_int_equal(ask(&one, &limits, 500), KEY_ADMITTED);
    key_usage_take_tokens(usage, &one, 60100, 500);
    key_usage_take_images(usage, &one, 3, 500);
    key_usage_append_headers(usage, &one, 501, &text);
    assert_string_equal(text.bytes,
                        "x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-requests: 59\r\n"
                        "x-ratelimit-reset-requests: 0.999s\r\n"
                        "x-ratelimit-limit-tokens: 60000\r\nx-ratelimit-remaining-tokens: 0\r\n"
                        "x-ratelimit-reset-tokens: 60.099s\r\n"
                        "x-ratelimit-limit-images: 30\r\nx-ratelimit-remaining-images: 27\r\n"
                        "x-ratelimit-reset-images: 5.999s\r\n");
    text_buffer_fini(&text);
}

/* Limits of one are the smallest, and equal ones do not cancel each other. */
static void limits_of_one_hold(void **state)
{
    (void)state;
    const struct key_limits requests = {.requests = 1, .tokens = 1};
    assert_int_equal(ask(&one, &requests, 0), KEY_ADMITTED);
    assert_int_equal(ask(&one, &requests, 0), KEY_OVER_REQUESTS);
    const struct key_limits tokens = {.tokens = 1, .images = 1};
    assert_int_equal(ask(&two, &tokens, 0), KEY_ADMITTED);
    key_usage_take_tokens(usage, &two, 1, 0);
    assert_int_equal(ask(&two, &tokens, 0), KEY_OVER_TOKENS);
    assert_int_equal(ask(&two, &tokens, 60000), KEY_ADMITTED);
    const struct key_limits images = {.images = 1, .concurrent = 1};
    assert_int_equal(ask(&one, &images, 60000), KEY_ADMITTED);
    key_usage_take_images(usage, &one, 1, 60000);
    assert_int_equal(ask(&one, &images, 60000), KEY_OVER_IMAGES);
    const struct key_limits concurrent = {.requests = 1, .concurrent = 1};
    assert_int_equal(key_usage_begin(usage, &one, &concurrent, 200000, &wait_s), KEY_ADMITTED);
    assert_int_equal(key_usage_begin(usage, &one, &concurrent, 260000, &wait_s),
                     KEY_OVER_CONCURRENT);
}

/* 100 below zero: full after 70 s, not earlier. */
static void a_bucket_below_zero_fills_at_its_rate(void **state)
{
    (void)state;
    const struct key_limits limits = {.tokens = 600}; /* ten a second */
    struct text_buffer text = {0};
    assert_int_equal(ask(&one, &limits, 0), KEY_ADMITTED);
    key_usage_take_tokens(usage, &one, 700, 0);
    key_usage_append_headers(usage, &one, 55000, &text);
    assert_non_null(strstr(text.bytes, "x-ratelimit-remaining-tokens: 450\r\n"));
    assert_non_null(strstr(text.bytes, "x-ratelimit-reset-tokens: 15.000s\r\n"));
    text_buffer_fini(&text);
}

/* 60000 / 59999 ms are told as 2. */
static void resets_are_rounded_up(void **state)
{
    (void)state;
    const struct key_limits limits = {.requests = 59999};
    struct text_buffer text = {0};
    assert_int_equal(ask(&one, &limits, 0), KEY_ADMITTED);
    key_usage_append_headers(usage, &one, 0, &text);
    assert_non_null(strstr(text.bytes, "x-ratelimit-reset-requests: 0.002s\r\n"));
    text_buffer_fini(&text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(requests_fill_at_their_rate),
        TEST(tokens_are_taken_when_they_are_known),
        TEST(images_have_their_own_bucket),
        TEST(requests_in_progress_are_counted),
        TEST(changed_limits_count_from_then_on),
        TEST(a_place_is_given_on_once_its_key_is_idle),
        TEST(headers_tell_limit_remaining_and_reset),
        TEST(limits_of_one_hold),
        TEST(a_bucket_below_zero_fills_at_its_rate),
        TEST(resets_are_rounded_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
