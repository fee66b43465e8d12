/*
 * Reads the checkpoint (gguf_assets.c or folder_assets.c) and applies the operator's options.
 *
 * A checkpoint without a chat template is served (chat requests then get a clear 400); one whose
 * tokenizer or template cannot be read is refused, because a guess gives wrong answers that look
 * right.
 */
#include "frontend/assets/model_assets.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "frontend/assets/adapter_set.h"
#include "frontend/assets/checkpoint_size.h"
#include "frontend/assets/folder_assets.h"
#include "frontend/assets/gguf_assets.h"
#include "frontend/assets/pooling_assets.h"
#include "frontend/assets/speech_assets.h"
#include "frontend/assets/vision_assets.h"
#include "frontend/base/shoal_version.h"
#include "frontend/prompt/generic_tools.h"
#include "proto/checkpoint_files.h"
#include "proto/drafter_kind.h"
#include "proto/mapped_file.h"
#include "proto/must.h"

/* A vocabulary may be filled up to a round number of ids, which differs between sizes of a model. */
#define FILLING_TOKENS 128u

/* The name is used in JSON, URLs and logs. */
static bool is_name_char(char c)
{
    return c > 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* "/models/SmolLM2-135M.gguf", or the directory "/models/SmolLM2-135M/" -> "SmolLM2-135M" */
static void name_from_path(const char *path, char *name, size_t name_bytes)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    size_t length = end - start;
    if (length > 5 && strncmp(path + end - 5, ".gguf", 5) == 0)
        length -= 5;
    if (length >= name_bytes)
        length = name_bytes - 1;
    for (size_t i = 0; i < length; i++)
        name[i] = is_name_char(path[start + i]) ? path[start + i] : '-';
    name[length] = '\0';
}

/* Resolves "." and ".." to the names of the directories. */
static void name_from_given(const char *path, char *name, size_t name_bytes)
{
    name_from_path(path, name, name_bytes);
    char *real = strspn(name, "./") == strlen(name) ? realpath(path, NULL) : NULL;
    if (real)
        name_from_path(real, name, name_bytes);
    free(real);
}

/* Ignores defaults of a checkpoint that no request could ask for. */
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

/* Reads the template from the operator's file. */
static enum result template_read(const char *path, struct chat_template **chat_template,
                                 struct error_text *error)
{
    struct error_text reason;
    struct mapped_file file;
    enum result result = mapped_file_open(AT_FDCWD, path, &file, &reason);
    if (result != RESULT_OK)
        return error_set(error, result == RESULT_NOT_FOUND ? RESULT_IO : result,
                         "cannot open %.150s: %s", path, reason.text);
    result = chat_template_open(file.bytes, file.byte_count, chat_template, error);
    mapped_file_close(&file);
    return result;
}

/* Reads a GGUF file or a directory. */
static enum result checkpoint_read(const char *path, bool with_template,
                                   struct checkpoint_assets *checkpoint, struct error_text *error)
{
    struct error_text reason;
    int folder_fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (folder_fd < 0)
        return gguf_assets_read(path, with_template, checkpoint, error);
    enum result result = folder_assets_read(folder_fd, with_template, checkpoint, &reason);
    close(folder_fd);
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, result, "%.100s: %.150s", path, reason.text);
}

static enum result formats_choose(const struct reply_format_names *names,
                                  struct model_assets *assets, struct error_text *error)
{
    size_t source_bytes = 0;
    const char *source = NULL;
    if (assets->chat_template)
        source = chat_template_source(assets->chat_template, &source_bytes);
    enum result result =
        reply_formats_choose(&assets->formats, names, source, source_bytes, assets->tokenizer);
    bool automatic = !names->tools || strcmp(names->tools, "auto") == 0;
    if (result == RESULT_OK && automatic && !assets->formats.tools && assets->chat_template &&
        generic_tools_needed(assets->chat_template)) {
        const struct reply_format_names generic = {names->reasoning, "generic"};
        reply_formats_fini(&assets->formats);
        result = reply_formats_choose(&assets->formats, &generic, source, source_bytes,
                                      assets->tokenizer);
    }
    return result == RESULT_OK ? RESULT_OK : error_set(error, result, "out of memory");
}

/* Compares the tokens of two vocabularies. The longer one may have ids that fill its tables. */
static enum result same_tokens(const struct tokenizer *one, const struct tokenizer *other,
                               struct error_text *error)
{
    uint32_t sizes[2] = {tokenizer_vocab_tokens(one), tokenizer_vocab_tokens(other)};
    uint32_t shared = sizes[0] < sizes[1] ? sizes[0] : sizes[1];
    if (sizes[0] - shared + sizes[1] - shared > FILLING_TOKENS)
        return error_set(error, RESULT_INVALID, "it has %u tokens and the model %u", sizes[1],
                         sizes[0]);
    for (uint32_t id = 0; id < shared; id++) {
        const char *texts[2];
        size_t bytes[2];
        tokenizer_token_bytes(one, id, &texts[0], &bytes[0]);
        tokenizer_token_bytes(other, id, &texts[1], &bytes[1]);
        if (bytes[0] != bytes[1] || memcmp(texts[0], texts[1], bytes[0]) != 0 ||
            tokenizer_is_special(one, id) != tokenizer_is_special(other, id))
            return error_set(error, RESULT_INVALID, "its token %u is another than the model's", id);
    }
    return RESULT_OK;
}

/* A draft model proposes ids, so it must have the model's vocabulary. A drafter that reads the model's inner
 * states has none of its own; the worker compares its numbers of tokens. */
static enum result draft_check(const char *path, const struct tokenizer *tokenizer,
                               struct error_text *error)
{
    struct checkpoint_assets draft = {.tokenizer = NULL};
    struct error_text reason = {""};
    if (drafter_kind_at(path) != DRAFTER_MODEL)
        return RESULT_OK;
    enum result result = checkpoint_read(path, false, &draft, &reason);
    if (result == RESULT_OK)
        result = same_tokens(tokenizer, draft.tokenizer, &reason);
    tokenizer_close(draft.tokenizer);
    return result == RESULT_OK
               ? RESULT_OK
               : error_set(error, result, "--draft-model %.100s: %.140s", path, reason.text);
}

/* The vision part is in the directory, or in the projector file. */
static void vision_open(const struct model_assets_options *options, struct model_assets *assets)
{
    assets->vision =
        options->mmproj
            ? vision_assets_open_mmproj(options->path, options->mmproj, assets->chat_template,
                                        assets->tokenizer)
            : vision_assets_open(options->path, assets->chat_template, assets->tokenizer);
    if (!assets->vision)
        return;
    assets->vision->budget.most_bytes = options->image_bytes;
    if (options->image_key) {
        image_processor_set_key(&assets->vision->processor, options->image_key);
        audio_processor_set_key(&assets->vision->audio, options->image_key);
    }
}

static enum result speech_open(const struct model_assets_options *options,
                               struct model_assets *assets, struct error_text *error)
{
    struct error_text reason = {""};
    enum result result = speech_assets_open(options->path, assets->tokenizer, options->image_key,
                                            &assets->speech, &reason);
    if (assets->speech)
        assets->speech->budget.most_bytes = options->image_bytes;
    return result == RESULT_OK
               ? RESULT_OK
               : error_set(error, result, "%.100s: %.150s", options->path, reason.text);
}

static enum result assets_read(const struct model_assets_options *options,
                               struct model_assets *assets, struct error_text *error)
{
    const char *template_path = options->chat_template_path;
    struct checkpoint_assets checkpoint = {.sampling = {.temperature = NAN,
                                                        .top_p = NAN,
                                                        .min_p = NAN,
                                                        .repetition_penalty = NAN,
                                                        .top_k = UINT32_MAX}};
    enum result result = checkpoint_read(options->path, !template_path, &checkpoint, error);
    assets->tokenizer = checkpoint.tokenizer;
    assets->chat_template = checkpoint.chat_template;
    assets->sampling = checkpoint.sampling;
    assets->media = options->media;
    assets->documents = options->documents;
    strcpy(assets->family, checkpoint.family);
    assets->file_bytes = checkpoint_size_read(options->path);
    assets->context_tokens = checkpoint.context_tokens;
    assets->classifies = checkpoint.classifies;
    assets->created_unix_s = checkpoint.created_unix_s;
    if (result == RESULT_OK && template_path)
        result = template_read(template_path, &assets->chat_template, error);
    if (result == RESULT_OK && options->draft_path)
        result = draft_check(options->draft_path, assets->tokenizer, error);
    if (result == RESULT_OK)
        result = formats_choose(&options->format_names, assets, error);
    if (result != RESULT_OK)
        return result;
    if (assets->chat_template)
        assets->call_form = call_form_find(assets->chat_template);
    if (options->pooling != POOLING_OFF)
        result = pooling_assets_open(options->path, &assets->pools, error);
    if (result != RESULT_OK)
        return result;
    assets->pooling = options->pooling;
    result = speech_open(options, assets, error);
    if (result != RESULT_OK)
        return result;
    vision_open(options, assets);
    uint32_t limit = options->context_limit > 0 ? options->context_limit : LIMIT_CONTEXT_TOKENS;
    if (assets->context_tokens > limit)
        assets->context_tokens = limit;
    assets->max_kv_tokens = options->max_kv_tokens;
    assets->stop_id_count = tokenizer_end_tokens(assets->tokenizer, assets->stop_ids);
    assets->bos_text = token_text(assets->tokenizer, tokenizer_bos_token(assets->tokenizer));
    assets->eos_text = token_text(assets->tokenizer, tokenizer_eos_token(assets->tokenizer));
    sampling_sift(&assets->sampling);
    return RESULT_OK;
}

/* FNV-1a of the program's version and of size, modification time and name of each file. Device and
 * inode, the first two fields of a line, differ between copies. */
static enum result fingerprint_make(const char *path, const char *mmproj, char fingerprint[24],
                                    struct error_text *error)
{
    char *files = NULL;
    enum result result = checkpoint_files_read(path, mmproj, &files, error);
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *at = SHOAL_VERSION; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    unsigned field = 0;
    for (const char *at = files ? files : ""; *at; at++) {
        field = *at == '\n' ? 0 : field + (*at == ' ');
        if (field >= 2)
            hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    }
    free(files);
    snprintf(fingerprint, 24, "b%016llx", (unsigned long long)hash);
    return result;
}

static enum result name_check(const char *name, struct error_text *error)
{
    if (strlen(name) >= sizeof((struct model_assets *)NULL)->model_id)
        return error_set(error, RESULT_TOO_LARGE, "the served model name is too long");
    for (const char *at = name; *at; at++) {
        if (!is_name_char(*at))
            return error_set(error, RESULT_INVALID,
                             "the served model name may hold printable ASCII only");
    }
    return RESULT_OK;
}

bool model_assets_names_match(const char *own, const char *name)
{
    const char *colon = strchr(own, ':');
    size_t stem = colon ? (size_t)(colon - own) + 1 : 0;
    if (!colon || !memchr(own, '/', stem))
        return strcmp(own, name) == 0;
    return strncmp(own, name, stem) == 0 && strcasecmp(own + stem, name + stem) == 0;
}

bool model_assets_has_own_name(const struct model_assets *assets, const char *name)
{
    if (strcmp(name, assets->model_id) == 0)
        return true;
    for (uint32_t i = 0; i < assets->name_count; i++) {
        if (model_assets_names_match(assets->names[i], name))
            return true;
    }
    return false;
}

bool model_assets_has_name(const struct model_assets *assets, const char *name)
{
    return assets->any_name || model_assets_has_own_name(assets, name) ||
           adapter_set_has(assets->adapters, name);
}

/* A name of both could not choose between them. */
static enum result adapters_check(const struct model_assets *assets, struct error_text *error)
{
    for (uint32_t i = 0; i < adapter_set_count(assets->adapters); i++) {
        const char *name = adapter_set_at(assets->adapters, i)->name;
        if (model_assets_has_own_name(assets, name))
            return error_set(error, RESULT_INVALID, "--lora %.100s: the model itself has this name",
                             name);
    }
    return RESULT_OK;
}

enum result model_assets_open(const struct model_assets_options *options,
                              struct model_assets *assets, struct error_text *error)
{
    const char *path = options->path;
    *assets = (struct model_assets){.names = options->served_names,
                                    .name_count = options->served_name_count,
                                    .any_name = options->any_name,
                                    .adapters = options->adapters};
    if (strlen(path) >= sizeof assets->path)
        return error_set(error, RESULT_TOO_LARGE, "the model's path is too long");
    for (uint32_t i = 0; i < options->served_name_count; i++) {
        enum result result = name_check(options->served_names[i], error);
        if (result != RESULT_OK)
            return result;
    }
    strcpy(assets->path, path);
    if (options->served_name_count > 0)
        strcpy(assets->model_id, options->served_names[0]);
    else
        name_from_given(path, assets->model_id, sizeof assets->model_id);
    enum result result = adapters_check(assets, error);
    if (result != RESULT_OK)
        return result;
    assets->reranks = options->reranks || strcasestr(assets->model_id, "rerank") != NULL;
    result = assets_read(options, assets, error);
    if (result == RESULT_OK)
        result = fingerprint_make(path, options->mmproj, assets->fingerprint, error);
    if (result != RESULT_OK)
        model_assets_close(assets);
    return result;
}

void model_assets_close(struct model_assets *assets)
{
    tokenizer_close(assets->tokenizer);
    if (assets->chat_template)
        chat_template_close(assets->chat_template);
    reply_formats_fini(&assets->formats);
    pooling_assets_close(assets->pools);
    free(assets->vision);
    free(assets->speech);
    free(assets->bos_text);
    free(assets->eos_text);
    *assets = (struct model_assets){0};
}
