/*
 * DeepSeek-VL2 and DeepSeek-OCR are published without a chat template: a class beside the model writes the prompt. The
 * templates here write the same text, an image as its marker and a newline before what follows it, as the publisher's examples do.
 *
 * The markers of places in an image are words of the vocabulary, which users type in their questions. The text of special tokens
 * in a request stays text otherwise; of these five the template writes its own, and they mean nothing else.
 *
 * Source: mlx-vlm, deepseek_vl_v2/conversation.py, which is the publisher's (formats "deepseek" and "plain");
 * modeling_deepseekocr.py, infer().
 */
#include "frontend/assets/prompt_formats.h"

#include <stddef.h>
#include <string.h>

#define TYPE_BYTES 64u

#define OWN(word) ".replace('" word "', '" word "')"
#define CONTENT                                                                                    \
    "{%- macro own(text) -%}{{ text" OWN("<|grounding|>") OWN("<|ref|>") OWN("<|/ref|>")           \
        OWN("<|det|>")                                                                             \
            OWN("<|/det|>") " }}{%- endmacro -%}"                                                  \
                            "{%- macro shown(content) -%}{%- if content is string -%}{{ "          \
                            "own(content) }}"                                                      \
                            "{%- elif content -%}{%- for part in content -%}{%- if part.type == "  \
                            "'image' -%}"                                                          \
                            "{{ '<image>\\n' }}{%- elif part.type == 'text' -%}{{ own(part.text) " \
                            "}}{%- endif -%}"                                                      \
                            "{%- endfor -%}{%- endif -%}{%- endmacro -%}{{ bos_token }}"

static const char plain[] =
    CONTENT "{%- for message in messages -%}{%- set text = shown(message.content) -%}"
            "{{ text.rstrip() if loop.last else text }}{%- endfor -%}";

static const char in_turns[] = CONTENT
    "{%- for message in messages -%}"
    "{%- if message.role == 'system' -%}{{ shown(message.content) + '\\n\\n' }}"
    "{%- elif message.role == 'user' -%}{{ '<|User|>: ' + shown(message.content) + '\\n\\n' }}"
    "{%- elif message.role == 'assistant' -%}{{ '<|Assistant|>: ' + shown(message.content) + "
    "eos_token }}"
    "{%- else -%}{{ raise_exception('the model knows no messages of role ' + message.role) }}{%- "
    "endif -%}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|Assistant|>:' }}{%- endif -%}";

/* `tower`: model_name of vision_config; NULL: any. */
static const struct {
    const char *model_type;
    const char *tower;
    const char *source;
} formats[] = {
    {"deepseek_vl_v2", "deeplip_b_l", plain},
    {"deepseekocr", "deeplip_b_l", plain},
    {"deepseek_ocr", "deeplip_b_l", plain},
    {"deepseek_vl_v2", NULL, in_turns},
};

const char *prompt_formats_template(struct json_value config)
{
    char model_type[TYPE_BYTES] = "", tower[TYPE_BYTES] = "";
    struct json_value vision = json_value_member(config, "vision_config");
    (void)json_value_string(json_value_member(config, "model_type"), model_type, sizeof model_type);
    (void)json_value_string(json_value_member(vision, "model_name"), tower, sizeof tower);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].model_type, model_type) == 0 &&
            (!formats[i].tower || strcmp(formats[i].tower, tower) == 0))
            return formats[i].source;
    return NULL;
}
