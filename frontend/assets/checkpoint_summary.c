/*
 * Files are mapped and only their headers are touched, so a model of 100 GB takes milliseconds.
 *
 * A folder's quantized weights pack several parameters into one element; their number then stays
 * unknown, and the summary has the element types that are stored.
 */
#include "frontend/assets/checkpoint_summary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/gguf_file.h"
#include "proto/hf_config.h"
#include "proto/json_value.h"
#include "proto/mapped_file.h"
#include "proto/safetensors_file.h"

#define PATH_BYTES   4096u
#define ENDING_BYTES 20u /* "-00001-of-00003.gguf" */

static void type_add(struct checkpoint_summary *summary, const char *name, uint64_t elements,
                     uint64_t bytes)
{
    uint32_t i = 0;
    summary->tensors++;
    summary->elements += elements;
    summary->weight_bytes += bytes;
    while (i < summary->type_count && strcmp(summary->types[i].name, name) != 0)
        i++;
    if (i == SUMMARY_TYPES)
        return;
    if (i == summary->type_count)
        summary->types[summary->type_count++].name = name;
    summary->types[i].elements += elements;
    summary->types[i].bytes += bytes;
}

static int types_compare(const void *one, const void *other)
{
    uint64_t a = ((const struct summary_type *)one)->bytes;
    uint64_t b = ((const struct summary_type *)other)->bytes;
    return a < b ? 1 : a > b ? -1 : 0;
}

static uint64_t element_count(const uint64_t *dimensions, uint32_t count)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < count; i++)
        elements *= dimensions[i]; /* tensors lie in the file, so it is below 2^64 */
    return elements;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

static void string_copy(const struct gguf_file *file, const char *key,
                        char text[SUMMARY_TEXT_BYTES])
{
    struct gguf_string value;
    if (gguf_file_string(file, key, &value) == RESULT_OK)
        snprintf(text, SUMMARY_TEXT_BYTES, "%.*s",
                 (int)(value.length < SUMMARY_TEXT_BYTES ? value.length : SUMMARY_TEXT_BYTES),
                 value.bytes);
}

static void number_copy(const struct gguf_file *file, const char *family, const char *key,
                        uint32_t *number)
{
    char name[2 * SUMMARY_TEXT_BYTES];
    snprintf(name, sizeof name, "%s.%s", family, key);
    (void)gguf_file_u32(file, name, number);
}

static void gguf_describe(const struct gguf_file *file, struct checkpoint_summary *summary)
{
    struct gguf_string value;
    string_copy(file, "general.architecture", summary->family);
    string_copy(file, "general.name", summary->name);
    number_copy(file, summary->family, "context_length", &summary->context_tokens);
    number_copy(file, summary->family, "block_count", &summary->layers);
    number_copy(file, summary->family, "embedding_length", &summary->hidden);
    if (gguf_file_string(file, "tokenizer.chat_template", &value) == RESULT_OK)
        summary->chat_template = strndup(value.bytes, value.length);
}

/* One file; *parts is what it says about its parts, or 1. */
static enum result gguf_part_read(const char *path, bool first, uint32_t *parts,
                                  struct checkpoint_summary *summary, struct error_text *error)
{
    struct mapped_file mapped = {0};
    struct gguf_file *file = NULL;
    struct error_text why;
    enum result result = mapped_file_open(AT_FDCWD, path, &mapped, &why);
    if (result == RESULT_OK)
        result = gguf_file_open(mapped.bytes, mapped.byte_count, &file, &why);
    if (result == RESULT_OK) {
        if (first) {
            gguf_describe(file, summary);
            *parts = 1;
            (void)gguf_file_u32(file, "split.count", parts);
        }
        for (uint32_t i = 0; i < gguf_file_tensor_count(file); i++) {
            const struct gguf_tensor *tensor = gguf_file_tensor(file, i);
            type_add(summary, ggml_type_name(tensor->type),
                     element_count(tensor->dimensions, tensor->dimension_count),
                     tensor->data_bytes);
        }
        summary->files++;
    } else {
        (void)error_set(error, result, "%.120s: %s", path, why.text);
    }
    gguf_file_close(file);
    mapped_file_close(&mapped);
    return result;
}

static enum result gguf_read(const char *path, struct checkpoint_summary *summary,
                             struct error_text *error)
{
    char part[PATH_BYTES];
    size_t length = strlen(path);
    uint32_t parts = 1;
    summary->gguf = true;
    enum result result = gguf_part_read(path, true, &parts, summary, error);
    if (result != RESULT_OK || parts <= 1)
        return result;
    if (parts > LIMIT_GGUF_PARTS || length >= sizeof part || length <= ENDING_BYTES ||
        strncmp(path + length - ENDING_BYTES, "-00001-of-", 10) != 0)
        return error_set(error, RESULT_INVALID, "%.120s is not the first part of a split file",
                         path);
    memcpy(part, path, length + 1);
    for (uint32_t i = 2; i <= parts && result == RESULT_OK; i++) {
        char number[16];
        snprintf(number, sizeof number, "%05u", i);
        memcpy(part + length - ENDING_BYTES + 1, number, 5);
        result = gguf_part_read(part, false, &parts, summary, error);
    }
    return result;
}

/* --- folders ---------------------------------------------------------------------------------- */

static enum result shard_read(int folder_fd, const char *name, struct checkpoint_summary *summary,
                              struct error_text *error)
{
    struct mapped_file mapped = {0};
    struct safetensors_file *file = NULL;
    struct error_text why;
    enum result result = mapped_file_open(folder_fd, name, &mapped, &why);
    if (result == RESULT_OK)
        result = safetensors_file_open(mapped.bytes, mapped.byte_count, &file, &why);
    for (uint32_t i = 0; result == RESULT_OK && i < safetensors_file_tensor_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_file_tensor(file, i);
        type_add(summary, safetensors_type_name(tensor->type),
                 element_count(tensor->dimensions, tensor->dimension_count), tensor->data_bytes);
    }
    summary->files += result == RESULT_OK;
    safetensors_file_close(file);
    mapped_file_close(&mapped);
    return result == RESULT_OK ? RESULT_OK : error_set(error, result, "%.80s: %s", name, why.text);
}

static void config_describe(struct json_value config, struct checkpoint_summary *summary)
{
    struct json_value text = hf_config_text(config), name;
    struct json_value quantization = json_value_member(config, "quantization_config");
    struct error_text ignored;
    (void)json_value_string(json_value_member(config, "model_type"), summary->family,
                            sizeof summary->family);
    struct json_reader at = json_value_elements(json_value_member(config, "architectures"));
    if (json_value_next(&at, &name))
        (void)json_value_string(name, summary->name, sizeof summary->name);
    if (hf_config_context(config, &summary->context_tokens, &ignored) != RESULT_OK)
        summary->context_tokens = 0;
    (void)json_value_u32(json_value_member(text, "num_hidden_layers"), &summary->layers);
    (void)json_value_u32(json_value_member(text, "hidden_size"), &summary->hidden);
    summary->vision = json_value_type(json_value_member(config, "vision_config")) == JSON_OBJECT;
    if (json_value_type(quantization) != JSON_OBJECT) /* MLX */
        quantization = json_value_member(config, "quantization");
    if (json_value_type(quantization) == JSON_OBJECT &&
        json_value_string(json_value_member(quantization, "quant_method"), summary->quantization,
                          sizeof summary->quantization) != RESULT_OK)
        snprintf(summary->quantization, sizeof summary->quantization, "packed");
}

/* The member "chat_template" of a JSON file, if it is a text. */
static void template_member_read(int folder_fd, const char *name,
                                 struct checkpoint_summary *summary)
{
    struct mapped_file file = {0};
    struct json_value root;
    struct error_text ignored;
    if (summary->chat_template || mapped_file_open(folder_fd, name, &file, &ignored) != RESULT_OK)
        return;
    if (json_value_open(file.bytes, file.byte_count, LIMIT_CONFIG_BYTES, &root, &ignored) ==
        RESULT_OK) {
        struct json_value member = json_value_member(root, "chat_template");
        char *text = calloc(1, member.byte_count + 1);
        if (text && json_value_string(member, text, member.byte_count + 1) == RESULT_OK)
            summary->chat_template = text;
        else
            free(text);
    }
    mapped_file_close(&file);
}

static void template_read(int folder_fd, struct checkpoint_summary *summary)
{
    struct mapped_file file = {0};
    struct error_text ignored;
    if (mapped_file_open(folder_fd, "chat_template.jinja", &file, &ignored) == RESULT_OK) {
        summary->chat_template = strndup(file.bytes, file.byte_count);
        mapped_file_close(&file);
    }
    template_member_read(folder_fd, "chat_template.json", summary);
    template_member_read(folder_fd, "tokenizer_config.json", summary);
}

static enum result shards_read(int folder_fd, struct checkpoint_summary *summary,
                               struct error_text *error)
{
    int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    enum result result = RESULT_OK;
    for (const struct dirent *at;
         result == RESULT_OK && folder && (at = readdir(folder)) != NULL;) {
        const char *ending = strrchr(at->d_name, '.');
        if (ending && strcmp(ending, ".safetensors") == 0 &&
            strncmp(at->d_name, "consolidated", 12) != 0 && strncmp(at->d_name, "adapter_", 8) != 0)
            result = shard_read(folder_fd, at->d_name, summary, error);
    }
    if (folder)
        closedir(folder);
    return result;
}

static enum result folder_read(int folder_fd, struct checkpoint_summary *summary,
                               struct error_text *error)
{
    struct mapped_file file = {0};
    struct json_value config;
    struct error_text why;
    enum result result = mapped_file_open(folder_fd, "config.json", &file, &why);
    if (result == RESULT_OK)
        result = json_value_open(file.bytes, file.byte_count, LIMIT_CONFIG_BYTES, &config, &why);
    if (result == RESULT_OK)
        config_describe(config, summary);
    mapped_file_close(&file);
    if (result != RESULT_OK)
        return error_set(error, result, "config.json: %s", why.text);
    template_read(folder_fd, summary);
    return shards_read(folder_fd, summary, error);
}

enum result checkpoint_summary_read(const char *path, struct checkpoint_summary *summary,
                                    struct error_text *error)
{
    *summary = (struct checkpoint_summary){0};
    int folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum result result = RESULT_OK;
    if (folder_fd < 0 && errno != ENOTDIR)
        return error_set(error, RESULT_IO, "%.150s: %s", path, strerror(errno));
    if (folder_fd >= 0) {
        result = folder_read(folder_fd, summary, error);
        close(folder_fd);
    } else {
        result = gguf_read(path, summary, error);
    }
    if (result != RESULT_OK)
        checkpoint_summary_fini(summary);
    else if (summary->type_count > 1)
        qsort(summary->types, summary->type_count, sizeof summary->types[0], types_compare);
    return result;
}

void checkpoint_summary_fini(struct checkpoint_summary *summary)
{
    free(summary->chat_template);
    *summary = (struct checkpoint_summary){0};
}
