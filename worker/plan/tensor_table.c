/*
 * One kind of row for two file formats.
 *
 * Differences are resolved while rows are added: GGUF lists the fastest dimension first,
 * safetensors last; and only those safetensors types are readable that a backend can read. A tensor
 * of another type stays in the table, so that the error for a weight that needs it can name the
 * type.
 */
#include "worker/plan/tensor_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define NAME_BYTES 256u /* of a tensor with factors beside it */

/* A name that is in no file. */
struct made_name {
    struct made_name *next;
    char text[];
};

struct tensor_table {
    struct made_name *names;
    size_t capacity;
    uint32_t count;
    struct checkpoint_tensor *tensors; /* sorted by name once finished */
};

struct tensor_table *tensor_table_create(size_t capacity)
{
    struct tensor_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->capacity = capacity;
    table->tensors = calloc(capacity + 1, sizeof *table->tensors);
    if (!table->tensors) {
        free(table);
        return NULL;
    }
    return table;
}

void tensor_table_destroy(struct tensor_table *table)
{
    if (!table)
        return;
    while (table->names) {
        struct made_name *name = table->names;
        table->names = name->next;
        free(name);
    }
    free(table->tensors);
    free(table);
}

static struct checkpoint_tensor *new_row(struct tensor_table *table)
{
    must(table->count < table->capacity);
    struct checkpoint_tensor *row = &table->tensors[table->count++];
    for (uint32_t i = 0; i < TENSOR_DIMENSIONS_MAX; i++)
        row->dimensions[i] = 1;
    return row;
}

void tensor_table_add_gguf(struct tensor_table *table, const struct gguf_file *file,
                           const char *name)
{
    for (uint32_t i = 0; i < gguf_file_tensor_count(file); i++) {
        const struct gguf_tensor *tensor = gguf_file_tensor(file, i);
        struct checkpoint_tensor *row = new_row(table);
        row->name = tensor->name;
        row->file = name;
        row->type_name = ggml_type_name(tensor->type);
        row->readable = true;
        row->source = weight_source_of_gguf(tensor);
        row->type = row->source.type;
        memcpy(row->dimensions, tensor->dimensions, sizeof tensor->dimensions);
        row->data = tensor->data;
        row->data_bytes = tensor->data_bytes;
    }
}

static bool readable_type(enum safetensors_type type, enum ggml_type *readable)
{
    switch (type) {
    case SAFETENSORS_F32: *readable = GGML_F32; return true;
    case SAFETENSORS_F16: *readable = GGML_F16; return true;
    case SAFETENSORS_BF16: *readable = GGML_BF16; return true;
    default: return false;
    }
}

void tensor_table_add_safetensors(struct tensor_table *table, const struct safetensors_file *file,
                                  const char *name)
{
    for (uint32_t i = 0; i < safetensors_file_tensor_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_file_tensor(file, i);
        struct checkpoint_tensor *row = new_row(table);
        row->name = (struct gguf_string){tensor->name, strlen(tensor->name)};
        row->file = name;
        row->type_name = safetensors_type_name(tensor->type);
        row->readable = readable_type(tensor->type, &row->type);
        for (uint32_t d = 0; d < tensor->dimension_count; d++)
            row->dimensions[d] = tensor->dimensions[tensor->dimension_count - 1 - d];
        row->data = tensor->data;
        row->data_bytes = tensor->data_bytes;
    }
}

static int name_compare(const void *a, const void *b)
{
    struct gguf_string left = ((const struct checkpoint_tensor *)a)->name;
    struct gguf_string right = ((const struct checkpoint_tensor *)b)->name;
    size_t shorter = left.length < right.length ? left.length : right.length;
    int order = memcmp(left.bytes, right.bytes, shorter);
    return order != 0 ? order : (left.length > right.length) - (left.length < right.length);
}

/* The tensor that is named as `tensor` without its last `cut` bytes and with `ending`, or NULL. */
static struct checkpoint_tensor *find_beside(struct tensor_table *table,
                                             const struct checkpoint_tensor *tensor, size_t cut,
                                             const char *ending)
{
    char name[NAME_BYTES];
    int length = snprintf(name, sizeof name, "%.*s%s", (int)(tensor->name.length - cut),
                          tensor->name.bytes, ending);
    if (length < 0 || (size_t)length >= sizeof name)
        return NULL;
    struct checkpoint_tensor wanted = {.name = {name, (size_t)length}};
    return bsearch(&wanted, table->tensors, table->count, sizeof wanted, name_compare);
}

/* Factors of one matrix, or of each of a stack: finite, and none below zero. */
static bool factors_fit(const struct checkpoint_tensor *tensor,
                        const struct checkpoint_tensor *factors)
{
    bool one = factors->dimensions[0] == 1 || factors->dimensions[0] == tensor->dimensions[2];
    bool fit = factors->type == GGML_F32 && factors->source.layout == WEIGHT_IN_PLACE && one;
    for (uint32_t d = 1; d < TENSOR_DIMENSIONS_MAX; d++)
        fit = fit && factors->dimensions[d] == 1;
    for (uint64_t i = 0; fit && i < factors->dimensions[0]; i++) {
        float factor;
        memcpy(&factor, factors->data + sizeof factor * i, sizeof factor);
        fit = isfinite(factor) && factor >= 0.0f;
    }
    return fit;
}

/* GGUF's NVFP4 has factors in a tensor of its own: <name>.scale for <name>.weight, or
 * <name>.weight.scale. */
static enum result join_factors(struct tensor_table *table, struct error_text *error)
{
    static const char ending[] = ".weight";
    for (uint32_t i = 0; i < table->count; i++) {
        struct checkpoint_tensor *tensor = &table->tensors[i], *factors;
        size_t cut = strlen(ending);
        if (tensor->source.layout != WEIGHT_NVFP4_64 || tensor->name.length <= cut)
            continue;
        factors = find_beside(table, tensor, cut, ".scale");
        factors = factors ? factors : find_beside(table, tensor, 0, ".scale");
        if (!factors)
            continue;
        if (!factors_fit(tensor, factors))
            return error_set(error, RESULT_INVALID,
                             "tensor %.*s is no finite F32 number of at least 0 for each matrix",
                             (int)(factors->name.length < 80 ? factors->name.length : 80),
                             factors->name.bytes);
        factors->part = true;
        tensor->source.table = factors->data;
        uint64_t matrices = factors->dimensions[0] == 1 ? 1 : tensor->dimensions[2];
        tensor->source.block_rows =
            tensor->data_bytes / tensor->source.row_bytes / (matrices > 0 ? matrices : 1);
    }
    return RESULT_OK;
}

enum result tensor_table_finish(struct tensor_table *table, struct error_text *error)
{
    qsort(table->tensors, table->count, sizeof *table->tensors, name_compare);
    for (uint32_t i = 1; i < table->count; i++) {
        const struct checkpoint_tensor *one = &table->tensors[i - 1], *other = one + 1;
        if (name_compare(one, other) == 0)
            return error_set(error, RESULT_CORRUPT, "tensor %.*s is in both %.60s and %.60s",
                             (int)(one->name.length < 80 ? one->name.length : 80), one->name.bytes,
                             one->file, other->file);
    }
    return join_factors(table, error);
}

struct checkpoint_tensor *tensor_table_edit(struct tensor_table *table, uint32_t index)
{
    must(index < table->count);
    return &table->tensors[index];
}

enum result tensor_table_rename(struct tensor_table *table, uint32_t index, size_t cut,
                                const char *ending, struct error_text *error)
{
    struct checkpoint_tensor *tensor = tensor_table_edit(table, index);
    must(cut <= tensor->name.length);
    size_t kept = tensor->name.length - cut, length = strlen(ending);
    struct made_name *name = malloc(sizeof *name + kept + length + 1);
    if (!name)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a tensor's name");
    memcpy(name->text, tensor->name.bytes, kept);
    memcpy(name->text + kept, ending, length + 1);
    name->next = table->names;
    table->names = name;
    tensor->name = (struct gguf_string){name->text, kept + length};
    return RESULT_OK;
}

uint32_t tensor_table_count(const struct tensor_table *table)
{
    return table->count;
}

const struct checkpoint_tensor *tensor_table_at(const struct tensor_table *table, uint32_t index)
{
    must(index < table->count || (index == 0 && table->count == 0));
    return &table->tensors[index];
}

const struct checkpoint_tensor *tensor_table_find(const struct tensor_table *table,
                                                  const char *name)
{
    struct checkpoint_tensor wanted = {.name = {name, strlen(name)}};
    return bsearch(&wanted, table->tensors, table->count, sizeof wanted, name_compare);
}
