/*
 * Published configs tell the kind in different places: the name of the class, draft_vocab_size (EAGLE's own
 * repository), speculators_model_type (speculators), or dflash_config.
 */
#include "proto/drafter_kind.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "proto/json_files.h"

#define CLASS_BYTES 64u

static bool has_class(struct json_value config, const char *part)
{
    struct json_value class;
    struct json_reader at = json_value_elements(json_value_member(config, "architectures"));
    char name[CLASS_BYTES];
    while (json_value_type(json_value_member(config, "architectures")) == JSON_ARRAY &&
           json_value_next(&at, &class))
        if (json_value_string(class, name, sizeof name) == RESULT_OK && strstr(name, part))
            return true;
    return false;
}

enum drafter_kind drafter_kind_find(struct json_value config)
{
    char kind[CLASS_BYTES] = "", model[CLASS_BYTES] = "";
    (void)json_value_string(json_value_member(config, "speculators_model_type"), kind, sizeof kind);
    (void)json_value_string(json_value_member(config, "model_type"), model, sizeof model);
    if (json_value_type(json_value_member(config, "dflash_config")) != JSON_ABSENT ||
        has_class(config, "DFlash") || strcmp(kind, "dflash") == 0)
        return DRAFTER_DFLASH;
    if (has_class(config, "Gemma4Assistant") || strcmp(model, "gemma4_assistant") == 0)
        return DRAFTER_ASSISTANT;
    if (json_value_type(json_value_member(config, "draft_vocab_size")) != JSON_ABSENT ||
        has_class(config, "Eagle3") || strcmp(kind, "eagle3") == 0)
        return DRAFTER_EAGLE3;
    return DRAFTER_MODEL;
}

enum drafter_kind drafter_kind_at(const char *path)
{
    struct json_value config = {0};
    struct json_file file = {.name = "config.json", .value = &config};
    struct error_text ignored = {""};
    enum drafter_kind kind = DRAFTER_MODEL;
    int folder_fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (folder_fd < 0)
        return kind;
    if (json_files_open(folder_fd, &file, 1, &ignored) == RESULT_OK)
        kind = drafter_kind_find(config);
    json_files_close(&file, 1);
    close(folder_fd);
    return kind;
}

const char *drafter_kind_name(enum drafter_kind kind)
{
    switch (kind) {
    case DRAFTER_EAGLE3: return "EAGLE-3 head";
    case DRAFTER_ASSISTANT: return "assistant";
    case DRAFTER_DFLASH: return "DFlash drafter";
    case DRAFTER_MODEL: break;
    }
    return "draft model";
}
