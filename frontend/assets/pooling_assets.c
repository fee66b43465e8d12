/*
 * A folder of sentence-transformers names its texts ("query", "document") and may name one as the
 * default. Texts that are null or empty stand for nothing.
 */
#include "frontend/assets/pooling_assets.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/assets/dense_layers.h"
#include "frontend/base/text_buffer.h"
#include "proto/limits.h"
#include "proto/mapped_file.h"
#include "proto/must.h"
#include "proto/sentence_modules.h"

#define PROMPTS_FILE "config_sentence_transformers.json"

struct pooling_assets {
    bool normalizes;
    struct dense_layers *dense;
    cJSON *prompts;           /* object of texts; NULL: none */
    const char *usual;        /* inside prompts; "": none */
    struct text_buffer names; /* NUL-terminated */
};

static void names_join(struct pooling_assets *assets)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, assets->prompts)
    {
        text_buffer_append_text(&assets->names, assets->names.length > 0 ? ", " : "");
        text_buffer_append_text(&assets->names, item->string);
    }
    text_buffer_append(&assets->names, "", 1);
}

static enum result prompts_take(cJSON *root, struct pooling_assets *assets,
                                struct error_text *error)
{
    const cJSON *usual = cJSON_GetObjectItemCaseSensitive(root, "default_prompt_name");
    assets->prompts = cJSON_DetachItemFromObjectCaseSensitive(root, "prompts");
    const cJSON *item;
    cJSON_ArrayForEach(item, assets->prompts)
    {
        if (!cJSON_IsString(item) && !cJSON_IsNull(item))
            return error_set(error, RESULT_INVALID, PROMPTS_FILE ": prompts are not texts");
    }
    if (!cJSON_IsString(usual))
        return RESULT_OK;
    assets->usual = pooling_assets_prompt(assets, usual->valuestring);
    return assets->usual ? RESULT_OK
                         : error_set(error, RESULT_INVALID,
                                     PROMPTS_FILE ": default_prompt_name names no prompt");
}

static enum result prompts_read(int folder_fd, struct pooling_assets *assets,
                                struct error_text *error)
{
    struct mapped_file file;
    struct error_text reason;
    enum result result = mapped_file_open(folder_fd, PROMPTS_FILE, &file, &reason);
    if (result == RESULT_NOT_FOUND)
        return RESULT_OK;
    if (result != RESULT_OK)
        return error_set(error, result, PROMPTS_FILE ": %.160s", reason.text);
    cJSON *root = file.byte_count <= LIMIT_CONFIG_BYTES
                      ? cJSON_ParseWithLength(file.bytes, file.byte_count)
                      : NULL;
    mapped_file_close(&file);
    result = cJSON_IsObject(root) ? prompts_take(root, assets, error)
                                  : error_set(error, RESULT_INVALID, PROMPTS_FILE ": no object");
    cJSON_Delete(root);
    return result;
}

enum result pooling_assets_open(const char *path, struct pooling_assets **assets,
                                struct error_text *error)
{
    struct pooling_assets *made = must_alloc(1, sizeof *made);
    struct sentence_modules modules = {0};
    enum result result = RESULT_OK;
    made->normalizes = true;
    made->usual = "";
    int folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd >= 0) {
        result = sentence_modules_read(folder_fd, &modules, error);
        made->normalizes = !modules.found || modules.normalizes;
        if (result == RESULT_OK)
            result = dense_layers_open(folder_fd, &modules, &made->dense, error);
        if (result == RESULT_OK)
            result = prompts_read(folder_fd, made, error);
        close(folder_fd);
    }
    names_join(made);
    *assets = made;
    if (result == RESULT_OK)
        return result;
    pooling_assets_close(made);
    *assets = NULL;
    return result;
}

void pooling_assets_close(struct pooling_assets *assets)
{
    if (!assets)
        return;
    dense_layers_close(assets->dense);
    cJSON_Delete(assets->prompts);
    text_buffer_fini(&assets->names);
    free(assets);
}

bool pooling_assets_normalizes(const struct pooling_assets *assets)
{
    return assets->normalizes;
}

const struct dense_layers *pooling_assets_dense(const struct pooling_assets *assets)
{
    return assets->dense;
}

const char *pooling_assets_prompt(const struct pooling_assets *assets, const char *name)
{
    if (!name)
        return assets->usual;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(assets->prompts, name);
    if (!item)
        return NULL;
    return cJSON_IsString(item) ? item->valuestring : "";
}

const char *pooling_assets_prompt_names(const struct pooling_assets *assets)
{
    return assets->names.bytes;
}
