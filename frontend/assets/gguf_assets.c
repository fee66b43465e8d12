/*
 * Maps the file, reads its key-value pairs and unmaps it; no weight is touched.
 */
#include "frontend/assets/gguf_assets.h"

#include <fcntl.h>
#include <stdio.h>

#include "proto/gguf_file.h"
#include "proto/mapped_file.h"

static enum result context_read(const struct gguf_file *gguf, char name[64],
                                uint32_t *context_tokens, struct error_text *error)
{
    struct gguf_string family;
    if (gguf_file_string(gguf, "general.architecture", &family) != RESULT_OK || family.length >= 64)
        return error_set(error, RESULT_INVALID, "the checkpoint does not name its architecture");
    char key[96];
    snprintf(key, sizeof key, "%.*s.context_length", (int)family.length, family.bytes);
    uint32_t trained = 0;
    if (gguf_file_u32(gguf, key, &trained) != RESULT_OK || trained == 0)
        return error_set(error, RESULT_INVALID, "the checkpoint has no usable %s", key);
    snprintf(name, 64, "%.*s", (int)family.length, family.bytes);
    *context_tokens = trained;
    return RESULT_OK;
}

static void sampling_read(const struct gguf_file *gguf, struct checkpoint_sampling *sampling)
{
    (void)gguf_file_f32(gguf, "general.sampling.temp", &sampling->temperature);
    (void)gguf_file_f32(gguf, "general.sampling.top_p", &sampling->top_p);
    (void)gguf_file_f32(gguf, "general.sampling.min_p", &sampling->min_p);
    (void)gguf_file_f32(gguf, "general.sampling.penalty_repeat", &sampling->repetition_penalty);
    (void)gguf_file_u32(gguf, "general.sampling.top_k", &sampling->top_k);
}

static enum result gguf_read(const struct gguf_file *gguf, bool with_template,
                             struct checkpoint_assets *assets, struct error_text *error)
{
    struct gguf_string source;
    enum result result = context_read(gguf, assets->family, &assets->context_tokens, error);
    if (result == RESULT_OK)
        result = tokenizer_open_gguf(gguf, &assets->tokenizer, error);
    if (result == RESULT_OK && with_template &&
        gguf_file_string(gguf, "tokenizer.chat_template", &source) == RESULT_OK)
        result = chat_template_open(source.bytes, source.length, &assets->chat_template, error);
    sampling_read(gguf, &assets->sampling);
    return result;
}

enum result gguf_assets_read(const char *path, bool with_template, struct checkpoint_assets *assets,
                             struct error_text *error)
{
    struct error_text reason;
    struct mapped_file file;
    struct gguf_file *gguf = NULL;
    enum result result = mapped_file_open(AT_FDCWD, path, &file, &reason);
    if (result != RESULT_OK)
        return error_set(error, result == RESULT_NOT_FOUND ? RESULT_IO : result,
                         "cannot open %.150s: %s", path, reason.text);
    assets->created_unix_s = file.modified_ns / 1000000000;
    result = gguf_file_open(file.bytes, file.byte_count, &gguf, error);
    if (result == RESULT_OK)
        result = gguf_read(gguf, with_template, assets, error);
    gguf_file_close(gguf);
    mapped_file_close(&file);
    return result;
}
