/*
 * The tensors of a checkpoint of any format and any number of files: one table, searched by the
 * names in the files. Data stays in the mapped files; the table does not own it.
 */
#ifndef SHOAL_WORKER_PLAN_TENSOR_TABLE_H
#define SHOAL_WORKER_PLAN_TENSOR_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/gguf_file.h"
#include "proto/result.h"
#include "proto/safetensors_file.h"
#include "worker/plan/weight_source.h"

#define TENSOR_DIMENSIONS_MAX LIMIT_SAFETENSORS_DIMENSIONS

struct checkpoint_tensor {
    struct gguf_string name;
    const char *file;      /* the file that has it, if there are several; else NULL */
    const char *type_name; /* as the file spells it */
    bool readable;         /* false: a type that no weight may have; `type` is undefined then */
    enum ggml_type type;   /* of the rows that backends get */
    uint64_t dimensions[TENSOR_DIMENSIONS_MAX]; /* fastest first; unused ones are 1 */
    const uint8_t *data;
    uint64_t data_bytes;
    bool part;                   /* belongs to another tensor, such as its scales */
    struct weight_source source; /* if it is not stored as rows of `type` */
};

struct tensor_table; /* opaque */

/* Empty, for at most `capacity` tensors. NULL when out of memory. */
struct tensor_table *tensor_table_create(size_t capacity);
void tensor_table_destroy(struct tensor_table *table);

/* Adds all tensors of a file, whose index and bytes outlive the table. must() the capacity. `name`:
 * checkpoint_tensor.file. */
void tensor_table_add_gguf(struct tensor_table *table, const struct gguf_file *file,
                           const char *name);
void tensor_table_add_safetensors(struct tensor_table *table, const struct safetensors_file *file,
                                  const char *name);

/* After the last addition: RESULT_CORRUPT when a name occurs twice. */
enum result tensor_table_finish(struct tensor_table *table,
                                struct error_text *error) RESULT_CHECKED;

/* For rows that are joined with others. The name may become shorter; tensor_table_finish() must be
 * called afterwards. */
struct checkpoint_tensor *tensor_table_edit(struct tensor_table *table, uint32_t index);
/* Replaces the last `cut` bytes of a row's name; tensor_table_finish() as above. The table owns the
 * new name. RESULT_OUT_OF_MEMORY is the only error. */
enum result tensor_table_rename(struct tensor_table *table, uint32_t index, size_t cut,
                                const char *ending, struct error_text *error) RESULT_CHECKED;

uint32_t tensor_table_count(const struct tensor_table *table);
const struct checkpoint_tensor *tensor_table_at(const struct tensor_table *table, uint32_t index);
/* O(log n). NULL when absent; a tensor's index is its distance from tensor_table_at(table, 0). */
const struct checkpoint_tensor *tensor_table_find(const struct tensor_table *table,
                                                  const char *name);

#endif
