/*
 * Forced tokens from prompt and request: whether the answer starts inside reasoning, the tags as
 * tokens if there is a budget, the start of a required call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "frontend/api/chat/chat_format.h"
#include "frontend/api/generation/generation_prepare.h"
#include "tests/support/tiny_assets.h"

static const char template[] =
    "{% for message in messages %}{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|><think>\\n' if enable_thinking else "
    "'<|im_start|>' }}{% endif %}";

static struct model_assets assets;

static int open_assets(void **state)
{
    (void)state;
    tiny_assets_open(&assets, template);
    assets.context_tokens = 200;
    assets.formats.reasoning = reasoning_format_find("think");
    assets.formats.tools = tool_format_by_name("hermes");
    return 0;
}

static int close_assets(void **state)
{
    (void)state;
    tiny_assets_close(&assets);
    return 0;
}

/* Each of `fields` ends with a comma. */
static struct prepared_generation prepare(const char *fields)
{
    char body[1024];
    struct prepared_generation prepared;
    struct api_error error;
    snprintf(body, sizeof body, "{%s\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
             fields);
    if (generation_prepare(&chat_format,
                           &(struct parse_context){.assets = &assets, .random_seed = 1}, body,
                           strlen(body), 0, &prepared, &error) != RESULT_OK)
        fail_msg("%s: %s", error.param, error.message);
    return prepared;
}

static void expect_refusal(const char *fields, const char *param)
{
    char body[1024];
    struct prepared_generation prepared;
    struct api_error error;
    snprintf(body, sizeof body, "{%s\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
             fields);
    assert_int_not_equal(
        generation_prepare(&chat_format,
                           &(struct parse_context){.assets = &assets, .random_seed = 1}, body,
                           strlen(body), 0, &prepared, &error),
        RESULT_OK);
    assert_int_equal(error.status, 400);
    assert_string_equal(error.param, param);
}

/* The text of `count` forced ids from `first` on. */
static void expect_ids(const struct forced_tokens *forced, uint32_t first, uint32_t count,
                       const char *text)
{
    char joined[256] = "";
    for (uint32_t i = 0; i < count; i++) {
        const char *bytes;
        size_t length;
        tokenizer_token_bytes(assets.tokenizer, forced->ids[first + i], &bytes, &length);
        strncat(joined, bytes, length);
    }
    assert_string_equal(joined, text);
}

static void nothing_is_forced_by_default(void **state)
{
    (void)state;
    struct prepared_generation prepared = prepare("");
    assert_false(prepared.reasoning_open);
    assert_null(prepared.forced.ids);
    assert_false(prepared.forced.has_thinking_budget);
    prepared_generation_fini(&prepared);
    prepared = prepare("\"chat_template_kwargs\":{\"enable_thinking\":true},");
    assert_true(prepared.reasoning_open);
    assert_false(prepared.forced.thinking_open);
    prepared_generation_fini(&prepared);
}

static void a_budget_encodes_the_tags(void **state)
{
    (void)state;
    struct prepared_generation prepared =
        prepare("\"thinking_budget\":7,\"chat_template_kwargs\":{\"enable_thinking\":true},");
    const struct forced_tokens *forced = &prepared.forced;
    assert_true(forced->has_thinking_budget && forced->thinking_open);
    assert_int_equal(forced->thinking_budget, 7);
    expect_ids(forced, 0, forced->think_start_count, "<think>");
    expect_ids(forced, forced->think_start_count, forced->think_end_count, "</think>");
    prepared_generation_fini(&prepared);
    prepared = prepare("\"thinking_budget\":0,\"thinking_end_token\":\"!\",");
    assert_true(prepared.forced.has_thinking_budget && !prepared.forced.thinking_open);
    expect_ids(&prepared.forced, prepared.forced.think_start_count, 1, "!");
    prepared_generation_fini(&prepared);
}

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"                            \
    "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],"
#define NAMED "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}},"

static void a_call_has_a_grammar(void **state)
{
    (void)state;
    static const char *const choices[] = {NAMED, "\"tool_choice\":\"required\",", ""};
    for (size_t i = 0; i < 2 * sizeof choices / sizeof choices[0]; i++) {
        char fields[512];
        assets.formats.tools = tool_format_by_name(i % 2 ? "gemma4" : "hermes");
        snprintf(fields, sizeof fields, "%s%s", TOOLS, choices[i / 2]);
        struct prepared_generation prepared = prepare(fields);
        assert_int_equal(prepared.forced.prefix_count, 0);
        assert_non_null(prepared.request.grammar);
        assert_int_equal(prepared.request.grammar_start, GRAMMAR_AFTER_REASONING);
        prepared_generation_fini(&prepared);
    }
    assets.formats.tools = tool_format_by_name("hermes");
}

static void a_required_call_waits_for_the_end_of_thinking(void **state)
{
    (void)state;
    assets.formats.tools = tool_format_by_name("gemma4");
    struct prepared_generation prepared =
        prepare(TOOLS NAMED "\"chat_template_kwargs\":{\"enable_thinking\":true},");
    const struct forced_tokens *forced = &prepared.forced;
    assets.formats.tools = tool_format_by_name("hermes");
    assert_true(forced->thinking_open && !forced->has_thinking_budget);
    assert_int_equal(prepared.request.grammar_start, GRAMMAR_AFTER_REASONING);
    expect_ids(forced, forced->think_start_count, forced->think_end_count, "</think>");
    prepared_generation_fini(&prepared);
}

static void impossible_requirements_are_refused(void **state)
{
    (void)state;
    expect_refusal("\"thinking_start_token\":\"\",", "thinking_start_token");
    assets.formats.tools = NULL;
    expect_refusal(TOOLS NAMED, "tool_choice");
    assets.formats.tools = tool_format_by_name("hermes");
    assets.formats.reasoning = reasoning_format_find("harmony");
    expect_refusal("\"thinking_end_token\":\"!\",", "thinking_end_token");
    assets.formats.reasoning = reasoning_format_find("think");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_forced_by_default),
        cmocka_unit_test(a_budget_encodes_the_tags),
        cmocka_unit_test(a_call_has_a_grammar),
        cmocka_unit_test(a_required_call_waits_for_the_end_of_thinking),
        cmocka_unit_test(impossible_requirements_are_refused),
    };
    return cmocka_run_group_tests(tests, open_assets, close_assets);
}
