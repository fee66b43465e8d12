/*
 * The index is read twice: first for the file names, so that the files can be opened, then to check
 * every entry against the file that it names.
 *
 * An entry's file name becomes a path, so only a plain name is accepted: no slash, no leading dot,
 * ending in ".safetensors". So an index cannot point outside its folder or to itself. File names
 * are kept sorted, so that a hostile index of 250,000 entries costs one binary search for each.
 */
#include "worker/model/hf/shard_index.h"

#include <stdlib.h>
#include <string.h>

#define ENDING ".safetensors"

static bool is_plain(const char *name)
{
    size_t length = strlen(name), ending = strlen(ENDING);
    for (const char *c = name; *c; c++)
        if (*c == '/' || (unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    return name[0] != '.' && length > ending && strcmp(name + length - ending, ENDING) == 0;
}

/* Finds the name's position among the sorted ones, or the position to insert it at. */
static uint32_t place_of(const struct shard_index *index, const char *name, bool *there)
{
    uint32_t low = 0, high = index->shard_count;
    *there = false;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        int order = strcmp(index->shards[middle].text, name);
        if (order == 0) {
            *there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum result add_shard(struct shard_index *index, const char *name, struct error_text *error)
{
    bool there;
    uint32_t place = place_of(index, name, &there);
    if (there)
        return RESULT_OK;
    if (!is_plain(name))
        return error_set(error, RESULT_INVALID,
                         "\"%.80s\" is not the plain name of a safetensors file", name);
    if (index->shard_count == LIMIT_SAFETENSORS_SHARDS)
        return error_set(error, RESULT_TOO_LARGE, "it names more than %u files",
                         LIMIT_SAFETENSORS_SHARDS);
    memmove(index->shards + place + 1, index->shards + place,
            (index->shard_count - place) * sizeof *index->shards);
    memcpy(index->shards[place].text, name, strlen(name) + 1);
    index->shard_count++;
    return RESULT_OK;
}

/* Reads the next entry's tensor and file; false at the end or if a name is not a short string. */
static bool read_line(struct json_reader *at, char *name, struct shard_name *shard)
{
    size_t bytes;
    if (!json_reader_next_member(at, name, LIMIT_GGUF_NAME_BYTES, &bytes))
        return false;
    name[bytes] = '\0';
    bytes = json_reader_string(at, shard->text, sizeof shard->text - 1);
    at->failed |= memchr(shard->text, '\0', bytes) != NULL;
    shard->text[bytes] = '\0';
    return !at->failed;
}

static enum result read_shards(struct shard_index *index, struct error_text *error)
{
    char name[LIMIT_GGUF_NAME_BYTES + 1];
    struct shard_name shard;
    struct json_reader at = shard_index_lines(index);
    uint32_t lines = 0;
    for (; read_line(&at, name, &shard); lines++) {
        if (lines == LIMIT_SAFETENSORS_TENSORS)
            return error_set(error, RESULT_TOO_LARGE, "it lists more than %u tensors",
                             LIMIT_SAFETENSORS_TENSORS);
        enum result result = add_shard(index, shard.text, error);
        if (result != RESULT_OK)
            return result;
    }
    if (at.failed)
        return error_set(error, RESULT_INVALID, "weight_map is malformed behind line %u", lines);
    return lines > 0 ? RESULT_OK : error_set(error, RESULT_INVALID, "weight_map is empty");
}

enum result shard_index_open(const void *json, size_t json_bytes, struct shard_index *index,
                             struct error_text *error)
{
    struct json_value root;
    *index = (struct shard_index){0};
    enum result result =
        json_value_open(json, json_bytes, LIMIT_SAFETENSORS_HEADER_BYTES, &root, error);
    if (result != RESULT_OK)
        return result;
    index->weight_map = json_value_member(root, "weight_map");
    if (json_value_type(index->weight_map) != JSON_OBJECT)
        return error_set(error, RESULT_INVALID, "it has no object weight_map");
    index->shards = calloc(LIMIT_SAFETENSORS_SHARDS, sizeof *index->shards);
    if (!index->shards)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for the names of files");
    result = read_shards(index, error);
    if (result != RESULT_OK)
        shard_index_close(index);
    return result;
}

void shard_index_close(struct shard_index *index)
{
    free(index->shards);
    *index = (struct shard_index){0};
}

struct json_reader shard_index_lines(const struct shard_index *index)
{
    struct json_reader at = json_reader_open(index->weight_map.bytes, index->weight_map.byte_count);
    json_reader_enter(&at, '{');
    return at;
}

bool shard_index_next(const struct shard_index *index, struct json_reader *at,
                      struct shard_line *line)
{
    struct shard_name shard;
    bool there = false;
    if (read_line(at, line->name, &shard))
        line->shard = place_of(index, shard.text, &there);
    return there;
}
