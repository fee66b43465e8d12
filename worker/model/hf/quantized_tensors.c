/*
 * Joins several tensors into one matrix. Their shapes are checked against each other here, so that
 * readers of the weight need no bounds checks.
 *
 * Every dimension of scales and biases except the fastest must equal that of the codes; the fastest
 * follows from bits and group. Codes without scales, and scales of another shape or type than the
 * config implies, are errors that name the tensor. No product below can overflow: no tensor is
 * empty, so each dimension is at most the size of its file.
 */
#include "worker/model/hf/quantized_tensors.h"

#include <stdio.h>
#include <string.h>

#include "proto/must.h"

#define NAME QUANTIZED_NAME

struct part_name {
    char text[LIMIT_GGUF_NAME_BYTES + 32];
};

bool quantized_tensors_match(const struct checkpoint_tensor *tensor, const char *type_name,
                             const char *ending)
{
    size_t length = strlen(ending);
    return strcmp(tensor->type_name, type_name) == 0 && tensor->name.length > length &&
           memcmp(tensor->name.bytes + tensor->name.length - length, ending, length) == 0;
}

/* The name with its last `cut` bytes replaced. */
static struct part_name part_name(const struct checkpoint_tensor *tensor, size_t cut,
                                  const char *ending)
{
    struct part_name name;
    snprintf(name.text, sizeof name.text, "%.*s%s", (int)(tensor->name.length - cut),
             tensor->name.bytes, ending);
    return name;
}

struct checkpoint_tensor *quantized_tensors_part(struct tensor_table *table,
                                                 const struct checkpoint_tensor *tensor, size_t cut,
                                                 const char *ending)
{
    const struct checkpoint_tensor *found =
        tensor_table_find(table, part_name(tensor, cut, ending).text);
    if (!found)
        return NULL;
    return tensor_table_edit(table, (uint32_t)(found - tensor_table_at(table, 0)));
}

enum result quantized_tensors_need(struct tensor_table *table,
                                   const struct checkpoint_tensor *tensor, size_t cut,
                                   const char *ending, struct checkpoint_tensor **part,
                                   struct error_text *error)
{
    *part = quantized_tensors_part(table, tensor, cut, ending);
    if (!*part)
        return error_set(error, RESULT_INVALID, "tensor %.*s is quantized, but %.100s is missing",
                         NAME(tensor->name), part_name(tensor, cut, ending).text);
    return RESULT_OK;
}

static enum result check_parts(const struct checkpoint_tensor *codes,
                               const struct checkpoint_tensor *scales, uint64_t columns,
                               uint64_t scale_columns, struct error_text *error)
{
    bool fit = codes->data_bytes > 0 && scales->data_bytes > 0 &&
               scales->dimensions[0] == scale_columns && columns % WEIGHT_SOURCE_BLOCK == 0;
    for (uint32_t d = 1; d < TENSOR_DIMENSIONS_MAX; d++)
        fit &= codes->dimensions[d] == scales->dimensions[d];
    if (!fit)
        return error_set(error, RESULT_INVALID,
                         "tensor %.*s [%llu, %llu] does not fit the [%llu, %llu] of %.*s (fastest "
                         "first)",
                         NAME(scales->name), (unsigned long long)scales->dimensions[0],
                         (unsigned long long)scales->dimensions[1],
                         (unsigned long long)codes->dimensions[0],
                         (unsigned long long)codes->dimensions[1], NAME(codes->name));
    return RESULT_OK;
}

enum result quantized_tensors_check_float(const struct checkpoint_tensor *scales,
                                          struct error_text *error)
{
    bool readable = scales->readable && (scales->type == GGML_F32 || scales->type == GGML_F16 ||
                                         scales->type == GGML_BF16);
    return readable
               ? RESULT_OK
               : error_set(error, RESULT_INVALID, "tensor %.*s is of type %s, not F32, F16 or BF16",
                           NAME(scales->name), scales->type_name);
}

static enum result check_exponents(const struct checkpoint_tensor *scales, struct error_text *error)
{
    return strcmp(scales->type_name, "U8") == 0
               ? RESULT_OK
               : error_set(error, RESULT_INVALID, "tensor %.*s is of type %s, not U8",
                           NAME(scales->name), scales->type_name);
}

/* Turns the row into the matrix that its parts form. */
void quantized_tensors_become(struct checkpoint_tensor *tensor, struct weight_source source,
                              uint64_t columns)
{
    uint64_t rows = tensor->data_bytes / source.row_bytes;
    source.data = tensor->data;
    weight_source_choose_type(&source, rows, columns);
    tensor->dimensions[0] = columns;
    tensor->source = source;
    tensor->type = source.type;
    tensor->readable = true;
}

enum result quantized_tensors_join_mlx(struct tensor_table *table, uint32_t index,
                                       struct mlx_groups groups, struct error_text *error)
{
    struct checkpoint_tensor *codes = tensor_table_edit(table, index), *scales, *biases = NULL;
    size_t cut = strlen("weight");
    uint64_t bits = codes->dimensions[0] <= UINT32_MAX ? codes->dimensions[0] * 32 : 0;
    uint64_t columns = bits / groups.bits;
    enum result result = quantized_tensors_need(table, codes, cut, "scales", &scales, error);
    if (result == RESULT_OK && !groups.fp4)
        result = quantized_tensors_need(table, codes, cut, "biases", &biases, error);
    if (result != RESULT_OK)
        return result;
    if (bits == 0 || columns * groups.bits != bits || columns % groups.group != 0)
        return error_set(error, RESULT_INVALID,
                         "tensor %.*s: rows of %llu words are no groups of %u columns of %u bits",
                         NAME(codes->name), (unsigned long long)codes->dimensions[0], groups.group,
                         groups.bits);
    result = check_parts(codes, scales, columns, columns / groups.group, error);
    if (result == RESULT_OK)
        result = groups.fp4 ? check_exponents(scales, error)
                            : quantized_tensors_check_float(scales, error);
    if (result == RESULT_OK && biases)
        result = check_parts(codes, biases, columns, columns / groups.group, error);
    if (result == RESULT_OK && biases && strcmp(biases->type_name, scales->type_name) != 0)
        result = error_set(error, RESULT_INVALID, "tensor %.*s is of type %s, its scales of %s",
                           NAME(biases->name), biases->type_name, scales->type_name);
    if (result != RESULT_OK)
        return result;
    struct weight_source source = {.layout = groups.fp4 ? WEIGHT_FP4 : WEIGHT_AFFINE,
                                   .row_bytes = 4 * codes->dimensions[0],
                                   .scales = scales->data,
                                   .scale_type = scales->type,
                                   .bits = groups.bits,
                                   .group = groups.group};
    scales->part = true;
    if (biases) {
        source.biases = biases->data;
        biases->part = true;
    }
    quantized_tensors_become(codes, source, columns);
    return RESULT_OK;
}

enum result quantized_tensors_join_fp4(struct tensor_table *table, uint32_t index,
                                       struct error_text *error)
{
    struct checkpoint_tensor *codes = tensor_table_edit(table, index), *scales;
    size_t cut = strlen("_blocks");
    enum result result = quantized_tensors_need(table, codes, cut, "_scales", &scales, error);
    if (result == RESULT_OK && codes->dimensions[0] != 16)
        result = error_set(error, RESULT_INVALID, "tensor %.*s: blocks of %llu bytes, not 16",
                           NAME(codes->name), (unsigned long long)codes->dimensions[0]);
    if (result != RESULT_OK)
        return result;
    /* [16, groups, rows, experts] is [16 * groups, rows, experts] as bytes. */
    struct checkpoint_tensor flat = *codes;
    uint64_t groups = codes->dimensions[1];
    for (uint32_t d = 1; d + 1 < TENSOR_DIMENSIONS_MAX; d++)
        flat.dimensions[d] = codes->dimensions[d + 1];
    flat.dimensions[TENSOR_DIMENSIONS_MAX - 1] = 1;
    result = check_parts(&flat, scales, WEIGHT_SOURCE_BLOCK, groups, error);
    if (result == RESULT_OK)
        result = check_exponents(scales, error);
    if (result != RESULT_OK)
        return result;
    struct weight_source source = {
        .layout = WEIGHT_FP4, .row_bytes = 16 * groups, .scales = scales->data};
    scales->part = true;
    flat.name.length -= cut;
    *codes = flat;
    quantized_tensors_become(codes, source, groups * WEIGHT_SOURCE_BLOCK);
    return RESULT_OK;
}

static uint64_t divide_up(uint64_t value, uint64_t by)
{
    return (value + by - 1) / by;
}

/* Sets how many rows and columns share a scale; false if the scales have none of the three shapes.
 */
static bool fp8_sharing(const struct checkpoint_tensor *codes,
                        const struct checkpoint_tensor *scales, struct fp8_block block,
                        struct weight_source *source)
{
    uint64_t rows = codes->dimensions[1], columns = codes->dimensions[0];
    uint64_t down = scales->dimensions[1], across = scales->dimensions[0];
    for (uint32_t d = 2; d < TENSOR_DIMENSIONS_MAX; d++)
        if (codes->dimensions[d] != 1 || scales->dimensions[d] != 1)
            return false;
    source->block_rows = rows;
    source->block_columns = columns;
    if (down == 1 && across == 1)
        return true;
    bool column = (down == rows && across == 1) || (down == 1 && across == rows);
    if (block.rows == 0 && column) {
        source->block_rows = 1;
        return true;
    }
    source->block_rows = block.rows;
    source->block_columns = block.columns;
    return block.rows > 0 && down == divide_up(rows, block.rows) &&
           across == divide_up(columns, block.columns);
}

enum result quantized_tensors_join_fp8(struct tensor_table *table, uint32_t index,
                                       struct fp8_block block, struct error_text *error)
{
    struct checkpoint_tensor *codes = tensor_table_edit(table, index), *scales;
    struct weight_source source = {.layout = WEIGHT_FP8, .row_bytes = codes->dimensions[0]};
    scales = quantized_tensors_part(table, codes, 0, "_scale_inv");
    if (!scales) {
        enum result result = quantized_tensors_need(table, codes, 0, "_scale", &scales, error);
        if (result != RESULT_OK)
            return result;
    }
    enum result result = quantized_tensors_check_float(scales, error);
    if (result != RESULT_OK)
        return result;
    if (codes->data_bytes == 0 || scales->data_bytes == 0 ||
        !fp8_sharing(codes, scales, block, &source))
        return error_set(error, RESULT_INVALID,
                         "tensor %.*s [%llu, %llu] is no scale for all, each row or each block of "
                         "%u by %u of %.*s",
                         NAME(scales->name), (unsigned long long)scales->dimensions[0],
                         (unsigned long long)scales->dimensions[1], block.rows, block.columns,
                         NAME(codes->name));
    source.scales = scales->data;
    source.scale_type = scales->type;
    scales->part = true;
    quantized_tensors_become(codes, source, codes->dimensions[0]);
    return RESULT_OK;
}
