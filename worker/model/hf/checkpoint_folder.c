/*
 * Maps the files of one Hugging Face folder and makes one table of their tensors.
 *
 * Files are opened relative to the folder's descriptor, each once. Links are followed, because
 * Hugging Face's cache keeps the files elsewhere. If there are several files, each tensor of the
 * index must be in the file that the index names, and no tensor may be in two files. A tensor that
 * the index leaves out is still a tensor of the checkpoint: the plan uses it or refuses it.
 *
 * The fingerprint covers all files: sizes are added up, times are the latest, and the hash covers
 * everything except the weights, and which file each tensor is in.
 *
 * Weights in pickles (pytorch_model.bin) are not read, since pickles are programs.
 */
#include "worker/model/hf/checkpoint_folder.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/hf_config.h"
#include "proto/mapped_file.h"
#include "proto/must.h"
#include "proto/safetensors_file.h"
#include "worker/model/hf/checkpoint_quantization.h"
#include "worker/model/hf/shard_index.h"
#include "worker/plan/content_hash.h"

#define CONFIG_FILE  "config.json"
#define INDEX_FILE   "model.safetensors.index.json"
#define WEIGHTS_FILE "model.safetensors"

struct shard {
    struct shard_name name;
    struct mapped_file file;
    struct safetensors_file *tensors;
};

struct checkpoint_folder {
    struct mapped_file config_file;
    struct json_value config;
    struct mapped_file index_file; /* closed if there is none */
    struct shard_index index;
    uint32_t shard_count;
    struct shard *shards;
    struct tensor_table *table;
};

static enum result open_config(int folder_fd, const struct opened_files *opened,
                               struct checkpoint_folder *folder, struct error_text *error)
{
    struct error_text reason;
    enum result result =
        mapped_file_open_of(opened, folder_fd, CONFIG_FILE, &folder->config_file, &reason);
    if (result == RESULT_NOT_FOUND)
        return error_set(error, RESULT_INVALID, "the folder has no " CONFIG_FILE);
    if (result == RESULT_OK)
        result = json_value_open(folder->config_file.bytes, folder->config_file.byte_count,
                                 LIMIT_CONFIG_BYTES, &folder->config, &reason);
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, result, CONFIG_FILE ": %s", reason.text);
}

static enum result open_shard(int folder_fd, const struct opened_files *opened, struct shard *shard,
                              struct error_text *error)
{
    struct error_text reason;
    enum result result =
        mapped_file_open_of(opened, folder_fd, shard->name.text, &shard->file, &reason);
    if (result == RESULT_OK)
        result = safetensors_file_open(shard->file.bytes, shard->file.byte_count, &shard->tensors,
                                       &reason);
    if (result == RESULT_NOT_FOUND)
        result = RESULT_INVALID;
    return result == RESULT_OK
               ? RESULT_OK
               : error_set(error, result, "%.80s: %s", shard->name.text, reason.text);
}

/* Checks that every tensor is in the file that the index names. */
static enum result check_index(const struct checkpoint_folder *folder, struct error_text *error)
{
    struct shard_line line;
    for (struct json_reader at = shard_index_lines(&folder->index);
         shard_index_next(&folder->index, &at, &line);) {
        const struct shard *shard = &folder->shards[line.shard];
        if (!safetensors_file_find_tensor(shard->tensors, line.name))
            return error_set(error, RESULT_CORRUPT,
                             INDEX_FILE ": tensor %.80s is not in %.60s as it says", line.name,
                             shard->name.text);
    }
    return RESULT_OK;
}

/* Lists the files with weights: the single one, or those of the index. */
static enum result find_shards(int folder_fd, const struct opened_files *opened, bool single,
                               struct checkpoint_folder *folder, struct error_text *error)
{
    struct error_text reason;
    enum result result = RESULT_OK;
    if (!single) {
        result = mapped_file_open_of(opened, folder_fd, INDEX_FILE, &folder->index_file, &reason);
        if (result == RESULT_NOT_FOUND)
            return error_set(error, RESULT_INVALID,
                             "the folder has neither " WEIGHTS_FILE " nor " INDEX_FILE);
        if (result == RESULT_OK)
            result = shard_index_open(folder->index_file.bytes, folder->index_file.byte_count,
                                      &folder->index, &reason);
        if (result != RESULT_OK)
            return error_set(error, result, INDEX_FILE ": %s", reason.text);
    }
    folder->shard_count = single ? 1 : folder->index.shard_count;
    folder->shards = calloc(folder->shard_count, sizeof *folder->shards);
    if (!folder->shards)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the checkpoint's files");
    if (single)
        snprintf(folder->shards[0].name.text, SHARD_NAME_BYTES, "%s", WEIGHTS_FILE);
    for (uint32_t i = 0; !single && i < folder->shard_count; i++)
        folder->shards[i].name = folder->index.shards[i];
    return RESULT_OK;
}

static enum result make_table(struct checkpoint_folder *folder, struct error_text *error)
{
    size_t count = 0;
    for (uint32_t i = 0; i < folder->shard_count; i++)
        count += safetensors_file_tensor_count(folder->shards[i].tensors);
    if (count > LIMIT_SAFETENSORS_TENSORS)
        return error_set(error, RESULT_TOO_LARGE, "%zu tensors, over %u", count,
                         LIMIT_SAFETENSORS_TENSORS);
    folder->table = tensor_table_create(count);
    if (!folder->table)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the tensor table");
    for (uint32_t i = 0; i < folder->shard_count; i++)
        tensor_table_add_safetensors(folder->table, folder->shards[i].tensors,
                                     folder->shards[i].name.text);
    enum result result = tensor_table_finish(folder->table, error);
    return result == RESULT_OK ? checkpoint_quantization_apply(folder->config, folder->table, error)
                               : result;
}

static bool has_single_file(int folder_fd, const struct opened_files *opened)
{
    struct error_text reason;
    struct mapped_file file;
    bool there =
        mapped_file_open_of(opened, folder_fd, WEIGHTS_FILE, &file, &reason) != RESULT_NOT_FOUND;
    mapped_file_close(&file);
    return there;
}

static enum result open_files(int folder_fd, const struct opened_files *opened,
                              struct checkpoint_folder *folder, struct error_text *error)
{
    enum result result = open_config(folder_fd, opened, folder, error);
    if (result != RESULT_OK)
        return result;
    bool single = has_single_file(folder_fd, opened);
    result = find_shards(folder_fd, opened, single, folder, error);
    for (uint32_t i = 0; i < folder->shard_count && result == RESULT_OK; i++)
        result = open_shard(folder_fd, opened, &folder->shards[i], error);
    if (result == RESULT_OK && !single)
        result = check_index(folder, error);
    return result == RESULT_OK ? make_table(folder, error) : result;
}

enum result checkpoint_folder_open(int folder_fd, const struct opened_files *opened,
                                   struct checkpoint_folder **folder, struct error_text *error)
{
    *folder = NULL;
    struct checkpoint_folder *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory");
    enum result result = open_files(folder_fd, opened, made, error);
    if (result == RESULT_OK)
        *folder = made;
    else
        checkpoint_folder_close(made);
    return result;
}

void checkpoint_folder_close(struct checkpoint_folder *folder)
{
    if (!folder)
        return;
    tensor_table_destroy(folder->table);
    for (uint32_t i = 0; folder->shards && i < folder->shard_count; i++) {
        safetensors_file_close(folder->shards[i].tensors);
        mapped_file_close(&folder->shards[i].file);
    }
    free(folder->shards);
    shard_index_close(&folder->index);
    mapped_file_close(&folder->index_file);
    mapped_file_close(&folder->config_file);
    free(folder);
}

struct json_value checkpoint_folder_config(const struct checkpoint_folder *folder)
{
    return hf_config_main(folder->config);
}

const struct tensor_table *checkpoint_folder_tensors(const struct checkpoint_folder *folder)
{
    return folder->table;
}

/* --- the fingerprint -------------------------------------------------------------------------- */

/* Adds a file whose first `hashed_bytes` bytes are not weights. */
static void add_file(struct model_fingerprint *sum, const struct mapped_file *file,
                     size_t hashed_bytes)
{
    uint64_t facts[] = {file->byte_count, (uint64_t)file->modified_ns, (uint64_t)file->changed_ns,
                        file->device, file->inode};
    sum->file_bytes += file->byte_count;
    sum->modified_ns = file->modified_ns > sum->modified_ns ? file->modified_ns : sum->modified_ns;
    sum->changed_ns = file->changed_ns > sum->changed_ns ? file->changed_ns : sum->changed_ns;
    sum->device = file->device;
    sum->inode = file->inode;
    sum->header_hash = content_hash(facts, sizeof facts, sum->header_hash);
    sum->header_hash = content_hash(file->bytes, hashed_bytes, sum->header_hash);
}

struct model_fingerprint checkpoint_folder_fingerprint(const struct checkpoint_folder *folder)
{
    struct model_fingerprint sum = {0};
    add_file(&sum, &folder->config_file, folder->config_file.byte_count);
    if (folder->index_file.bytes)
        add_file(&sum, &folder->index_file, folder->index_file.byte_count);
    for (uint32_t i = 0; i < folder->shard_count; i++) {
        const struct shard *shard = &folder->shards[i];
        add_file(&sum, &shard->file, safetensors_file_header_bytes(shard->tensors));
    }
    return sum;
}
