/*
 * Table from names to patterns.
 *
 * A GGUF file names its pre-tokenizer and leaves the patterns to the reader. Each row gives the
 * patterns of the published tokenizer.json of that family, in order; all of them isolate their
 * matches. An unknown name is an error: a guessed pattern would silently give tokens that the model
 * was not trained on.
 */
#include "frontend/prompt/tokenizer/pretokenizer_preset.h"

#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LINE_TAIL    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define NO_WORD      "[^\\r\\n\\p{L}\\p{N}]?"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                                                     \
    CONTRACTIONS "|" NO_WORD "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" LINE_TAIL
#define QWEN2 CONTRACTIONS "|" NO_WORD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" LINE_TAIL
#define QWEN35                                                                                     \
    CONTRACTIONS "|" NO_WORD "[\\p{L}\\p{M}]+|\\p{N}| "                                            \
                 "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" LINE_TAIL
#define TEKKEN                                                                                     \
    NO_WORD UPPER "*" LOWER "+|" NO_WORD UPPER "+" LOWER                                           \
                  "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" LINE_TAIL
#define GPT4O                                                                                      \
    NO_WORD UPPER "*" LOWER "+" CONTRACTIONS "?|" NO_WORD UPPER "+" LOWER "*" CONTRACTIONS         \
                  "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" LINE_TAIL
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" LINE_TAIL

const char pretokenizer_gpt2_regex[] = GPT2;

enum { PATTERNS = 3, NAMES = 10 };

struct preset {
    const char *names[NAMES];
    const char *patterns[PATTERNS];
    struct pretokenizer_traits traits;
};

static const struct preset presets[] = {
    {{"gpt-2", "gpt2", "default", "phi-2", "mpt", "olmo", "jais", "exaone4", "a.x-4.0"},
     {GPT2},
     {0}},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     {LLAMA3},
     {.ignore_merges = true, .adds_bos = true}},
    {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {LLAMA3}, {0}},
    {{"qwen2"}, {QWEN2}, {.form_c = true}},
    {{"stablelm2", "deepseek-r1-qwen", "megrez"}, {QWEN2}, {0}},
    {{"qwen35"}, {QWEN35}, {.form_c = true}},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
     {"\\p{N}", GPT2},
     {0}},
    {{"tekken"}, {TEKKEN}, {.ignore_merges = true, .adds_bos = true}},
    {{"gpt-4o", "llama4"}, {GPT4O}, {0}},
    {{"deepseek-v3"}, {"\\p{N}{1,3}", CJK, DEEPSEEK3}, {0}},
};

static const struct preset *preset_find(const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        for (size_t n = 0; n < NAMES && presets[i].names[n]; n++) {
            const char *known = presets[i].names[n];
            if (strlen(known) == name_bytes && memcmp(known, name, name_bytes) == 0)
                return &presets[i];
        }
    }
    return NULL;
}

enum result pretokenizer_preset_open(const char *name, size_t name_bytes,
                                     struct pretokenizer *pretokenizer,
                                     struct pretokenizer_traits *traits, struct error_text *error)
{
    const struct preset *preset = preset_find(name, name_bytes);
    if (!preset)
        return error_set(error, RESULT_UNSUPPORTED, "unknown pre-tokenizer '%.*s'",
                         name_bytes > 64 ? 64 : (int)name_bytes, name);
    *traits = preset->traits;
    for (size_t i = 0; i < PATTERNS && preset->patterns[i]; i++) {
        const char *regex = preset->patterns[i];
        enum result result = pretokenizer_add_pattern(pretokenizer, regex, strlen(regex),
                                                      SPLIT_ISOLATED, false, error);
        if (result)
            return result;
    }
    return RESULT_OK;
}
