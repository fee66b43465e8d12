/*
 * The prompt's log: what was pushed comes back, and is written in vLLM's form.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "frontend/reply/prompt_log.h"
#include "tests/support/test_random.h"
#include "tests/support/tiny_tokenizer.h"

static struct tokenizer *tokenizer;

static int open_tokenizer(void **state)
{
    (void)state;
    tokenizer = tiny_tokenizer_open();
    return 0;
}

static int close_tokenizer(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    return 0;
}

static void assert_written(const struct prompt_log *log, uint32_t top, const char *expected)
{
    struct text_buffer out = {0};
    prompt_log_write(log, top, &out);
    text_buffer_append(&out, "", 1);
    assert_string_equal(out.bytes, expected);
    text_buffer_fini(&out);
}

static void the_first_token_has_none(void **state)
{
    (void)state;
    struct prompt_log *log = prompt_log_create(tokenizer, TINY_HE);
    assert_int_equal(prompt_log_count(log), 1);
    assert_int_equal(prompt_log_at(log, 0).own.token, TINY_HE);
    assert_int_equal(prompt_log_at(log, 0).rank, 0);
    assert_int_equal(prompt_log_at(log, 0).alternative_count, 0);
    assert_written(log, 3, "[null]");
    prompt_log_destroy(log);
    prompt_log_destroy(NULL);
}

/* The pair after an entry's alternatives is the next entry's: it is not written. */
static void a_token_beyond_the_alternatives_has_its_own_rank(void **state)
{
    (void)state;
    const struct token_logprob best = {'a', -0.5f}, own = {'b', -4.0f};
    struct prompt_log *log = prompt_log_create(tokenizer, 'x');
    prompt_log_push(log, own, 7, &best, 1);
    prompt_log_push(log, own, 7, &best, 1);
    const char *const b = "{\"98\":{\"logprob\":-4,\"rank\":7,\"decoded_token\":\"b\"}}";
    char expected[512];
    (void)snprintf(expected, sizeof expected, "[null,%s,%s]", b, b);
    assert_written(log, 0, expected);
    prompt_log_destroy(log);
}

static void a_token_is_written_with_its_alternatives(void **state)
{
    (void)state;
    const struct token_logprob best[] = {{'a', -0.5f}, {'"', -1.0f}};
    struct prompt_log *log = prompt_log_create(tokenizer, 'x');
    prompt_log_push(log, best[1], 2, best, 2);
    prompt_log_push(log, (struct token_logprob){0xc3, -4.0f}, 200, best, 2); /* half a character */
    const char *const a = "\"97\":{\"logprob\":-0.5,\"rank\":1,\"decoded_token\":\"a\"}";
    const char *const quote = "\"34\":{\"logprob\":-1,\"rank\":2,\"decoded_token\":\"\\\"\"}";
    const char *const half =
        "\"195\":{\"logprob\":-4,\"rank\":200,\"decoded_token\":\"\xef\xbf\xbd\"}";
    char expected[512];
    (void)snprintf(expected, sizeof expected, "[null,{%s,%s},{%s,%s,%s}]", a, quote, a, quote,
                   half);
    assert_written(log, 2, expected);
    assert_written(log, 20, expected);
    /* Fewer are wanted than are known: the token itself comes anyway, with its rank. */
    (void)snprintf(expected, sizeof expected, "[null,{%s,%s},{%s,%s}]", a, quote, a, half);
    assert_written(log, 1, expected);
    (void)snprintf(expected, sizeof expected, "[null,{%s},{%s}]", quote, half);
    assert_written(log, 0, expected);
    prompt_log_destroy(log);
}

static void many_tokens_come_back(void **state)
{
    (void)state;
    struct test_random random = {.state = 5};
    struct token_logprob pairs[21];
    struct prompt_log *log = prompt_log_create(tokenizer, 0);
    uint32_t counts[500];
    for (uint32_t at = 1; at < 500; at++) {
        counts[at] = (uint32_t)test_random_below(&random, 21);
        for (uint32_t i = 0; i <= counts[at]; i++)
            pairs[i] = (struct token_logprob){(at + i) % TINY_VOCAB, -(float)i};
        prompt_log_push(log, pairs[0], at + 1, pairs + 1, counts[at]);
    }
    assert_int_equal(prompt_log_count(log), 500);
    for (uint32_t at = 1; at < 500; at++) {
        struct prompt_log_entry entry = prompt_log_at(log, at);
        assert_int_equal(entry.own.token, at % TINY_VOCAB);
        assert_int_equal(entry.rank, at + 1);
        assert_int_equal(entry.alternative_count, counts[at]);
        for (uint32_t i = 0; i < counts[at]; i++)
            assert_int_equal(entry.alternatives[i].token, (at + i + 1) % TINY_VOCAB);
    }
    prompt_log_destroy(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_token_has_none),
        cmocka_unit_test(a_token_beyond_the_alternatives_has_its_own_rank),
        cmocka_unit_test(a_token_is_written_with_its_alternatives),
        cmocka_unit_test(many_tokens_come_back),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
