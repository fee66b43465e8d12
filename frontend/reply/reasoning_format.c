/*
 * The table of reasoning formats.
 *
 * Rows stand in the order in which a template is tried: more specific marks come first, plain
 * </think>, which many templates contain, last. Model names are not used for detection, and no
 * template is detected as always thinking: answers of a model that does not think would then be
 * reasoning from end to end. Use --reasoning-format for such models.
 *
 * Tags are written without the line breaks that models put around them; those are white space,
 * which is trimmed.
 */
#include "frontend/reply/reasoning_format.h"

#include <stdio.h>
#include <string.h>

#include "proto/limits.h"

static const struct reasoning_format formats[] = {
    {.names = {"harmony", "gpt_oss", "openai_gptoss"},
     .template_marks = {"<|channel|>", "<|message|>"},
     .opening = {"<|channel|>analysis<|message|>"},
     .closing = {"<|end|>"},
     .joint = true},
    {.names = {"gemma4"},
     .template_marks = {"<|channel>", "<channel|>"},
     .opening = {"<|channel>thought"},
     .closing = {"<channel|>"},
     .control_tags = true},
    {.names = {"cohere", "cohere_command"},
     .template_marks = {"<|START_THINKING|>"},
     .opening = {"<|START_THINKING|>"},
     .closing = {"<|END_THINKING|>"},
     .frames = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
     .control_tags = true},
    {.names = {"mistral", "magistral"},
     .template_marks = {"[THINK]"},
     .opening = {"[THINK]"},
     .closing = {"[/THINK]"},
     .control_tags = true},
    {.names = {"seed_oss"},
     .template_marks = {"<seed:think>"},
     .opening = {"<seed:think>"},
     .closing = {"</seed:think>"}},
    {.names = {"minimax_m3"},
     .template_marks = {"<mm:think>"},
     .opening = {"<mm:think>"},
     .closing = {"</mm:think>"}},
    {.names = {"hunyuan_v3"},
     .template_marks = {"HYTK"},
     .opening = {"<think:opensource>"},
     .closing = {"</think:opensource>"}},
    {.names = {"solar_open"},
     .template_marks = {"<|think|>", "<|content|>"},
     .opening = {"<|think|>"},
     .closing = {"<|end|>"},
     .frames = {"<|begin|>assistant", "<|content|>", "<|flush|>"},
     .control_tags = true},
    {.names = {"apertus"},
     .template_marks = {"<|inner_prefix|>"},
     .opening = {"<|inner_prefix|>"},
     .closing = {"<|inner_suffix|>"},
     .control_tags = true},
    {.names = {"kimi_vl"},
     .template_marks = {"\u25c1think\u25b7"},
     .opening = {"\u25c1think\u25b7"},
     .closing = {"\u25c1/think\u25b7"}},
    {.names = {"exaone_deep"},
     .template_marks = {"</thought>"},
     .opening = {"<thought>"},
     .closing = {"</thought>"}},
    {.names = {"granite"},
     .template_marks = {"Here is my thought process:"},
     .opening = {"Here is my thought process:", "Here's my thought process:"},
     .closing = {"Here is my response:", "Here's my response:"}},
    {.names = {"granite33"},
     .template_marks = {"</think>", "<response></response>"},
     .opening = {"<think>"},
     .closing = {"</think>"},
     .frames = {"<response>", "</response>"}},
    {.names = {"glm_v", "glm4v"},
     .template_marks = {"</think>", "<|begin_of_image|>"},
     .opening = {"<think>"},
     .closing = {"</think>"},
     .frames = {"<|begin_of_box|>", "<|end_of_box|>"}},
    {.names = {"think", "qwen3", "glm45", "hermes", "smollm3", "deepseek_v3", "kimi_k2",
               "minimax_m2"},
     .template_marks = {"</think>"},
     .opening = {"<think>"},
     .closing = {"</think>"}},
    {.names = {"deepseek_r1", "always_think", "minimax_append_think", "step3"},
     .opening = {"<think>"},
     .closing = {"</think>"},
     .always_open = true},
};

enum { FORMATS = sizeof formats / sizeof *formats };

const struct reasoning_format *reasoning_format_find(const char *name)
{
    for (size_t i = 0; i < FORMATS; i++) {
        for (size_t n = 0; n < REASONING_NAMES && formats[i].names[n]; n++) {
            if (strcmp(formats[i].names[n], name) == 0)
                return &formats[i];
        }
    }
    return NULL;
}

const struct reasoning_format *reasoning_format_detect(const char *source, size_t source_bytes)
{
    for (size_t i = 0; i < FORMATS; i++) {
        size_t seen = 0;
        size_t marks = 0;
        for (; source_bytes > 0 && marks < REASONING_TEMPLATE_MARKS &&
               formats[i].template_marks[marks];
             marks++) {
            const char *mark = formats[i].template_marks[marks];
            seen += memmem(source, source_bytes, mark, strlen(mark)) != NULL;
        }
        if (marks > 0 && seen == marks)
            return &formats[i];
    }
    return NULL;
}

void reasoning_format_list(char *text, size_t text_bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < FORMATS && length < text_bytes; i++)
        length += (size_t)snprintf(text + length, text_bytes - length, "%s%s", i ? ", " : "",
                                   formats[i].names[0]);
}

enum result reasoning_format_set_custom(struct reasoning_format *custom,
                                        const struct reasoning_format *base, const char *opening,
                                        const char *closing)
{
    const struct reasoning_format plain = {.opening = {"<think>"}, .closing = {"</think>"}};
    const char *given[] = {opening, closing};
    for (size_t i = 0; i < 2; i++) {
        if (given[i] && (!given[i][0] || strlen(given[i]) > LIMIT_REASONING_TAG_BYTES))
            return RESULT_INVALID;
    }
    if (base && base->joint)
        return RESULT_UNSUPPORTED;
    *custom = base ? *base : plain;
    memset(custom->names, 0, sizeof custom->names);
    custom->names[0] = "custom";
    if (opening) {
        memset(custom->opening, 0, sizeof custom->opening);
        custom->opening[0] = opening;
    }
    if (closing) {
        memset(custom->closing, 0, sizeof custom->closing);
        custom->closing[0] = closing;
    }
    return RESULT_OK;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* True if the text ends with one of the tags; white space at the end of either is ignored. */
static bool ends_with_tag(const char *const tags[], const char *text, size_t text_bytes)
{
    while (text_bytes > 0 && is_space(text[text_bytes - 1]))
        text_bytes--;
    for (size_t i = 0; i < REASONING_TAGS && tags[i]; i++) {
        size_t length = strlen(tags[i]);
        while (length > 0 && is_space(tags[i][length - 1]))
            length--;
        if (length > 0 && text_bytes >= length &&
            memcmp(text + text_bytes - length, tags[i], length) == 0)
            return true;
    }
    return false;
}

bool reasoning_format_is_open(const struct reasoning_format *format, const char *prompt,
                              size_t prompt_bytes)
{
    if (!format)
        return false;
    if (ends_with_tag(format->opening, prompt, prompt_bytes))
        return true;
    return format->always_open && !ends_with_tag(format->closing, prompt, prompt_bytes);
}

/* The length of the tag at `text`, or 0. */
static size_t tag_at(const char *const tags[], const char *text, size_t text_bytes)
{
    for (size_t i = 0; i < REASONING_TAGS && tags[i]; i++) {
        size_t length = strlen(tags[i]);
        if (length <= text_bytes && memcmp(text, tags[i], length) == 0)
            return length;
    }
    return 0;
}

bool reasoning_format_is_open_after(const struct reasoning_format *format, bool open,
                                    const char *text, size_t text_bytes)
{
    if (!format)
        return false;
    for (size_t at = 0; at < text_bytes;) {
        const char *const *tags = open ? format->closing : format->opening;
        size_t length = tag_at(tags, text + at, text_bytes - at);
        open = length > 0 ? !open : open;
        at += length > 0 ? length : 1;
    }
    return open;
}
