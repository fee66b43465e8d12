/*
 * call_envelope: which members make a call, the byte at which an invalid object is refused, and the
 * bounds of keys, names and ids.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/reply/call_envelope.h"

#define TEXT_BYTES (6 * LIMIT_TOOL_NAME_BYTES + 2) /* of a key or a name, quotes included */

static struct call_envelope envelope;
static struct call_writer writer;

struct outcome {
    enum call_step step;
    size_t taken; /* bytes; the others are read again */
};

/* Reads what follows the object's brace up to the end of the call. */
static struct outcome read_bytes(const char *text, size_t length, bool known_only)
{
    struct outcome outcome = {CALL_MORE, 0};
    call_writer_clear(&writer);
    call_envelope_begin(&envelope, known_only);
    while (outcome.taken < length && outcome.step == CALL_MORE) {
        size_t unread = 7;
        outcome.step = call_envelope_push(&envelope, &writer, text[outcome.taken], &unread);
        assert_true(unread <= 1);
        assert_true(outcome.step != CALL_BROKEN || unread == 1);
        outcome.taken += 1 - unread;
    }
    return outcome;
}

struct good_case {
    const char *text;
    const char *name;
    const char *arguments;
    const char *id;
    size_t unread; /* bytes after the call */
};

static void expect_calls(const struct good_case *cases, size_t count, bool known_only)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(cases[i].text);
        struct outcome outcome = read_bytes(cases[i].text, length, known_only);
        if (outcome.step != CALL_DONE || outcome.taken != length - cases[i].unread)
            fail_msg("%s: step %d after %zu bytes", cases[i].text, (int)outcome.step,
                     outcome.taken);
        assert_string_equal(writer.name, cases[i].name);
        assert_string_equal(writer.id, cases[i].id ? cases[i].id : "");
        assert_true(writer.is_whole);
        assert_string_equal(writer.arguments.bytes, cases[i].arguments);
    }
}

static void members_come_in_any_order(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {.text = "\"name\": \"f\", \"arguments\": {\"a\": 1}}", "f", "{\"a\": 1}"},
        {.text = " \"parameters\" :\t{\"a\":1}\r, \"tool_name\"\n:\"f\" }", "f", "{\"a\":1}"},
        {.text = "\"function\":\"f\",\"id\":\"i\",\"arguments\":{}}", "f", "{}", "i"},
        {.text = "\"tool_call_id\":\"i\",\"name\":\"f\"}", "f", "{}", "i"},
        {.text = "\"name\":\"f\"}", "f", "{}"},
    };
    expect_calls(cases, sizeof cases / sizeof cases[0], false);
    expect_calls(cases, sizeof cases / sizeof cases[0], true);
}

static void keys_and_names_are_decoded(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {.text = "\"n\\u0061me\":\"\\u00fcb\"}",
         "\xc3\xbc"
         "b",
         "{}"},
        {.text = "\"n\\u0061me\":\"a\\\"b\",\"i\\u0064\":\"\\\\\"}", "a\"b", "{}", "\\"},
    };
    expect_calls(cases, sizeof cases / sizeof cases[0], true);
}

static void other_members_are_skipped(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {.text = "\"x\":12,\"name\":\"f\"}", "f", "{}"},
        {.text = "\"name\":\"f\",\"x\":12}", "f", "{}"}, /* the brace ends the number */
        {.text = "\"name\":\"f\",\"x\": [1, {\"arguments\": {}}], \"y\":null}", "f", "{}"},
        {.text = "\"type\":\"name\",\"name\":\"f\"}", "f", "{}"},
        {.text = "\"id\":7,\"name\":\"f\"}", "f", "{}"},
        {.text = "\"id\":null,\"name\":\"f\"}", "f", "{}"},
    };
    expect_calls(cases, sizeof cases / sizeof cases[0], false);
}

static void arguments_may_be_null_or_in_a_string(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {.text = "\"name\":\"f\",\"arguments\":null}", "f", "{}"},
        {.text = "\"name\":\"f\",\"arguments\":\"{}\"}", "f", "{}"},
        {.text = "\"arguments\":\" {\\\"a\\\":[2]} \",\"name\":\"f\"}", "f", "{\"a\":[2]}"},
    };
    expect_calls(cases, sizeof cases / sizeof cases[0], false);
}

static void a_function_may_wrap_the_call(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {.text = "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}",
         "f",
         "{\"a\":1}"},
        {.text = "\"function\":{},\"name\":\"f\"}", "f", "{}"},
        {.text = "\"function\":{\"name\":\"f\"},\"id\":\"i\"}", "f", "{}", "i"},
    };
    expect_calls(cases, sizeof cases / sizeof cases[0], true);
}

/* Arguments that have begun were announced, perhaps with a generated id. */
static void an_id_after_the_arguments_is_dropped(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {.text = "\"name\":\"f\",\"arguments\":{},\"id\":\"i\"}", "f", "{}"},
        {.text = "\"name\":\"f\",\"id\":\"i\",\"arguments\":{}}", "f", "{}", "i"},
    };
    expect_calls(cases, sizeof cases / sizeof cases[0], false);
}

/* Models leave out the last brace. */
static void a_call_with_arguments_ends_before_other_text(void **state)
{
    (void)state;
    static const struct good_case cases[] = {
        {.text = "\"name\":\"f\",\"arguments\":{}x", "f", "{}", NULL, 1},
        {.text = "\"name\":\"f\",\"arguments\":{} \n<", "f", "{}", NULL, 1},
        {.text = "\"arguments\":null,\"name\":\"f\"]", "f", "{}", NULL, 1},
        {.text = "\"function\":{\"name\":\"f\",\"arguments\":{}}<", "f", "{}", NULL, 1},
        {.text = "\"function\":{\"name\":\"f\",\"arguments\":{}<", "f", "{}", NULL, 1},
    };
    expect_calls(cases, sizeof cases / sizeof cases[0], false);
}

struct broken_case {
    const char *text;
    size_t taken;
};

static void expect_broken(const struct broken_case *cases, size_t count, bool known_only)
{
    for (size_t i = 0; i < count; i++) {
        struct outcome outcome = read_bytes(cases[i].text, strlen(cases[i].text), known_only);
        if (outcome.step != CALL_BROKEN || outcome.taken != cases[i].taken)
            fail_msg("%s: step %d after %zu bytes", cases[i].text, (int)outcome.step,
                     outcome.taken);
    }
}

static void invalid_objects_are_refused_at_once(void **state)
{
    (void)state;
    static const struct broken_case cases[] = {
        {"}", 0}, /* no name */
        {"\"arguments\":{}}", 14},
        {"x", 0},
        {"\"name\" x", 7},
        {"\"name\":\"f\" \"", 11},
        {"\"name\":\"f\",}", 11},
        {"\"name\":\"f\" x", 11}, /* neither arguments nor a brace */
        {"\"arguments\":{}x", 14},
        {"\"name\":7", 7},
        {"\"name\":n", 7},
        {"\"name\":{", 7},
        {"\"name\":\"\"", 8},
        {"\"name\":\"\\u0007\"", 14},
        {"\"name\":\"f\",\"tool_name\":\"g\"", 25},
        {"\"type\":trux", 10},
        {"\"arguments\":[", 12},
        {"\"arguments\":7", 12},
        {"\"arguments\":t", 12},
        {"\"arguments\":nulx", 15},
        {"\"arguments\":{]", 13},
        {"\"arguments\":\"[]\"", 15},
        {"\"arguments\":\"{} x\"", 17},
        {"\"arguments\":\"{\"", 14},
        {"\"arguments\":\"\"", 13},
        {"\"arguments\":{},\"parameters\":{", 28},
        {"\"arguments\":null,\"arguments\":{", 29},
        {"\"arguments\":{},\"arguments\":n", 27},
        {"\"arguments\":{},\"arguments\":\"", 27},
        {"\"function\":{\"function\":{", 23},
        {"\"function\":[", 11},
    };
    expect_broken(cases, sizeof cases / sizeof cases[0], false);
}

static void bare_objects_begin_with_a_known_member(void **state)
{
    (void)state;
    static const struct broken_case cases[] = {{"\"x\":1", 2}, {"\"names\":1", 6}, {"\"\":1", 1}};
    static const struct good_case later = {.text = "\"type\":0,\"x\":1,\"name\":\"f\"}", "f", "{}"};
    expect_broken(cases, sizeof cases / sizeof cases[0], true);
    expect_calls(&later, 1, true);
}

/* `begin`, `count` times `unit`, `end`. */
static struct text_buffer long_text(const char *begin, const char *unit, size_t count,
                                    const char *end)
{
    struct text_buffer text = {0};
    text_buffer_append_text(&text, begin);
    for (size_t i = 0; i < count; i++)
        text_buffer_append_text(&text, unit);
    text_buffer_append_text(&text, end);
    assert_false(text.failed);
    return text;
}

static void expect_long(struct text_buffer text, enum call_step step, size_t taken)
{
    struct outcome outcome = read_bytes(text.bytes, text.length, false);
    assert_int_equal(outcome.step, step);
    assert_int_equal(outcome.taken, taken);
    text_buffer_fini(&text);
}

static void keys_and_names_are_bounded(void **state)
{
    (void)state;
    struct text_buffer text = long_text("\"", "k", TEXT_BYTES - 2, "\":0,\"name\":\"f\"}");
    expect_long(text, CALL_DONE, text.length);
    expect_long(long_text("\"", "k", TEXT_BYTES - 1, "\":0"), CALL_BROKEN, TEXT_BYTES);
    /* Every byte of a name may be an escape. */
    text = long_text("\"name\":\"", "\\u0061", LIMIT_TOOL_NAME_BYTES, "\"}");
    expect_long(text, CALL_DONE, text.length);
    assert_int_equal(strlen(writer.name), LIMIT_TOOL_NAME_BYTES);
    expect_long(long_text("\"name\":\"", "n", 2 * TEXT_BYTES, "\"}"), CALL_BROKEN, 7 + TEXT_BYTES);
    /* A name that is too long breaks the call, an id does not. */
    expect_long(long_text("\"name\":\"", "n", LIMIT_TOOL_NAME_BYTES + 1, "\"}"), CALL_BROKEN,
                8 + LIMIT_TOOL_NAME_BYTES + 1);
    text = long_text("\"id\":\"", "i", LIMIT_TOOL_NAME_BYTES + 1, "\",\"name\":\"f\"}");
    expect_long(text, CALL_DONE, text.length);
    assert_string_equal(writer.id, "");
}

static void other_values_are_not_bounded_here(void **state)
{
    (void)state;
    struct text_buffer text = long_text("\"x\":\"", "x", 2 * TEXT_BYTES, "\",\"name\":\"f\"}");
    expect_long(text, CALL_DONE, text.length);
    text = long_text("\"name\":\"f\",\"arguments\":\"{\\\"a\\\":\\\"", "x", 2 * TEXT_BYTES,
                     "\\\"}\"}");
    expect_long(text, CALL_DONE, text.length);
    assert_int_equal(writer.arguments.length, 2 * TEXT_BYTES + strlen("{\"a\":\"\"}"));
}

static int forget(void **state)
{
    (void)state;
    call_envelope_fini(&envelope);
    call_writer_fini(&writer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_in_any_order),
        cmocka_unit_test(keys_and_names_are_decoded),
        cmocka_unit_test(other_members_are_skipped),
        cmocka_unit_test(arguments_may_be_null_or_in_a_string),
        cmocka_unit_test(a_function_may_wrap_the_call),
        cmocka_unit_test(an_id_after_the_arguments_is_dropped),
        cmocka_unit_test(a_call_with_arguments_ends_before_other_text),
        cmocka_unit_test(invalid_objects_are_refused_at_once),
        cmocka_unit_test(bare_objects_begin_with_a_known_member),
        cmocka_unit_test(keys_and_names_are_bounded),
        cmocka_unit_test(other_values_are_not_bounded_here),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
