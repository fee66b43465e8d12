/*
 * call_writer: names within their limits, arguments that are valid JSON wherever they end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/reply/call_writer.h"

static struct call_writer writer;

static int begin(void **state)
{
    (void)state;
    writer = (struct call_writer){0};
    return 0;
}

static int end(void **state)
{
    (void)state;
    call_writer_fini(&writer);
    return 0;
}

static void expect_arguments(const char *expected)
{
    assert_string_equal(writer.arguments.bytes, expected);
    assert_int_equal(writer.arguments.length, strlen(expected));
}

static void names_have_one_byte_up_to_the_limit(void **state)
{
    (void)state;
    char longest[LIMIT_TOOL_NAME_BYTES + 1];
    memset(longest, 'n', sizeof longest);
    assert_true(call_writer_set_name(&writer, "f", 1));
    assert_string_equal(writer.name, "f");
    assert_false(call_writer_set_name(&writer, "x", 0));
    assert_false(call_writer_set_name(&writer, longest, LIMIT_TOOL_NAME_BYTES + 1));
    assert_string_equal(writer.name, "f");
    assert_true(call_writer_set_name(&writer, longest, LIMIT_TOOL_NAME_BYTES));
    assert_int_equal(strlen(writer.name), LIMIT_TOOL_NAME_BYTES);
    assert_true(call_writer_set_name(&writer, "get_time(now)", 8)); /* shorter than the last */
    assert_string_equal(writer.name, "get_time");
}

static void names_have_no_control_characters(void **state)
{
    (void)state;
    assert_true(call_writer_set_name(&writer, "a b~\xc3\xbc", 6));
    assert_false(call_writer_set_name(&writer, "\x1f", 1));
    assert_false(call_writer_set_name(&writer, "\nf", 2));
    assert_false(call_writer_set_name(&writer, "f\x7f", 2));
    assert_string_equal(writer.name, "a b~\xc3\xbc");
    assert_true(call_writer_set_name(&writer, "f\n", 1)); /* bytes past the length do not count */
    assert_string_equal(writer.name, "f");
}

static void ids_obey_the_rules_of_names(void **state)
{
    (void)state;
    assert_true(call_writer_set_id(&writer, "call_1", 6));
    assert_false(call_writer_set_id(&writer, "", 0));
    assert_false(call_writer_set_id(&writer, "\t", 1));
    assert_string_equal(writer.id, "call_1");
    assert_string_equal(writer.name, "");
}

static void arguments_are_one_object(void **state)
{
    (void)state;
    assert_false(call_writer_put_text(&writer, "[1]"));
    assert_false(call_writer_put_text(&writer, " {}"));
    assert_false(writer.has_begun);
    assert_int_equal(writer.arguments.length, 0);
    assert_true(call_writer_put(&writer, "}", 0)); /* no bytes */
    assert_true(call_writer_put(&writer, "{\"a\":{}}]", 5));
    assert_true(writer.has_begun);
    assert_true(call_writer_put_text(&writer, "{}"));
    assert_false(writer.is_whole);
    assert_true(call_writer_put_text(&writer, "}"));
    assert_true(writer.is_whole);
    expect_arguments("{\"a\":{}}");
    assert_false(call_writer_put_text(&writer, " "));
    assert_false(call_writer_put_text(&writer, "{"));
    expect_arguments("{\"a\":{}}");
}

static void bytes_before_an_invalid_one_are_taken(void **state)
{
    (void)state;
    assert_false(call_writer_put_text(&writer, "{\"a\":1;2"));
    call_writer_close(&writer);
    expect_arguments("{\"a\":1}");
    assert_true(writer.is_whole);
}

static void keys_are_separated_by_commas(void **state)
{
    (void)state;
    assert_true(call_writer_put_text(&writer, "{"));
    assert_true(call_writer_put_key(&writer, "ab", 1));
    assert_true(call_writer_put_text(&writer, "1"));
    assert_true(call_writer_put_key(&writer, "b", 1));
    assert_true(call_writer_put_text(&writer, "[2]"));
    assert_true(call_writer_put_key(&writer, "", 0));
    assert_true(call_writer_put_text(&writer, "3}"));
    expect_arguments("{\"a\":1,\"b\":[2],\"\":3}");
}

static void a_key_needs_a_place_for_one(void **state)
{
    (void)state;
    assert_false(call_writer_put_key(&writer, "a", 1)); /* no object yet */
    assert_false(writer.has_begun);
    assert_true(call_writer_put_text(&writer, "{\"a\":"));
    assert_false(call_writer_put_key(&writer, "b", 1)); /* the value is missing */
    assert_true(call_writer_put_text(&writer, "1,"));
    assert_false(call_writer_put_key(&writer, "b", 1)); /* a second comma */
    assert_true(call_writer_put_text(&writer, "\"c\":2}"));
    assert_false(call_writer_put_key(&writer, "d", 1)); /* the object is complete */
    expect_arguments("{\"a\":1,\"c\":2}");
}

static void quoted_bytes_are_escaped(void **state)
{
    (void)state;
    static const char bytes[] = "a\"b\\c\nd";
    assert_true(call_writer_put_text(&writer, "{"));
    assert_true(call_writer_put_key(&writer, "k\"\\", 3));
    assert_true(call_writer_put_text(&writer, "\""));
    call_writer_put_quoted(&writer, bytes, sizeof bytes - 1);
    call_writer_put_quoted(&writer, "xy", 1); /* the string goes on, and only `count` bytes */
    assert_true(call_writer_put_text(&writer, "\"}"));
    expect_arguments("{\"k\\\"\\\\\":\"a\\\"b\\\\c\\nd"
                     "x\"}");
}

static void closing_completes_the_object(void **state)
{
    (void)state;
    call_writer_close(&writer);
    expect_arguments("{}");
    assert_true(writer.is_whole);
    call_writer_close(&writer); /* a whole object stays as it is */
    expect_arguments("{}");

    call_writer_clear(&writer);
    assert_true(call_writer_put_text(&writer, "{\"a\":[\"b"));
    call_writer_close(&writer);
    expect_arguments("{\"a\":[\"b\"]}");
    assert_false(call_writer_put_text(&writer, "}"));
}

static void closing_drops_an_incomplete_character(void **state)
{
    (void)state;
    assert_true(call_writer_put_text(&writer, "{\"a\":\"\xc3\xbc\xe2\x82"));
    call_writer_close(&writer);
    expect_arguments("{\"a\":\"\xc3\xbc\"}");
}

static void a_cleared_call_begins_anew(void **state)
{
    (void)state;
    assert_true(call_writer_set_name(&writer, "f", 1));
    assert_true(call_writer_set_id(&writer, "i", 1));
    assert_true(call_writer_put_text(&writer, "{\"a\":[1"));
    call_writer_clear(&writer);
    assert_string_equal(writer.name, "");
    assert_string_equal(writer.id, "");
    assert_int_equal(writer.arguments.length, 0);
    assert_false(writer.has_begun);
    assert_false(call_writer_put_text(&writer, "1"));
    assert_true(call_writer_put_text(&writer, "{}"));
    assert_true(writer.is_whole);
    call_writer_clear(&writer);
    assert_false(writer.is_whole);
    assert_true(call_writer_put_text(&writer, "{"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_have_one_byte_up_to_the_limit, begin, end),
        cmocka_unit_test_setup_teardown(names_have_no_control_characters, begin, end),
        cmocka_unit_test_setup_teardown(ids_obey_the_rules_of_names, begin, end),
        cmocka_unit_test_setup_teardown(arguments_are_one_object, begin, end),
        cmocka_unit_test_setup_teardown(bytes_before_an_invalid_one_are_taken, begin, end),
        cmocka_unit_test_setup_teardown(keys_are_separated_by_commas, begin, end),
        cmocka_unit_test_setup_teardown(a_key_needs_a_place_for_one, begin, end),
        cmocka_unit_test_setup_teardown(quoted_bytes_are_escaped, begin, end),
        cmocka_unit_test_setup_teardown(closing_completes_the_object, begin, end),
        cmocka_unit_test_setup_teardown(closing_drops_an_incomplete_character, begin, end),
        cmocka_unit_test_setup_teardown(a_cleared_call_begins_anew, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
