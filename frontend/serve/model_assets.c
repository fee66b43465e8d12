/*
 * Opening the frontend's half of a checkpoint: tokenizer, chat template, defaults. The file is
 * mapped, read and unmapped; nothing here touches a weight.
 *
 * A checkpoint without a chat template is served (chat requests then get a clear 400); one whose
 * tokenizer or template cannot be read is refused, because guessing either gives wrong answers that
 * look right.
 */
#include "frontend/serve/model_assets.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/gguf_file.h"
#include "proto/must.h"

struct mapped_file {
    void *bytes;
    size_t byte_count;
};

static enum result file_map(const char *path, struct mapped_file *file, int64_t *modified_unix_s,
                            struct error_text *error)
{
    /* Without waiting: a pipe of that name would never open. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(error, RESULT_IO, "cannot open %.150s: %s", path, strerror(errno));
    struct stat status;
    enum result result = RESULT_OK;
    if (fstat(fd, &status) != 0)
        result = error_set(error, RESULT_IO, "cannot stat %.150s: %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode) || status.st_size == 0)
        result = error_set(error, RESULT_INVALID, "%.150s is not a file with content", path);
    if (result == RESULT_OK) {
        *modified_unix_s = (int64_t)status.st_mtime;
        file->byte_count = (size_t)status.st_size;
        file->bytes = mmap(NULL, file->byte_count, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file->bytes == MAP_FAILED) {
            file->bytes = NULL;
            result = error_set(error, RESULT_IO, "cannot map %.150s: %s", path, strerror(errno));
        }
    }
    close(fd);
    return result;
}

/* The name stands in JSON, URLs and logs. */
static bool is_name_char(char c)
{
    return c > 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* "/models/SmolLM2-135M.gguf" -> "SmolLM2-135M" */
static void name_from_path(const char *path, char *name, size_t name_bytes)
{
    const char *slash = strrchr(path, '/');
    const char *stem = slash ? slash + 1 : path;
    size_t length = strlen(stem);
    if (length > 5 && strcmp(stem + length - 5, ".gguf") == 0)
        length -= 5;
    if (length >= name_bytes)
        length = name_bytes - 1;
    for (size_t i = 0; i < length; i++)
        name[i] = is_name_char(stem[i]) ? stem[i] : '-';
    name[length] = '\0';
}

static enum result context_read(const struct gguf_file *gguf, uint32_t context_limit,
                                uint32_t *context_tokens, struct error_text *error)
{
    struct gguf_string family;
    if (gguf_file_string(gguf, "general.architecture", &family) != RESULT_OK || family.length > 64)
        return error_set(error, RESULT_INVALID, "the checkpoint does not name its architecture");
    char key[96];
    snprintf(key, sizeof key, "%.*s.context_length", (int)family.length, family.bytes);
    uint32_t trained = 0;
    if (gguf_file_u32(gguf, key, &trained) != RESULT_OK || trained == 0)
        return error_set(error, RESULT_INVALID, "the checkpoint has no usable %s", key);
    if (trained > LIMIT_CONTEXT_TOKENS)
        trained = LIMIT_CONTEXT_TOKENS;
    *context_tokens = context_limit > 0 && context_limit < trained ? context_limit : trained;
    return RESULT_OK;
}

static void sampling_read(const struct gguf_file *gguf, struct checkpoint_sampling *sampling)
{
    *sampling = (struct checkpoint_sampling){.temperature = NAN,
                                             .top_p = NAN,
                                             .min_p = NAN,
                                             .repetition_penalty = NAN,
                                             .top_k = UINT32_MAX};
    (void)gguf_file_f32(gguf, "general.sampling.temp", &sampling->temperature);
    (void)gguf_file_f32(gguf, "general.sampling.top_p", &sampling->top_p);
    (void)gguf_file_f32(gguf, "general.sampling.min_p", &sampling->min_p);
    (void)gguf_file_f32(gguf, "general.sampling.penalty_repeat", &sampling->repetition_penalty);
    (void)gguf_file_u32(gguf, "general.sampling.top_k", &sampling->top_k);
}

/* A checkpoint's own default that no request could ask for is as good as none. */
static void sampling_sift(struct checkpoint_sampling *sampling)
{
    if (!(sampling->temperature >= 0 && sampling->temperature <= 2))
        sampling->temperature = NAN;
    if (!(sampling->top_p > 0 && sampling->top_p <= 1))
        sampling->top_p = NAN;
    if (!(sampling->min_p >= 0 && sampling->min_p <= 1))
        sampling->min_p = NAN;
    if (!(sampling->repetition_penalty > 0 && sampling->repetition_penalty <= 10))
        sampling->repetition_penalty = NAN;
    if (sampling->top_k > LIMIT_VOCAB_TOKENS)
        sampling->top_k = UINT32_MAX;
}

static char *token_text(const struct tokenizer *tokenizer, int32_t token)
{
    const char *bytes = "";
    size_t byte_count = 0;
    if (token >= 0)
        tokenizer_token_bytes(tokenizer, (uint32_t)token, &bytes, &byte_count);
    char *text = must_alloc(byte_count + 1, 1);
    memcpy(text, bytes, byte_count);
    return text;
}

/* The template of a file of its own, else the checkpoint's, else none. */
static enum result template_read(const struct gguf_file *gguf, const char *path,
                                 struct chat_template **chat_template, struct error_text *error)
{
    struct gguf_string source;
    if (!path) {
        if (gguf_file_string(gguf, "tokenizer.chat_template", &source) != RESULT_OK)
            return RESULT_OK;
        return chat_template_open(source.bytes, source.length, chat_template, error);
    }
    struct mapped_file file = {0};
    int64_t modified_unix_s;
    enum result result = file_map(path, &file, &modified_unix_s, error);
    if (result == RESULT_OK)
        result = chat_template_open(file.bytes, file.byte_count, chat_template, error);
    if (file.bytes)
        munmap(file.bytes, file.byte_count);
    return result;
}

static enum result assets_read(const struct gguf_file *gguf,
                               const struct model_assets_options *options,
                               struct model_assets *assets, struct error_text *error)
{
    enum result result = context_read(gguf, options->context_limit, &assets->context_tokens, error);
    if (result != RESULT_OK)
        return result;
    result = tokenizer_open_gguf(gguf, &assets->tokenizer, error);
    if (result != RESULT_OK)
        return result;
    result = template_read(gguf, options->chat_template_path, &assets->chat_template, error);
    if (result != RESULT_OK)
        return result;
    assets->stop_id_count = tokenizer_end_tokens(assets->tokenizer, assets->stop_ids);
    assets->bos_text = token_text(assets->tokenizer, tokenizer_bos_token(assets->tokenizer));
    assets->eos_text = token_text(assets->tokenizer, tokenizer_eos_token(assets->tokenizer));
    sampling_read(gguf, &assets->sampling);
    sampling_sift(&assets->sampling);
    return RESULT_OK;
}

enum result model_assets_open(const struct model_assets_options *options,
                              struct model_assets *assets, struct error_text *error)
{
    const char *path = options->path;
    const char *served_name = options->served_name;
    *assets = (struct model_assets){0};
    if (strlen(path) >= sizeof assets->path)
        return error_set(error, RESULT_TOO_LARGE, "the model's path is too long");
    if (served_name && strlen(served_name) >= sizeof assets->model_id)
        return error_set(error, RESULT_TOO_LARGE, "the served model name is too long");
    for (const char *at = served_name; at && *at; at++) {
        if (!is_name_char(*at))
            return error_set(error, RESULT_INVALID,
                             "the served model name may hold printable ASCII only");
    }
    strcpy(assets->path, path);
    if (served_name)
        strcpy(assets->model_id, served_name);
    else
        name_from_path(path, assets->model_id, sizeof assets->model_id);

    struct mapped_file file = {0};
    struct gguf_file *gguf = NULL;
    enum result result = file_map(path, &file, &assets->created_unix_s, error);
    if (result != RESULT_OK)
        goto out;
    result = gguf_file_open(file.bytes, file.byte_count, &gguf, error);
    if (result != RESULT_OK)
        goto out;
    result = assets_read(gguf, options, assets, error);
out:
    gguf_file_close(gguf);
    if (file.bytes)
        munmap(file.bytes, file.byte_count);
    if (result != RESULT_OK)
        model_assets_close(assets);
    return result;
}

void model_assets_close(struct model_assets *assets)
{
    tokenizer_close(assets->tokenizer);
    if (assets->chat_template)
        chat_template_close(assets->chat_template);
    free(assets->bos_text);
    free(assets->eos_text);
    *assets = (struct model_assets){0};
}
