/*
 * The payload of a vocabulary record: its parts, and each wrong element found.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/token_table.h"

static const struct token_table_sizes sizes = {.token_count = 3, .end_count = 1, .text_bytes = 6};

/* "abc", a special token, "def". */
static struct token_table fill(uint32_t *payload)
{
    struct token_table table = token_table_place(&sizes, payload);
    const uint32_t offsets[4] = {0, 3, 3, 6};
    memcpy(table.offsets, offsets, sizeof offsets);
    table.end_tokens[0] = 1;
    memcpy(table.text, "abcdef", 6);
    return table;
}

static void parts_follow_each_other(void **state)
{
    (void)state;
    uint32_t payload[7];
    struct token_table table = fill(payload);
    assert_int_equal(token_table_bytes(&sizes), 4 * 4 + 4 + 6);
    assert_ptr_equal(table.offsets, payload);
    assert_ptr_equal(table.end_tokens, payload + 4);
    assert_ptr_equal(table.text, payload + 5);
    assert_int_equal(token_table_check(&sizes, &table, NULL), RESULT_OK);
}

static void wrong_elements_are_found(void **state)
{
    (void)state;
    const struct {
        uint32_t word, value;
    } wrong[] = {{0, 1}, {1, 7}, {1, UINT32_MAX}, {2, 2}, {3, 5}, {3, 7}, {4, 3}, {4, UINT32_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint32_t payload[7];
        struct token_table table = fill(payload);
        payload[wrong[i].word] = wrong[i].value;
        struct error_text error = {""};
        assert_int_equal(token_table_check(&sizes, &table, &error), RESULT_CORRUPT);
        assert_true(error.text[0] != '\0');
    }
}

static void a_token_has_a_bounded_length(void **state)
{
    (void)state;
    static uint32_t payload[2 + (LIMIT_TOKEN_BYTES + 1) / 4 + 1];
    for (uint32_t more = 0; more < 2; more++) {
        const struct token_table_sizes one = {1, 0, LIMIT_TOKEN_BYTES + more};
        struct token_table table = token_table_place(&one, payload);
        table.offsets[1] = LIMIT_TOKEN_BYTES + more;
        assert_int_equal(token_table_check(&one, &table, NULL), more ? RESULT_CORRUPT : RESULT_OK);
    }
}

static void expect_sizes(struct token_table_sizes checked, const char *field)
{
    struct error_text error = {""};
    enum result result = token_table_check_sizes(&checked, &error);
    assert_int_equal(result, field ? RESULT_CORRUPT : RESULT_OK);
    if (field)
        assert_memory_equal(error.text, field, strlen(field));
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    const struct token_table_sizes least = {.token_count = 1};
    const struct token_table_sizes most = {.token_count = LIMIT_VOCAB_TOKENS,
                                           .end_count = LIMIT_STOP_TOKENS,
                                           .text_bytes = LIMIT_TOKEN_TABLE_BYTES};
    expect_sizes(least, NULL);
    expect_sizes(most, NULL);
    struct token_table_sizes wrong = least;
    wrong.token_count = 0;
    expect_sizes(wrong, "S20: token_count 0");
    wrong = most;
    wrong.token_count++;
    expect_sizes(wrong, "S20: token_count");
    wrong = most;
    wrong.end_count++;
    expect_sizes(wrong, "S20: end_count 65");
    wrong = most;
    wrong.text_bytes++;
    expect_sizes(wrong, "S20: text_bytes");
}

/* Of the length of one token, wherever it lies in the text. */
static void long_tokens_may_follow_each_other(void **state)
{
    (void)state;
    static uint32_t payload[4 + 3 * LIMIT_TOKEN_BYTES / 4];
    const struct token_table_sizes three = {3, 0, 3 * LIMIT_TOKEN_BYTES};
    struct token_table table = token_table_place(&three, payload);
    for (uint32_t i = 0; i <= 3; i++)
        table.offsets[i] = i * LIMIT_TOKEN_BYTES;
    struct error_text error = {""};
    assert_int_equal(token_table_check(&three, &table, &error), RESULT_OK);
    table.offsets[2]++; /* the second is too long */
    assert_int_equal(token_table_check(&three, &table, &error), RESULT_CORRUPT);
    assert_string_equal(error.text, "token 1: bytes 1024 up to 2049");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_each_other),
        cmocka_unit_test(wrong_elements_are_found),
        cmocka_unit_test(a_token_has_a_bounded_length),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(long_tokens_may_follow_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
