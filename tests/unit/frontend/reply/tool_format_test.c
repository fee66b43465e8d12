/*
 * Published chat templates show their format; text that forces a call is the beginning of one;
 * marks and ids are what the format needs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/text_buffer.h"
#include "frontend/reply/harmony_parser.h"
#include "frontend/reply/tool_call_parser.h"
#include "tests/support/heard_reply.h"
#include "tests/support/template_case.h"

#include <cjson/cJSON.h>

static void templates_show_their_format(void **state)
{
    (void)state;
    static const struct {
        const char *template;
        const char *format;
    } cases[] = {
        {"lcp-openai-gpt-oss-120b", "harmony"},
        {"lcp-google-gemma-4-31B-it", "gemma4"},
        {"axolotl-gemma4", "gemma4"},
        {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "cohere"},
        {"axolotl-command_a", "cohere"},
        {"lcp-MiniMax-M2", "minimax_m2"},
        {"lcp-muse-glimmer", "atem"},
        {"lcp-ByteDance-Seed-OSS", "seed_oss"},
        {"lcp-GLM-4.7-Flash", "glm"},
        {"lcp-deepseek-ai-DeepSeek-V3.2", "deepseek_v32"},
        {"lcp-deepseek-ai-DeepSeek-V3.1", "deepseek_v31"},
        {"axolotl-deepseek_v3", "deepseek_v3"},
        {"npm-lenml-deepseek_v3", "deepseek_v3"},
        {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek_v3"},
        {"lcp-Kimi-K2-Instruct", "kimi_k2"},
        {"lcp-Mistral-Small-3.2-24B-Instruct-2506", "mistral_v11"},
        {"mistralai-Mistral-Nemo-Instruct-2407", "mistral"},
        {"meetkai-functionary-medium-v3.2", "functionary"},
        {"lcp-ibm-granite-granite-3.3-2B-Instruct", "granite"},
        {"lcp-NVIDIA-Nemotron-Nano-v2", "nemotron"},
        {"axolotl-jamba", "jamba"},
        {"lcp-LFM2.5-8B-A1B", "lfm2"},
        {"lcp-Qwen3-Coder", "qwen3_coder"},
        {"lcp-Qwen3.5-4B", "qwen3_coder"},
        {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
        {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
        {"npm-lenml-qwen3", "hermes"},
        {"axolotl-exaone4", "hermes"},
        {"axolotl-llama4", "pythonic"},
        {"meta-llama-Llama-3.1-8B-Instruct", "llama3"},
        {"lcp-meetkai-functionary-medium-v3.1", "llama3"},
        {"lcp-tencent-Hy3", "hunyuan_v3"},
        {"vllm-functiongemma", "function_gemma"},
        {"vllm-hunyuan_a13b", "jamba"}, /* a list of objects between <tool_calls> */
        {"vllm-xlam_llama", "xlam"},
        {"vllm-xlam_qwen", "xlam"},
        {"lcp-upstage-Solar-Open-100B", "solar_open"},
        {"lcp-Apertus-8B-Instruct", "apertus"},
        {"lcp-GigaChat3-10B-A1.8B", "gigachat3"},
        {"lcp-GigaChat3.1-10B-A1.8B", "gigachat31"},
        {"lcp-mistralai-Ministral-3-14B-Reasoning-2512", "mistral_v11"},
        {"lcp-fireworks-ai-llama-3-firefunction-v2", "firefunction"},
        {"lcp-deepseek-ai-DeepSeek-V4", "deepseek_v4"},
        {"google-gemma-2-2b-it", NULL},
        {"gguf-SmolLM2-135M-Instruct", NULL},
        {"microsoft-Phi-3.5-mini-instruct", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[256];
        size_t bytes;
        snprintf(path, sizeof path, "tests/golden/templates/source/%s.jinja", cases[i].template);
        char *source = template_case_read(path, &bytes);
        const struct tool_format *format = tool_format_detect(source, bytes);
        if (cases[i].format ? !format || strcmp(tool_format_name(format), cases[i].format) != 0
                            : format != NULL)
            fail_msg("%s: %s", cases[i].template, format ? tool_format_name(format) : "none");
        free(source);
    }
}

/* Of families whose templates are not here: the marks by which they are known. */
static void marks_show_their_format(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        const char *format;
    } cases[] = {
        {"<tool_calls><tool_call>f<tool_sep><arg_key>k</arg_key>", "hunyuan"},
        {"make calls: [{\"name\": \"tool_call_name\", \"arguments\": {\"arg1\": ", "xlam"},
        {"]<]minimax[>[<tool_call> ]<]minimax[>[<invoke name=", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tool_format *format =
            tool_format_detect(cases[i].source, strlen(cases[i].source));
        if (cases[i].format ? !format || strcmp(tool_format_name(format), cases[i].format) != 0
                            : format != NULL)
            fail_msg("%s: %s", cases[i].source, format ? tool_format_name(format) : "none");
    }
}

static void heard_from(const struct tool_format *format, const char *text, bool truncated,
                       struct heard_reply *heard)
{
    cJSON *tools = template_case_read_json("tests/golden/tool_calls/tools.json");
    heard_reply_clear(heard);
    if (tool_format_is_harmony(format)) {
        struct harmony_parser *parser = harmony_parser_create(true, heard_reply_sink(heard));
        harmony_parser_push(parser, text, strlen(text));
        harmony_parser_finish(parser, truncated);
        harmony_parser_destroy(parser);
    } else {
        struct tool_call_parser *parser =
            tool_call_parser_create(format, tools, heard_reply_sink(heard));
        tool_call_parser_push(parser, text, strlen(text));
        tool_call_parser_finish(parser, truncated);
        tool_call_parser_destroy(parser);
    }
    cJSON_Delete(tools);
}

/* The frame up to the arguments of a call. */
static void frame_write(const struct tool_frame *frame, struct text_buffer *out)
{
    const char *end = strstr(frame->call, "%a");
    text_buffer_append_text(out, frame->begin ? frame->begin : "");
    for (const char *text = frame->call; text < end; text++) {
        if (*text != '%')
            text_buffer_append(out, text, 1);
        else
            text_buffer_append_text(out, *++text == 'n' ? "get_weather" : "0");
    }
}

/* After the frame every format goes on in one of few ways. */
static void frames_begin_calls(void **state)
{
    (void)state;
    static const char *const rests[] = {
        "{\"city\": \"Paris\"}",
        "{\"city\": \"Paris\"}}",
        "{\"city\": \"Paris\"}}]",
        "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Paris"
        "</arg_value:opensource>\n</tool_call:opensource>",
        "city:<|\"|>Paris<|\"|>}",
        "city:<escape>Paris<escape>}",
        "city='Paris')]",
        "0<|tool_call_argument_begin|>{\"city\": \"Paris\"}",
        "<parameter=city>Paris</parameter>\n</function>",
        "<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
        "<longcat_arg_key>city</longcat_arg_key><longcat_arg_value>Paris</longcat_arg_value>"
        "</longcat_tool_call>",
        "<parameter name=\"city\">Paris</parameter>\n</invoke>",
        "<atem:parameter name=\"city\">Paris</atem:parameter>\n</atem:invoke>",
        "<｜DSML｜parameter name=\"city\" "
        "string=\"true\">Paris</｜DSML｜parameter></｜DSML｜invoke>",
    };
    static struct heard_reply heard;
    for (size_t f = 0; tool_format_at(f); f++) {
        const struct tool_format *format = tool_format_at(f);
        struct text_buffer prefix = {0};
        bool is_call = false;
        frame_write(tool_format_frame(format), &prefix);
        for (size_t r = 0; !is_call && r < sizeof rests / sizeof rests[0]; r++) {
            size_t length = prefix.length;
            text_buffer_append_text(&prefix, rests[r]);
            heard_from(format, prefix.bytes, false, &heard);
            cJSON *arguments =
                heard.call_count == 1 ? cJSON_Parse(heard_text(&heard.calls[0].arguments)) : NULL;
            const cJSON *city = cJSON_GetObjectItem(arguments, "city");
            is_call = city && cJSON_IsString(city) && heard.content.length == 0 &&
                      strncmp(city->valuestring, "Paris", 5) == 0 && heard.calls[0].ended &&
                      strcmp(heard.calls[0].name, "get_weather") == 0;
            cJSON_Delete(arguments);
            prefix.length = length;
        }
        if (!is_call)
            fail_msg("%s", tool_format_name(format));
        text_buffer_fini(&prefix);
    }
    heard_reply_fini(&heard);
}

static void marks_are_the_formats_own(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        const char *mark;
        bool is_mark;
    } cases[] = {
        {"hermes", "<tool_call>", true},
        {"hermes", "</tool_call>", true},
        {"hermes", "<|im_end|>", false},
        {"gemma4", "<|\"|>", true},
        {"gemma4", "<tool_call|>", true},
        {"gemma4", "<eos>", false},
        {"gemma4", "\"", false}, /* a quote in its calls, but no token that a tokenizer hides */
        {"harmony", "<|constrain|>", true},
        {"harmony", "<|endoftext|>", false},
        {"mistral_v11", "[ARGS]", true},
        {"mistral", "[INST]", false},
        {"glm", "<arg_value>", true},
        {"deepseek_v3", "<｜tool▁sep｜>", true},
        {"kimi_k2", "<|tool_calls_section_end|>", true},
        {"minimax_m2", "</minimax:tool_call>", true},
        {"llama3", "<|eot_id|>", false},
        {"llama3", "<|python_tag|>", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(tool_format_has_mark(tool_format_by_name(cases[i].format), cases[i].mark,
                                              strlen(cases[i].mark)),
                         cases[i].is_mark);
    assert_null(tool_format_by_name("no such format"));
}

static void ids_have_the_forms_that_templates_take(void **state)
{
    (void)state;
    char one[TOOL_CALL_ID_BYTES], other[TOOL_CALL_ID_BYTES];
    bool seen[256] = {false};
    const struct tool_format *mistral = tool_format_by_name("mistral_v11");
    for (uint64_t random = 0; random < 1000; random++) {
        assert_true(tool_format_call_id(mistral, random * 0x123456789abcdefu, 0, one));
        assert_true(tool_format_call_id(mistral, random * 0x123456789abcdefu, 1, other));
        assert_int_equal(strlen(one), 9);
        for (int i = 0; i < 9; i++) {
            assert_true(isalnum((unsigned char)one[i]));
            seen[(unsigned char)one[i]] = true;
        }
        assert_string_not_equal(one, other);
    }
    for (int c = 0; c < 128; c++)
        assert_int_equal(seen[c], isalnum(c) != 0);
    for (size_t f = 0; tool_format_at(f); f++) {
        const char *name = tool_format_name(tool_format_at(f));
        assert_int_equal(tool_format_call_id(tool_format_at(f), 7, 1, other),
                         strcmp(name, "mistral") == 0 || strcmp(name, "mistral_v11") == 0);
    }
}

/* A list of at most three. */
static void openings_end_with_null(void **state)
{
    (void)state;
    assert_string_equal(tool_format_opening(tool_format_by_name("hermes"), 0), "<tool_call>");
    for (size_t f = 0; tool_format_at(f); f++) {
        size_t count = 0;
        while (count < 3 && tool_format_opening(tool_format_at(f), count))
            count++;
        for (size_t i = count; i < 8; i++)
            assert_null(tool_format_opening(tool_format_at(f), i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_show_their_format),
        cmocka_unit_test(marks_show_their_format),
        cmocka_unit_test(frames_begin_calls),
        cmocka_unit_test(marks_are_the_formats_own),
        cmocka_unit_test(ids_have_the_forms_that_templates_take),
        cmocka_unit_test(openings_end_with_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
