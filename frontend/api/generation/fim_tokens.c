/*
 * Families use different texts for the same five tokens; the first text that is a special token of
 * the vocabulary counts. The layout of several files is that of Qwen's coder models
 * (arXiv:2409.12186), which llama.cpp's server also uses.
 */
#include "frontend/api/generation/fim_tokens.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#define NAMES_MAX 7

static const char *const prefix_names[NAMES_MAX] = {"<|fim_prefix|>",
                                                    "<fim-prefix>",
                                                    "<fim_prefix>",
                                                    "<|code_prefix|>",
                                                    "<PRE>",
                                                    "\xe2\x96\x81<PRE>",
                                                    "<\xef\xbd\x9c"
                                                    "fim\xe2\x96\x81"
                                                    "begin\xef\xbd\x9c>"};
static const char *const suffix_names[NAMES_MAX] = {"<|fim_suffix|>",
                                                    "<fim-suffix>",
                                                    "<fim_suffix>",
                                                    "<|code_suffix|>",
                                                    "<SUF>",
                                                    "\xe2\x96\x81<SUF>",
                                                    "<\xef\xbd\x9c"
                                                    "fim\xe2\x96\x81"
                                                    "hole\xef\xbd\x9c>"};
static const char *const middle_names[NAMES_MAX] = {"<|fim_middle|>",
                                                    "<fim-middle>",
                                                    "<fim_middle>",
                                                    "<|code_middle|>",
                                                    "<MID>",
                                                    "\xe2\x96\x81<MID>",
                                                    "<\xef\xbd\x9c"
                                                    "fim\xe2\x96\x81"
                                                    "end\xef\xbd\x9c>"};
static const char *const repository_names[NAMES_MAX] = {"<|repo_name|>", "<fim-repo>", "<REPO>",
                                                        "<reponame>", "<repo_name>"};
static const char *const file_names[NAMES_MAX] = {"<|file_sep|>", "<file_sep>"};

static int32_t token_find(const struct tokenizer *tokenizer, const char *const names[])
{
    for (size_t i = 0; i < NAMES_MAX && names[i]; i++) {
        int32_t id = tokenizer_find_token(tokenizer, names[i], strlen(names[i]));
        if (id >= 0)
            return id;
    }
    return -1;
}

bool fim_tokens_find(const struct tokenizer *tokenizer, struct fim_tokens *tokens)
{
    *tokens = (struct fim_tokens){.prefix = token_find(tokenizer, prefix_names),
                                  .suffix = token_find(tokenizer, suffix_names),
                                  .middle = token_find(tokenizer, middle_names),
                                  .repository = token_find(tokenizer, repository_names),
                                  .file = token_find(tokenizer, file_names)};
    return tokens->prefix >= 0 && tokens->suffix >= 0 && tokens->middle >= 0;
}

enum result fim_tokens_refuse(const struct fim_tokens *tokens, const char *param, int status,
                              struct api_error *error)
{
    enum result result = api_error_set(
        error, RESULT_UNSUPPORTED, status, "infill_unsupported",
        "the model cannot fill in text between a prefix and a suffix: its vocabulary has no "
        "special token for:%s%s%s",
        tokens->prefix < 0 ? " prefix" : "", tokens->suffix < 0 ? " suffix" : "",
        tokens->middle < 0 ? " middle" : "");
    snprintf(error->param, sizeof error->param, "%s", param);
    return result;
}

static bool text_add(cJSON *list, const char *text)
{
    return !text[0] || cJSON_AddItemToArray(list, cJSON_CreateString(text));
}

static bool token_add(cJSON *list, int32_t id)
{
    return cJSON_AddItemToArray(list, cJSON_CreateNumber(id));
}

static bool extra_add(cJSON *list, const struct fim_tokens *tokens, const cJSON *extra)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(extra, "text"));
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(extra, "filename"));
    if (tokens->file < 0)
        return text_add(list, "\n\n--- snippet ---\n\n") && text_add(list, text ? text : "");
    return token_add(list, tokens->file) && text_add(list, name ? name : "tmp") &&
           text_add(list, "\n") && text_add(list, text ? text : "");
}

static bool parts_add(cJSON *list, const struct tokenizer *tokenizer,
                      const struct fim_tokens *tokens, const struct fim_parts *parts)
{
    int32_t bos = tokenizer_bos_token(tokenizer);
    if (tokenizer_adds_bos(tokenizer) && bos >= 0 && !token_add(list, bos))
        return false;
    bool has_extras = parts->extras && parts->extras->child;
    if (has_extras && tokens->repository >= 0 && tokens->file >= 0 &&
        !(token_add(list, tokens->repository) && text_add(list, "myproject\n")))
        return false;
    const cJSON *extra;
    cJSON_ArrayForEach(extra, parts->extras)
    {
        if (!extra_add(list, tokens, extra))
            return false;
    }
    if (has_extras && tokens->file >= 0 &&
        !(token_add(list, tokens->file) && text_add(list, "filename\n")))
        return false;
    return token_add(list, tokens->prefix) && text_add(list, parts->prefix) &&
           token_add(list, tokens->suffix) && text_add(list, parts->suffix) &&
           token_add(list, tokens->middle) && text_add(list, parts->middle ? parts->middle : "");
}

cJSON *fim_tokens_prompt(const struct tokenizer *tokenizer, const struct fim_tokens *tokens,
                         const struct fim_parts *parts)
{
    cJSON *list = cJSON_CreateArray();
    if (list && parts_add(list, tokenizer, tokens, parts))
        return list;
    cJSON_Delete(list);
    return NULL;
}
