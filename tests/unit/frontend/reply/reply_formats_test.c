/*
 * reply_formats: names of the command line are checked, formats come from names or the template,
 * and harmony is both formats or neither.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frontend/reply/reply_formats.h"
#include "tests/support/tiny_tokenizer.h"

#define HARMONY_TEMPLATE "{{ '<|channel|>' + role + '<|message|>' }}"
#define QWEN_TEMPLATE    "{{ '<tool_call>' }}{{ '<think></think>' }}"

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

static void expect_valid(const char *reasoning, const char *tools)
{
    const struct reply_format_names names = {reasoning, tools};
    struct error_text error = {0};
    assert_int_equal(reply_format_names_check(&names, &error), RESULT_OK);
}

static void expect_refused(const char *reasoning, const char *tools, const char *message)
{
    const struct reply_format_names names = {reasoning, tools};
    struct error_text error = {0};
    assert_int_equal(reply_format_names_check(&names, &error), RESULT_INVALID);
    if (strncmp(error.text, message, strlen(message)) != 0)
        fail_msg("message: %s", error.text);
}

/* Formats by name; NULL: none. */
static void expect_formats(const char *reasoning, const char *tools, const char *source,
                           const char *expected_reasoning, const char *expected_tools)
{
    const struct reply_format_names names = {reasoning, tools};
    struct reply_formats formats;
    assert_int_equal(
        reply_formats_choose(&formats, &names, source, source ? strlen(source) : 0, tokenizer),
        RESULT_OK);
    assert_ptr_equal(formats.reasoning,
                     expected_reasoning ? reasoning_format_find(expected_reasoning) : NULL);
    assert_ptr_equal(formats.tools, expected_tools ? tool_format_by_name(expected_tools) : NULL);
    reply_formats_fini(&formats);
    assert_null(formats.reasoning);
    assert_null(formats.tools);
    assert_int_equal(formats.mark_tokens.count, 0);
}

static void known_names_pass_the_check(void **state)
{
    (void)state;
    expect_valid(NULL, NULL);
    expect_valid("auto", "auto");
    expect_valid("none", "none");
    expect_valid("qwen3", "hermes");
    expect_valid("none", "llama3");
    expect_valid("deepseek_r1", "none");
    expect_valid("harmony", NULL);
}

static void unknown_names_are_refused_with_the_known_ones(void **state)
{
    (void)state;
    expect_refused("nonsense", NULL,
                   "--reasoning-format: 'nonsense' is none of auto, none, harmony, gemma4");
    expect_refused("", "none", "--reasoning-format: '' is none of auto, none, harmony");
    expect_refused("AUTO", "nonsense", "--reasoning-format: 'AUTO' is none of");
    expect_refused(NULL, "nonsense",
                   "--tool-call-parser: 'nonsense' is none of auto, none, harmony, gemma4, "
                   "function_gemma, cohere");
    expect_refused("none", "", "--tool-call-parser: '' is none of auto, none, harmony");
    expect_refused("qwen3", "qwen3", "--tool-call-parser: 'qwen3' is none of");
}

static void automatic_formats_come_from_the_template(void **state)
{
    (void)state;
    expect_formats(NULL, NULL, QWEN_TEMPLATE, "think", "hermes");
    expect_formats("auto", "auto", QWEN_TEMPLATE, "think", "hermes");
    expect_formats("auto", "auto", HARMONY_TEMPLATE, "harmony", "harmony");
    expect_formats("auto", "auto", "{{ messages }}", NULL, NULL);
    expect_formats("auto", "auto", NULL, NULL, NULL);
}

static void names_take_precedence_over_the_template(void **state)
{
    (void)state;
    expect_formats("none", "none", QWEN_TEMPLATE, NULL, NULL);
    expect_formats("mistral", NULL, QWEN_TEMPLATE, "mistral", "hermes");
    expect_formats(NULL, "llama3", QWEN_TEMPLATE, "think", "llama3");
    expect_formats("mistral", "llama3", NULL, "mistral", "llama3");
    expect_formats("none", "llama3", QWEN_TEMPLATE, NULL, "llama3");
    expect_formats("mistral", "none", QWEN_TEMPLATE, "mistral", NULL);
}

static void harmony_is_both_formats_or_neither(void **state)
{
    (void)state;
    /* One is named, the other automatic: both. */
    expect_formats("harmony", "auto", NULL, "harmony", "harmony");
    expect_formats("harmony", NULL, QWEN_TEMPLATE, "harmony", "harmony");
    expect_formats("auto", "harmony", NULL, "harmony", "harmony");
    expect_formats(NULL, "harmony", QWEN_TEMPLATE, "harmony", "harmony");
    expect_formats("harmony", "harmony", QWEN_TEMPLATE, "harmony", "harmony");
    /* The other is another one: automatic calls become none. */
    expect_formats("none", "auto", HARMONY_TEMPLATE, NULL, NULL);
    expect_formats("qwen3", NULL, HARMONY_TEMPLATE, "think", NULL);
    expect_formats("harmony", "none", NULL, "harmony", NULL);
}

static void choosing_overwrites_what_was_there(void **state)
{
    (void)state;
    const struct reply_format_names none = {"none", "none"};
    struct reply_formats formats;
    memset(&formats, 0xff, sizeof formats);
    assert_int_equal(reply_formats_choose(&formats, &none, NULL, 0, tokenizer), RESULT_OK);
    assert_null(formats.reasoning);
    assert_null(formats.tools);
    assert_int_equal(formats.mark_tokens.count, 0);
    reply_formats_fini(&formats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_names_pass_the_check),
        cmocka_unit_test(unknown_names_are_refused_with_the_known_ones),
        cmocka_unit_test(automatic_formats_come_from_the_template),
        cmocka_unit_test(names_take_precedence_over_the_template),
        cmocka_unit_test(harmony_is_both_formats_or_neither),
        cmocka_unit_test(choosing_overwrites_what_was_there),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
