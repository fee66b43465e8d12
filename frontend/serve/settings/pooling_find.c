/*
 * The key <architecture>.pooling_type of GGUF files is llama.cpp's: 0 none, 1 mean, 2 cls, 3 last,
 * 4 rank. "none" and "rank" leave a model as it is.
 */
#include "frontend/serve/settings/pooling_find.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/gguf_file.h"
#include "proto/hf_config.h"
#include "proto/limits.h"
#include "proto/mapped_file.h"
#include "proto/sentence_modules.h"

static enum pooling gguf_pooling(const struct gguf_file *gguf)
{
    static const enum pooling types[] = {POOLING_OFF, POOLING_MEAN, POOLING_CLS, POOLING_LAST};
    struct gguf_string family;
    char key[96];
    uint32_t type = 0;
    if (gguf_file_string(gguf, "general.architecture", &family) != RESULT_OK || family.length >= 64)
        return POOLING_OFF;
    snprintf(key, sizeof key, "%.*s.pooling_type", (int)family.length, family.bytes);
    if (gguf_file_u32(gguf, key, &type) != RESULT_OK || type >= sizeof types / sizeof types[0])
        return POOLING_OFF;
    return types[type];
}

static enum pooling file_pooling(const char *model)
{
    struct error_text ignored;
    struct mapped_file file;
    struct gguf_file *gguf = NULL;
    enum pooling pooling = POOLING_OFF;
    if (mapped_file_open(AT_FDCWD, model, &file, &ignored) != RESULT_OK)
        return POOLING_OFF;
    if (gguf_file_open(file.bytes, file.byte_count, &gguf, &ignored) == RESULT_OK)
        pooling = gguf_pooling(gguf);
    gguf_file_close(gguf);
    mapped_file_close(&file);
    return pooling;
}

/* What an encoder without modules.json does: sentence-transformers' default, or what its class reads. */
static enum pooling encoder_pooling(int folder_fd)
{
    struct error_text ignored;
    struct mapped_file file = {0};
    struct json_value root;
    char type[64];
    enum pooling pooling = POOLING_OFF;
    if (mapped_file_open(folder_fd, "config.json", &file, &ignored) != RESULT_OK)
        return POOLING_OFF;
    if (json_value_open(file.bytes, file.byte_count, LIMIT_CONFIG_BYTES, &root, &ignored) ==
            RESULT_OK &&
        json_value_string(json_value_member(root, "model_type"), type, sizeof type) == RESULT_OK &&
        hf_config_is_encoder(type))
        pooling = hf_config_classifies(root) ? POOLING_CLS : POOLING_MEAN;
    mapped_file_close(&file);
    return pooling;
}

enum result pooling_find(const char *asked, const char *model, bool reranks, enum pooling *pooling,
                         struct error_text *error)
{
    *pooling = POOLING_OFF;
    if (strcmp(asked, "auto") != 0)
        return pooling_parse(asked, pooling) == 0
                   ? RESULT_OK
                   : error_set(
                         error, RESULT_INVALID,
                         "--pooling: '%.40s' is none of auto, off, last, mean, cls, max, none",
                         asked);
    int folder_fd = open(model, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0) {
        *pooling = reranks ? POOLING_OFF : file_pooling(model);
        return RESULT_OK;
    }
    struct sentence_modules modules = {0};
    struct error_text reason;
    enum pooling usual = encoder_pooling(folder_fd);
    enum result result = reranks ? RESULT_OK : sentence_modules_read(folder_fd, &modules, &reason);
    close(folder_fd);
    if (result != RESULT_OK)
        return error_set(error, result, "%.120s: %.160s (--pooling off serves it without)", model,
                         reason.text);
    if (reranks)
        *pooling = usual == POOLING_CLS ? POOLING_CLS : POOLING_OFF;
    else
        *pooling = modules.found ? modules.pooling : usual;
    return RESULT_OK;
}
