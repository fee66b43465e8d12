/* Hostile templates and inputs end with a clear error, soon, at a bound of proto/limits.h. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/limits.h"
#include "tests/support/template_case.h"

/* Sanitizers slow everything down by an order of magnitude. */
#define SECONDS_MAX 20

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void gives(const char *source, const char *variables_json, enum result expected)
{
    struct cJSON *variables = cJSON_Parse(variables_json);
    struct chat_prompt prompt = {0};
    struct error_text error = {""};
    double start = seconds_now();
    enum result result =
        template_case_render(source, strlen(source), variables, NULL, &prompt, &error);
    assert_int_equal(result, expected);
    assert_true(result == RESULT_OK || error.text[0] != '\0');
    assert_true(seconds_now() - start < SECONDS_MAX);
    chat_prompt_fini(&prompt);
    cJSON_Delete(variables);
}

static void too_large(const char *source)
{
    gives(source, "{\"s\":\"abc\"}", RESULT_TOO_LARGE);
}

static void steps_are_bounded(void **state)
{
    (void)state;
    too_large("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
    too_large(
        "{% set x = 'a' * 2000000 %}{% set y = 'a' * 1000000 + 'b' %}{% for a in range(999) %}"
        "{{ x.rfind(y) }}{% endfor %}");
}

/* Text that an operation reads without copying it costs steps as well. */
static void reading_text_costs_steps(void **state)
{
    (void)state;
    static const char *const expressions[] = {
        "s|truncate(600000)",
        "s.removesuffix(t)",
        "s.removeprefix(t)",
        "s[-1]",
        "s[1:2]",
        "s.center(3)",
        "s.count('x')",
        "s.isdigit()",
        "s.rfind('x')",
        "'x' in s",
        "s == t",
        "s is lower",
        "l == m",
        "-1 in l",
        "l|max",
    };
    for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++) {
        char source[400];
        (void)snprintf(source, sizeof source,
                       "{%% set s = '\u00e9' * 500000 %%}{%% set t = '\u00e9' * 500000 %%}"
                       "{%% set l = range(50000)|list %%}{%% set m = range(50000)|list %%}"
                       "{%% for a in range(99999) %%}{%% for b in range(99999) %%}"
                       "{%% set x = %s %%}{%% endfor %%}{%% endfor %%}",
                       expressions[i]);
        too_large(source);
    }
}

static void a_rendering_can_be_cancelled(void **state)
{
    (void)state;
    static const char source[] = "{% for a in range(99999) %}{% endfor %}";
    struct chat_template *template;
    struct chat_prompt prompt;
    struct error_text error;
    atomic_bool cancelled = true;
    struct cJSON *variables = cJSON_CreateObject();
    assert_int_equal(chat_template_open(source, strlen(source), &template, &error), RESULT_OK);
    assert_int_equal(
        chat_template_render(template, variables, NULL, 0, &cancelled, &prompt, &error),
        RESULT_CANCELLED);
    cancelled = false;
    assert_int_equal(
        chat_template_render(template, variables, NULL, 0, &cancelled, &prompt, &error), RESULT_OK);
    chat_prompt_fini(&prompt);
    chat_template_close(template);
    cJSON_Delete(variables);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    too_large("{{ 'a' * 1000000000000 }}");
    too_large("{{ [1] * 1000000000000 }}");
    too_large("{{ [1, 2] * 9223372036854775807 }}");
    too_large("{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}"
              "{% endfor %}");
    too_large("{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
              "{% endfor %}");
    too_large("{{ '%1000000000s' % 'x' }}");
    too_large("{{ '{:1000000000}'.format('x') }}");
    too_large("{{ 'x'.center(9223372036854775807) }}");
    too_large("{{ 'a\nb' | indent(1000000000) }}");
    too_large("{{ [[[1]]] | tojson(indent=1000000000) }}");
}

static void output_is_bounded(void **state)
{
    (void)state;
    too_large("{% set x = 'abcd' * 1000000 %}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}");
    too_large("{% set x = 'abcd' * 1000000 %}{% macro m() %}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}"
              "{% endmacro %}{{ m() | length }}");
}

static void depth_is_bounded(void **state)
{
    (void)state;
    too_large("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
    too_large("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
    too_large("{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}"
              "{% endfor %}{{ ns.x }}");
    too_large("{% set a = namespace(x=[]) %}{% set b = namespace(x=[]) %}{% for i in range(9999) %}"
              "{% set a.x = [a.x] %}{% set b.x = [b.x] %}{% endfor %}{{ a.x == b.x }}");
    too_large("{% set a = namespace() %}{% set a.a = a %}{{ a }}");
}

/* prefix × count, then middle, then suffix × count */
static void nested(const char *prefix, const char *middle, const char *suffix, size_t count,
                   enum result expected)
{
    size_t bytes = count * (strlen(prefix) + strlen(suffix)) + strlen(middle) + 1;
    char *source = calloc(bytes, 1);
    char *at = source;
    assert_non_null(source);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, prefix);
    at = stpcpy(at, middle);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, suffix);
    gives(source, "{}", expected);
    free(source);
}

static void nesting_of_the_source_is_bounded(void **state)
{
    (void)state;
    nested("{% if 1 %}", "x", "{% endif %}", 30, RESULT_OK);
    nested("{% if 1 %}", "x", "{% endif %}", 5000, RESULT_TOO_LARGE);
    nested("{% for i in [1] %}", "x", "{% endfor %}", 5000, RESULT_TOO_LARGE);
}

/* {{ prefix × count, then middle, then suffix × count }} */
static void expression(const char *prefix, const char *middle, const char *suffix, size_t count,
                       enum result expected)
{
    char *source =
        calloc(count * (strlen(prefix) + strlen(suffix)) + strlen(middle) + sizeof("{{  }}"), 1);
    assert_non_null(source);
    char *at = stpcpy(source, "{{ ");
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, prefix);
    at = stpcpy(at, middle);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, suffix);
    (void)stpcpy(at, " }}");
    gives(source, "{}", expected);
    free(source);
}

static void expressions_are_bounded(void **state)
{
    (void)state;
    expression("1 + ", "1", "", 20000, RESULT_OK);
    expression("1 ~ ", "1", "", 20000, RESULT_OK);
    expression("1 and ", "1", "", 20000, RESULT_OK);
    expression("(", "1", ")", 20, RESULT_OK);
    expression("1", "", "|abs", 50, RESULT_INVALID);
    expression("", "1", "|abs", 50, RESULT_OK);
    expression("not ", "1", "", 20000, RESULT_TOO_LARGE);
    expression("- ", "1", "", 20000, RESULT_TOO_LARGE);
    expression("(", "1", ")", 20000, RESULT_TOO_LARGE);
    expression("[", "1", "]", 20000, RESULT_TOO_LARGE);
    expression("{1:", "1", "}", 20000, RESULT_TOO_LARGE);
    expression("1 if 1 else ", "1", "", 20000, RESULT_TOO_LARGE);
    expression("1 if 1 if ", "1", "", 20000, RESULT_TOO_LARGE);
    expression("1 < ", "1", "", 20000, RESULT_TOO_LARGE);
    expression("", "1", "|abs", 20000, RESULT_TOO_LARGE);
    expression("", "1", "|abs is odd", 20000, RESULT_TOO_LARGE);
    expression("", "x", ".y", 20000, RESULT_TOO_LARGE);
    expression("", "x", "()", 20000, RESULT_TOO_LARGE);
    expression("", "x", "[0]", 20000, RESULT_TOO_LARGE);
    expression("x[", "0", "]", 20000, RESULT_TOO_LARGE);
    expression("range(", "1", ")", 20000, RESULT_TOO_LARGE);
}

static void source_is_bounded(void **state)
{
    (void)state;
    char *source = malloc(LIMIT_TEMPLATE_BYTES + 2);
    struct chat_template *template;
    struct error_text error;
    assert_non_null(source);
    memset(source, 'a', LIMIT_TEMPLATE_BYTES + 2);
    assert_int_equal(chat_template_open(source, LIMIT_TEMPLATE_BYTES + 1, &template, &error),
                     RESULT_TOO_LARGE);
    assert_int_equal(chat_template_open(source, LIMIT_TEMPLATE_BYTES, &template, &error),
                     RESULT_OK);
    chat_template_close(template);
    free(source);
}

/* Twenty thousand names and as many slots to look through. */
static void names_are_bounded(void **state)
{
    (void)state;
    char *source = malloc(LIMIT_TEMPLATE_BYTES);
    assert_non_null(source);
    size_t length = 0;
    for (int i = 0; length + 32 < LIMIT_TEMPLATE_BYTES; i++)
        length += (size_t)snprintf(source + length, 32, "{{n%d}}", i);
    double start = seconds_now();
    gives(source, "{}", RESULT_TOO_LARGE);
    assert_true(seconds_now() - start < SECONDS_MAX);
    free(source);
}

static void input_nesting_is_bounded(void **state)
{
    (void)state;
    char json[600] = "{\"x\":";
    char *at = json + strlen(json);
    memset(at, '[', 200);
    memset(at + 200, ']', 200);
    (void)stpcpy(at + 400, "}");
    gives("{{ x }}", json, RESULT_TOO_LARGE);
    gives("{{ x }}", "[1]", RESULT_INVALID);
}

/* A hundred thousand messages' worth of text goes through: the bounds are not for real work. */
static void gathering_text_is_linear(void **state)
{
    (void)state;
    gives("{% set ns = namespace(s='') %}{% for i in range(50000) %}"
          "{% set ns.s = ns.s + 'some text and ' + s %}{% endfor %}{{ ns.s }}",
          "{\"s\":\"a caller's words\"}", RESULT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_bounded),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(reading_text_costs_steps),
        cmocka_unit_test(a_rendering_can_be_cancelled),
        cmocka_unit_test(output_is_bounded),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(nesting_of_the_source_is_bounded),
        cmocka_unit_test(expressions_are_bounded),
        cmocka_unit_test(source_is_bounded),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(input_nesting_is_bounded),
        cmocka_unit_test(gathering_text_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
