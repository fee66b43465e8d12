/*
 * Reads model.safetensors.index.json: which of several safetensors files holds which tensor.
 */
#ifndef SHOAL_WORKER_MODEL_HF_SHARD_INDEX_H
#define SHOAL_WORKER_MODEL_HF_SHARD_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/json_value.h"
#include "proto/limits.h"
#include "proto/result.h"

#define SHARD_NAME_BYTES 256u /* maximum length of a file name */

struct shard_name {
    char text[SHARD_NAME_BYTES];
};

struct shard_index {
    struct json_value weight_map;
    uint32_t shard_count;
    struct shard_name *shards; /* sorted, without duplicates */
};

/* `json` must outlive the index. The shards are base names in the index's own folder that end in
 * ".safetensors". RESULT_INVALID, RESULT_TOO_LARGE or RESULT_CORRUPT with the reason. */
enum result shard_index_open(const void *json, size_t json_bytes, struct shard_index *index,
                             struct error_text *error) RESULT_CHECKED;
void shard_index_close(struct shard_index *index);

/* One entry of the index: `name` is a tensor, `shard` an index into index->shards. */
struct shard_line {
    char name[LIMIT_GGUF_NAME_BYTES + 1];
    uint32_t shard;
};
/* for (struct json_reader at = shard_index_lines(index); shard_index_next(index, &at, &line);) */
struct json_reader shard_index_lines(const struct shard_index *index);
bool shard_index_next(const struct shard_index *index, struct json_reader *at,
                      struct shard_line *line);

#endif
