/*
 * Reads a Hugging Face directory; defines which file takes precedence.
 *
 * tokenizer.json defines the tokenizer; if it is missing, tokenizer.model does.
 * tokenizer_config.json names bos and eos, and its add_bos_token overrides tokenizer.json's
 * post-processor. The chat template is chat_template.jinja, otherwise a string in
 * tokenizer_config.json, otherwise the entry "default" of a list there, otherwise that of a known publisher
 * (prompt_formats.h). The ids that end an answer
 * are all of generation_config.json's, or of config.json's if that file is missing. do_sample is
 * ignored: a request without a temperature gets the checkpoint's. All files except config.json and
 * one of the tokenizers may be missing.
 *
 * Not supported: added_tokens.json beside tokenizer.model, because it does not say how its tokens
 * are found. special_tokens_map.json is ignored, because it repeats tokenizer_config.json.
 */
#include "frontend/assets/folder_assets.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/assets/prompt_formats.h"
#include "proto/hf_config.h"
#include "proto/limits.h"
#include "proto/log.h"
#include "proto/mapped_file.h"
#include "proto/must.h"

#define CONFIG_FILE     "config.json"
#define TOKENIZER_FILE  "tokenizer.json"
#define MODEL_FILE      "tokenizer.model"
#define ADDED_FILE      "added_tokens.json"
#define SETTINGS_FILE   "tokenizer_config.json"
#define GENERATION_FILE "generation_config.json"
#define TEMPLATE_FILE   "chat_template.jinja"

/* A JSON file of the directory; absent if the file is missing. */
struct json_file {
    struct mapped_file file;
    struct json_value root;
};

static enum result json_file_open(int folder_fd, const char *name, size_t most_bytes,
                                  struct json_file *json, struct error_text *error)
{
    struct error_text reason;
    json->root = (struct json_value){0};
    enum result result = mapped_file_open(folder_fd, name, &json->file, &reason);
    if (result == RESULT_NOT_FOUND)
        return RESULT_OK;
    if (result == RESULT_OK)
        result = json_value_open(json->file.bytes, json->file.byte_count, most_bytes, &json->root,
                                 &reason);
    if (result == RESULT_OK && json_value_type(json->root) != JSON_OBJECT)
        result = error_set(&reason, RESULT_INVALID, "not an object");
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, result, "%s: %.180s", name, reason.text);
}

/* --- tokenizer -------------------------------------------------------------------------------- */

/* Reads SentencePiece's tokenizer.model, for directories without tokenizer.json. */
static enum result read_model(int folder_fd, struct checkpoint_assets *assets,
                              struct error_text *error)
{
    struct error_text reason;
    struct mapped_file file;
    enum result result = mapped_file_open(folder_fd, ADDED_FILE, &file, &reason);
    mapped_file_close(&file);
    if (result != RESULT_NOT_FOUND)
        return error_set(error, RESULT_UNSUPPORTED,
                         ADDED_FILE " beside " MODEL_FILE " is not read: " TOKENIZER_FILE
                                    " would say how its tokens are found");
    result = mapped_file_open(folder_fd, MODEL_FILE, &file, &reason);
    if (result == RESULT_NOT_FOUND)
        return error_set(error, RESULT_INVALID,
                         "the folder has neither " TOKENIZER_FILE " nor " MODEL_FILE);
    if (result != RESULT_OK)
        return error_set(error, result, MODEL_FILE ": %s", reason.text);
    result = tokenizer_open_model(file.bytes, file.byte_count, &assets->tokenizer, error);
    mapped_file_close(&file);
    return result;
}

static enum result read_tokenizer(int folder_fd, struct checkpoint_assets *assets,
                                  struct error_text *error)
{
    struct error_text reason;
    struct mapped_file file;
    enum result result = mapped_file_open(folder_fd, TOKENIZER_FILE, &file, &reason);
    if (result == RESULT_NOT_FOUND)
        return read_model(folder_fd, assets, error);
    if (result != RESULT_OK)
        return error_set(error, result, TOKENIZER_FILE ": %s", reason.text);
    result = tokenizer_open_json(file.bytes, file.byte_count, &assets->tokenizer, error);
    mapped_file_close(&file);
    return result;
}

/* The id of a token that the settings name: a string, or an object with its content. -1: none. */
static enum result find_named(const struct tokenizer *tokenizer, struct json_value settings,
                              const char *name, int32_t *id, struct error_text *error)
{
    char text[LIMIT_TOKEN_BYTES];
    struct json_value value = json_value_member(settings, name);
    *id = -1;
    if (json_value_type(value) == JSON_OBJECT)
        value = json_value_member(value, "content");
    if (json_value_type(value) == JSON_ABSENT)
        return RESULT_OK;
    if (json_value_string(value, text, sizeof text) != RESULT_OK)
        return error_set(error, RESULT_INVALID, SETTINGS_FILE ": %s is no token's text", name);
    *id = tokenizer_find_token(tokenizer, text, strlen(text));
    return *id >= 0 ? RESULT_OK
                    : error_set(error, RESULT_INVALID, SETTINGS_FILE ": %s \"%.64s\" is no token",
                                name, text);
}

static enum result apply_settings(struct tokenizer *tokenizer, struct json_value settings,
                                  struct error_text *error)
{
    int32_t bos, eos;
    enum result result = find_named(tokenizer, settings, "bos_token", &bos, error);
    if (result == RESULT_OK)
        result = find_named(tokenizer, settings, "eos_token", &eos, error);
    if (result != RESULT_OK)
        return result;
    if (bos >= 0)
        tokenizer_set_bos(tokenizer, bos);
    if (eos >= 0)
        tokenizer_set_eos(tokenizer, eos);
    bool adds = false;
    enum result stated = json_value_bool(json_value_member(settings, "add_bos_token"), &adds);
    if (stated == RESULT_INVALID)
        return error_set(error, stated, SETTINGS_FILE ": add_bos_token is not true or false");
    if (stated == RESULT_OK)
        tokenizer_set_adds_bos(tokenizer, adds);
    return RESULT_OK;
}

/* Reads eos_token_id: a number or an array of numbers. Ids unknown to the tokenizer are ignored. */
static enum result add_end_tokens(struct tokenizer *tokenizer, struct json_value ids,
                                  const char *file_name, struct error_text *error)
{
    uint32_t id = 0, count = 0;
    enum result result = RESULT_OK;
    struct json_value element;
    if (json_value_type(ids) == JSON_ABSENT)
        return RESULT_OK;
    if (json_value_type(ids) != JSON_ARRAY) {
        result = json_value_u32(ids, &id);
        if (result == RESULT_OK && id <= INT32_MAX)
            tokenizer_add_end_token(tokenizer, (int32_t)id);
    } else {
        struct json_reader at = json_value_elements(ids);
        while (result == RESULT_OK && json_value_next(&at, &element)) {
            result = json_value_u32(element, &id);
            if (result == RESULT_OK && id <= INT32_MAX)
                tokenizer_add_end_token(tokenizer, (int32_t)id);
            if (++count > LIMIT_STOP_TOKENS)
                return error_set(error, RESULT_TOO_LARGE, "%s: eos_token_id has over %u ids",
                                 file_name, LIMIT_STOP_TOKENS);
        }
    }
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, RESULT_INVALID,
                                           "%s: eos_token_id is no token id, nor a list of "
                                           "them",
                                           file_name);
}

/* --- chat template ---------------------------------------------------------------------------- */

static enum result open_template_text(struct json_value text, struct checkpoint_assets *assets,
                                      struct error_text *error)
{
    struct error_text reason;
    struct json_reader reader = json_reader_open(text.bytes, text.byte_count);
    char *source = must_alloc(text.byte_count + 1, 1);
    size_t bytes = json_reader_string(&reader, source, text.byte_count);
    enum result result = chat_template_open(source, bytes, &assets->chat_template, &reason);
    free(source);
    return result == RESULT_OK
               ? RESULT_OK
               : error_set(error, result, SETTINGS_FILE ": chat_template: %.180s", reason.text);
}

static enum result read_settings_template(struct json_value settings,
                                          struct checkpoint_assets *assets,
                                          struct error_text *error)
{
    struct json_value chosen = json_value_member(settings, "chat_template"), element;
    if (json_value_type(chosen) == JSON_ARRAY) {
        struct json_reader at = json_value_elements(chosen);
        chosen = (struct json_value){0};
        while (json_value_next(&at, &element)) {
            char name[16];
            if (json_value_string(json_value_member(element, "name"), name, sizeof name) ==
                    RESULT_OK &&
                strcmp(name, "default") == 0)
                chosen = json_value_member(element, "template");
        }
    }
    if (json_value_type(chosen) == JSON_ABSENT)
        return RESULT_OK;
    if (json_value_type(chosen) != JSON_STRING)
        return error_set(error, RESULT_INVALID, SETTINGS_FILE ": chat_template is no text");
    return open_template_text(chosen, assets, error);
}

/* The template of a known publisher, if the folder has none. */
static enum result read_known_template(struct json_value config, struct checkpoint_assets *assets,
                                       struct error_text *error)
{
    const char *source = assets->chat_template ? NULL : prompt_formats_template(config);
    if (!source)
        return RESULT_OK;
    log_info("the folder has no chat template: prompts are written in the publisher's format");
    return chat_template_open(source, strlen(source), &assets->chat_template, error);
}

static enum result read_template(int folder_fd, struct json_value config,
                                 struct json_value settings, struct checkpoint_assets *assets,
                                 struct error_text *error)
{
    struct error_text reason;
    struct mapped_file file;
    enum result result = mapped_file_open(folder_fd, TEMPLATE_FILE, &file, &reason);
    if (result == RESULT_NOT_FOUND) {
        result = read_settings_template(settings, assets, error);
        return result == RESULT_OK ? read_known_template(config, assets, error) : result;
    }
    if (result == RESULT_OK) {
        result = chat_template_open(file.bytes, file.byte_count, &assets->chat_template, &reason);
        mapped_file_close(&file);
    }
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, result, TEMPLATE_FILE ": %.200s", reason.text);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Members of a wrong type are ignored. */
static void read_sampling(struct json_value generation, struct checkpoint_sampling *sampling)
{
    (void)json_value_f32(json_value_member(generation, "temperature"), &sampling->temperature);
    (void)json_value_f32(json_value_member(generation, "top_p"), &sampling->top_p);
    (void)json_value_f32(json_value_member(generation, "min_p"), &sampling->min_p);
    (void)json_value_f32(json_value_member(generation, "repetition_penalty"),
                         &sampling->repetition_penalty);
    (void)json_value_u32(json_value_member(generation, "top_k"), &sampling->top_k);
}

static enum result read_config(int folder_fd, struct json_file *config,
                               struct checkpoint_assets *assets, struct error_text *error)
{
    struct error_text reason;
    enum result result = json_file_open(folder_fd, CONFIG_FILE, LIMIT_CONFIG_BYTES, config, error);
    if (result != RESULT_OK)
        return result;
    if (json_value_type(config->root) == JSON_ABSENT)
        return error_set(error, RESULT_INVALID, "the folder has no " CONFIG_FILE);
    assets->created_unix_s = config->file.modified_ns / 1000000000;
    if (json_value_string(json_value_member(config->root, "model_type"), assets->family,
                          sizeof assets->family) != RESULT_OK)
        assets->family[0] = '\0';
    assets->classifies = hf_config_classifies(config->root);
    result = hf_config_context(config->root, &assets->context_tokens, &reason);
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, result, CONFIG_FILE ": %s", reason.text);
}

static enum result read_generation(int folder_fd, struct json_value config,
                                   struct checkpoint_assets *assets, struct error_text *error)
{
    struct json_file generation = {0};
    enum result result =
        json_file_open(folder_fd, GENERATION_FILE, LIMIT_CONFIG_BYTES, &generation, error);
    if (result == RESULT_OK) {
        bool there = json_value_type(generation.root) != JSON_ABSENT;
        read_sampling(generation.root, &assets->sampling);
        result = add_end_tokens(
            assets->tokenizer,
            json_value_member(there ? generation.root : hf_config_text(config), "eos_token_id"),
            there ? GENERATION_FILE : CONFIG_FILE, error);
    }
    mapped_file_close(&generation.file);
    return result;
}

enum result folder_assets_read(int folder_fd, bool with_template, struct checkpoint_assets *assets,
                               struct error_text *error)
{
    struct json_file config = {0}, settings = {0};
    enum result result = read_config(folder_fd, &config, assets, error);
    if (result == RESULT_OK)
        result = read_tokenizer(folder_fd, assets, error);
    if (result == RESULT_OK)
        result = json_file_open(folder_fd, SETTINGS_FILE, LIMIT_JSON_FILE_BYTES, &settings, error);
    if (result == RESULT_OK)
        result = apply_settings(assets->tokenizer, settings.root, error);
    if (result == RESULT_OK)
        result = read_generation(folder_fd, config.root, assets, error);
    if (result == RESULT_OK && with_template)
        result = read_template(folder_fd, config.root, settings.root, assets, error);
    mapped_file_close(&settings.file);
    mapped_file_close(&config.file);
    return result;
}
