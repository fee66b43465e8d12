/*
 * A module's type is a Python class; its last name says which. A module's folder is a plain name, so
 * that a checkpoint reaches no other folder.
 */
#include "proto/sentence_modules.h"

#include <stdio.h>
#include <string.h>

#include "proto/json_value.h"
#include "proto/limits.h"
#include "proto/mapped_file.h"

#define MODULES_FILE "modules.json"
#define NAME_BYTES   160u

static enum result pooling_of(const char *name, enum pooling *pooling, struct error_text *error)
{
    static const struct {
        const char *name;
        enum pooling pooling;
    } kinds[] = {
        {"lasttoken", POOLING_LAST}, {"pooling_mode_lasttoken", POOLING_LAST},
        {"mean", POOLING_MEAN},      {"pooling_mode_mean_tokens", POOLING_MEAN},
        {"cls", POOLING_CLS},        {"pooling_mode_cls_token", POOLING_CLS},
        {"max", POOLING_MAX},        {"pooling_mode_max_tokens", POOLING_MAX},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            if (*pooling != POOLING_OFF)
                return error_set(error, RESULT_UNSUPPORTED, "several kinds of pooling are joined");
            *pooling = kinds[i].pooling;
            return RESULT_OK;
        }
    }
    return error_set(error, RESULT_UNSUPPORTED, "pooling \"%.60s\" is not supported", name);
}

/* Both forms: {"pooling_mode": "mean"} and {"pooling_mode_mean_tokens": true, …}. */
static enum result read_pooling_root(struct json_value root, enum pooling *pooling,
                                     struct error_text *error)
{
    static const char *const flags[] = {"pooling_mode_lasttoken",
                                        "pooling_mode_mean_tokens",
                                        "pooling_mode_cls_token",
                                        "pooling_mode_max_tokens",
                                        "pooling_mode_mean_sqrt_len_tokens",
                                        "pooling_mode_weightedmean_tokens"};
    char name[NAME_BYTES];
    struct json_value mode = json_value_member(root, "pooling_mode");
    bool includes = true;
    (void)json_value_bool(json_value_member(root, "include_prompt"), &includes);
    if (!includes)
        return error_set(error, RESULT_UNSUPPORTED, "include_prompt false is not supported");
    *pooling = POOLING_OFF;
    if (json_value_type(mode) == JSON_STRING &&
        json_value_string(mode, name, sizeof name) == RESULT_OK)
        return pooling_of(name, pooling, error);
    if (json_value_type(mode) != JSON_ABSENT)
        return error_set(error, RESULT_UNSUPPORTED, "pooling_mode is not one name");
    enum result result = RESULT_OK;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && result == RESULT_OK; i++) {
        bool on = false;
        (void)json_value_bool(json_value_member(root, flags[i]), &on);
        if (on)
            result = pooling_of(flags[i], pooling, error);
    }
    if (result == RESULT_OK && *pooling == POOLING_OFF)
        return error_set(error, RESULT_INVALID, "no kind of pooling is on");
    return result;
}

/* RESULT_NOT_FOUND: there is no such file. */
static enum result open_json(int folder_fd, const char *name, struct mapped_file *file,
                             struct json_value *root, struct error_text *error)
{
    struct error_text reason;
    enum result result = mapped_file_open(folder_fd, name, file, &reason);
    if (result == RESULT_OK)
        result = json_value_open(file->bytes, file->byte_count, LIMIT_CONFIG_BYTES, root, &reason);
    return result == RESULT_OK ? result
                               : error_set(error, result, "%.80s: %.160s", name, reason.text);
}

static enum result read_pooling(int folder_fd, const char *folder, enum pooling *pooling,
                                struct error_text *error)
{
    char name[SENTENCE_FOLDER_BYTES + 16];
    struct mapped_file file = {0};
    struct json_value root;
    struct error_text reason;
    snprintf(name, sizeof name, "%s/config.json", folder);
    enum result result = open_json(folder_fd, name, &file, &root, error);
    if (result == RESULT_NOT_FOUND)
        return error_set(error, RESULT_INVALID, "%s is missing", name);
    if (result == RESULT_OK) {
        result = read_pooling_root(root, pooling, &reason);
        if (result != RESULT_OK)
            result = error_set(error, result, "%s: %.160s", name, reason.text);
    }
    mapped_file_close(&file);
    return result;
}

/* Letters, digits, '_' and '-'. */
static bool is_plain(const char *folder)
{
    return folder[0] != '\0' &&
           folder[strspn(folder, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789_-")] == '\0';
}

static enum result read_module(int folder_fd, struct json_value module,
                               struct sentence_modules *modules, struct error_text *error)
{
    char type[NAME_BYTES], folder[SENTENCE_FOLDER_BYTES] = "";
    if (json_value_string(json_value_member(module, "type"), type, sizeof type) != RESULT_OK ||
        json_value_string(json_value_member(module, "path"), folder, sizeof folder) ==
            RESULT_INVALID)
        return error_set(error, RESULT_INVALID, MODULES_FILE ": a module without type or path");
    const char *dot = strrchr(type, '.');
    const char *class = dot ? dot + 1 : type;
    if (strcmp(class, "Transformer") == 0)
        return folder[0] == '\0'
                   ? RESULT_OK
                   : error_set(error, RESULT_UNSUPPORTED,
                               MODULES_FILE ": the model lies in the folder %s", folder);
    if (strcmp(class, "Normalize") == 0) {
        modules->normalizes = true;
        return RESULT_OK;
    }
    bool pools = strcmp(class, "Pooling") == 0, dense = strcmp(class, "Dense") == 0;
    if (!pools && !dense)
        return error_set(error, RESULT_UNSUPPORTED, MODULES_FILE ": module %.100s is not supported",
                         type);
    if (!is_plain(folder))
        return error_set(error, RESULT_INVALID, MODULES_FILE ": the path of %.100s is no folder",
                         class);
    if (modules->normalizes || (dense && modules->pooling == POOLING_OFF) ||
        (pools && modules->pooling != POOLING_OFF) || modules->dense_count == SENTENCE_DENSE_MAX)
        return error_set(error, RESULT_UNSUPPORTED, MODULES_FILE ": its order is not supported");
    if (pools)
        return read_pooling(folder_fd, folder, &modules->pooling, error);
    strcpy(modules->dense[modules->dense_count++], folder);
    return RESULT_OK;
}

/* Cross-encoders and others have modules too, but pool nothing. */
static bool lists_pooling(struct json_value root)
{
    char type[NAME_BYTES];
    struct json_value module;
    struct json_reader at = json_value_elements(root);
    while (json_value_next(&at, &module)) {
        if (json_value_string(json_value_member(module, "type"), type, sizeof type) != RESULT_OK)
            continue;
        size_t length = strlen(type);
        if (length >= 7 && strcmp(type + length - 7, "Pooling") == 0)
            return true;
    }
    return false;
}

enum result sentence_modules_read(int folder_fd, struct sentence_modules *modules,
                                  struct error_text *error)
{
    struct mapped_file file = {0};
    struct json_value root, module;
    *modules = (struct sentence_modules){0};
    enum result result = open_json(folder_fd, MODULES_FILE, &file, &root, error);
    if (result == RESULT_NOT_FOUND)
        return RESULT_OK;
    if (result == RESULT_OK && json_value_type(root) != JSON_ARRAY)
        result = error_set(error, RESULT_INVALID, MODULES_FILE ": not a list");
    if (result == RESULT_OK && lists_pooling(root)) {
        struct json_reader at = json_value_elements(root);
        while (result == RESULT_OK && json_value_next(&at, &module))
            result = read_module(folder_fd, module, modules, error);
    }
    modules->found = result == RESULT_OK && modules->pooling != POOLING_OFF;
    mapped_file_close(&file);
    return result;
}
