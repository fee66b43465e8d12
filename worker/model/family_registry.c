/*
 * The table of families, made from family_list.h.
 *
 * A family is found by general.architecture (GGUF) or model_type (config.json), or in published
 * configs that lack it by the name of the class. There are no aliases: an architecture that is almost llama has a row of its own, which states the differences.
 */
#include "worker/model/family_registry.h"

#include <string.h>

#include "proto/hf_config.h"
#include "worker/model/checkpoint/family_list.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

#define FAMILY_ENTRY(name) &family_##name,
static const struct model_family *const families[] = {FAMILY_LIST(FAMILY_ENTRY)};
#undef FAMILY_ENTRY
#define FAMILY_COUNT (sizeof(families) / sizeof(families[0]))
#define CLASS_BYTES  64u

/* --- GGUF ------------------------------------------------------------------------------------- */

static const struct model_family *find_by_architecture(struct gguf_string architecture)
{
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        if (families[i]->gguf && checkpoint_keys_is(architecture, families[i]->architecture))
            return families[i];
    return NULL;
}

enum result family_registry_read_gguf(const struct gguf_file *file,
                                      const struct model_family **family,
                                      struct model_config *config, struct error_text *error)
{
    struct gguf_string architecture;
    *family = NULL;
    if (gguf_file_string(file, "general.architecture", &architecture) != RESULT_OK)
        return error_set(error, RESULT_INVALID, "key general.architecture is missing or no string");
    *family = find_by_architecture(architecture);
    if (!*family)
        return error_set(error, RESULT_UNSUPPORTED, "architecture \"%.*s\" is not supported",
                         (int)(architecture.length < 32 ? architecture.length : 32),
                         architecture.bytes);
    return checkpoint_gguf_read(file, *family, config, error);
}

/* --- Hugging Face ----------------------------------------------------------------------------- */

static const struct model_family *find_by_model_type(struct gguf_string model_type)
{
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        for (const char *const *type = families[i]->hf->model_types; *type; type++)
            if (checkpoint_keys_is(model_type, *type))
                return families[i];
    return NULL;
}

/* By the class that a config without a model_type names first among its architectures. */
static const struct model_family *find_by_class(struct json_value root)
{
    struct json_value first;
    struct json_reader at = json_value_elements(json_value_member(root, "architectures"));
    char name[CLASS_BYTES] = "";
    if (json_value_type(json_value_member(root, "model_type")) != JSON_ABSENT ||
        json_value_type(json_value_member(root, "architectures")) != JSON_ARRAY ||
        !json_value_next(&at, &first) || json_value_string(first, name, sizeof name) != RESULT_OK)
        return NULL;
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        if (families[i]->hf->class_name && strcmp(families[i]->hf->class_name, name) == 0)
            return families[i];
    return NULL;
}

#define TOWER_ENTRY(name) &tower_##name,
static const struct model_tower *const towers[] = {TOWER_LIST(TOWER_ENTRY)};
#undef TOWER_ENTRY
#define TOWER_COUNT (sizeof(towers) / sizeof(towers[0]))
#define TYPE_BYTES  64u

static bool is_listed(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

/* Whether the config is of the row's class, and of its tower where the row names one. */
static bool is_class(const struct model_tower *tower, struct json_value root)
{
    char whole[TYPE_BYTES] = "", name[TYPE_BYTES] = "";
    struct json_value part = json_value_member(root, "vision_config");
    (void)json_value_string(json_value_member(root, "model_type"), whole, sizeof whole);
    if (!is_listed(tower->model_types, whole))
        return false;
    return !tower->tower_name || (json_value_string(json_value_member(part, "model_name"), name,
                                                    sizeof name) == RESULT_OK &&
                                  strcmp(name, tower->tower_name) == 0);
}

const struct model_tower *family_registry_tower_class(struct json_value root)
{
    for (size_t i = 0; i < TOWER_COUNT; i++)
        if (is_class(towers[i], root))
            return towers[i];
    return NULL;
}

const struct model_tower *family_registry_tower(struct json_value root)
{
    for (size_t i = 0; i < TOWER_COUNT; i++) {
        const char *part = towers[i]->hf->part ? towers[i]->hf->part : "vision_config";
        struct json_value tower = json_value_member(root, part);
        char type[TYPE_BYTES] = "";
        enum result stated =
            json_value_string(json_value_member(tower, "model_type"), type, sizeof type);
        if (json_value_type(tower) == JSON_OBJECT && is_class(towers[i], root) &&
            (stated == RESULT_NOT_FOUND || is_listed(towers[i]->vision_types, type)))
            return towers[i];
    }
    return NULL;
}

bool family_registry_knows(const char *model_type)
{
    return find_by_model_type((struct gguf_string){model_type, strlen(model_type)}) != NULL;
}

enum result family_registry_read_hf(struct json_value root, const struct model_family **family,
                                    struct model_config *config, struct error_text *error)
{
    struct error_text reason = {""};
    struct checkpoint_keys keys = {.object = root, .error = &reason};
    *family = NULL;
    if (json_value_type(root) != JSON_OBJECT)
        return error_set(error, RESULT_INVALID, "config.json: not an object");
    struct gguf_string type = checkpoint_keys_string_or_empty(&keys, "model_type");
    if (keys.result == RESULT_OK)
        *family = find_by_class(root);
    bool by_class = *family != NULL;
    if (keys.result == RESULT_OK && !by_class)
        *family = find_by_model_type(type);
    struct gguf_string text_type = {NULL, 0};
    if (keys.result == RESULT_OK && !*family) { /* a class of several parts that accepts any text
                                                   model: its text_config names the family */
        struct checkpoint_keys text = {.object = hf_config_text(root), .error = &reason};
        text_type = checkpoint_keys_string_or_empty(&text, "model_type");
        checkpoint_keys_leave(&keys, &text);
        const struct model_tower *tower = family_registry_tower_class(root);
        if (text_type.length == 0 && tower && tower->text_type)
            text_type = (struct gguf_string){tower->text_type, strlen(tower->text_type)};
        *family = find_by_model_type(text_type);
    }
    if (type.length == 0 && !by_class)
        checkpoint_keys_refuse(&keys, RESULT_INVALID, "key model_type is missing");
    else if (!*family && family_registry_tower_class(root))
        checkpoint_keys_refuse(&keys, RESULT_UNSUPPORTED,
                               "the text of model_type \"%.*s\" has model_type \"%.*s\", which is "
                               "not supported",
                               (int)(type.length < 64 ? type.length : 64), type.bytes,
                               (int)(text_type.length < 64 ? text_type.length : 64),
                               text_type.bytes);
    else if (!*family)
        checkpoint_keys_refuse(&keys, RESULT_UNSUPPORTED, "model_type \"%.*s\" is not supported",
                               (int)(type.length < 64 ? type.length : 64), type.bytes);
    if (keys.result != RESULT_OK)
        return error_set(error, keys.result, "config.json: %s", reason.text);
    enum result result =
        checkpoint_hf_read(root, *family, family_registry_tower_class(root), config, &reason);
    if (result == RESULT_OK || by_class || find_by_model_type(type) ||
        family_registry_tower_class(root))
        return result == RESULT_OK ? result : error_set(error, result, "%s", reason.text);
    return error_set(error, RESULT_UNSUPPORTED,
                     "config.json: model_type \"%.*s\" is not supported, and its text alone cannot "
                     "be used: %s",
                     (int)(type.length < 64 ? type.length : 64), type.bytes,
                     reason.text + strlen("config.json: "));
}
