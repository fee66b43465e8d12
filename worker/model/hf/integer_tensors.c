/*
 * Checks the shapes of the parts against each other, and every group number against the number of
 * groups, so that readers of the weight need no bounds checks. A part that is missing, of another
 * type or shape, or present without a meaning is an error that names it.
 *
 * No product below can overflow: no tensor is empty, so each dimension is at most the size of its
 * file, and bits are at most 8.
 */
#include "worker/model/hf/integer_tensors.h"

#include <string.h>

#include "worker/model/hf/quantized_tensors.h"

#define NAME QUANTIZED_NAME

struct endings {
    const char *codes, *scales, *zeros, *groups;
};

struct join {
    struct tensor_table *table;
    struct integer_scheme scheme;
    struct checkpoint_tensor *codes;
    size_t cut; /* bytes of the ending of the codes' name */
    uint64_t rows, columns, groups;
    struct weight_source source;
    struct error_text *error;
};

static struct endings endings_of(enum weight_layout layout)
{
    if (layout == WEIGHT_PACKED)
        return (struct endings){"weight_packed", "weight_scale", "weight_zero_point",
                                "weight_g_idx"};
    return (struct endings){"qweight", "scales", "qzeros", "g_idx"};
}

bool integer_tensors_match(const struct checkpoint_tensor *tensor, enum weight_layout layout)
{
    const char *ending = endings_of(layout).codes;
    size_t length = strlen(ending);
    return !tensor->part && quantized_tensors_match(tensor, "I32", ending) &&
           tensor->name.bytes[tensor->name.length - length - 1] == '.';
}

static enum result check_shape(const struct join *join, const struct checkpoint_tensor *part,
                               uint64_t fastest, uint64_t next)
{
    bool fit =
        part->data_bytes > 0 && part->dimensions[0] == fastest && part->dimensions[1] == next;
    for (uint32_t d = 2; d < TENSOR_DIMENSIONS_MAX; d++)
        fit &= part->dimensions[d] == 1;
    if (fit)
        return RESULT_OK;
    return error_set(join->error, RESULT_INVALID,
                     "tensor %.*s is [%llu, %llu], not [%llu, %llu] (fastest first), for %llu rows "
                     "and %llu columns of %u bits",
                     NAME(part->name), (unsigned long long)part->dimensions[0],
                     (unsigned long long)part->dimensions[1], (unsigned long long)fastest,
                     (unsigned long long)next, (unsigned long long)join->rows,
                     (unsigned long long)join->columns, join->scheme.bits);
}

static enum result check_integers(const struct join *join, const struct checkpoint_tensor *part)
{
    return strcmp(part->type_name, "I32") == 0
               ? RESULT_OK
               : error_set(join->error, RESULT_INVALID, "tensor %.*s is of type %s, not I32",
                           NAME(part->name), part->type_name);
}

/* Rows and columns follow from the words and the bits. */
static enum result find_size(struct join *join)
{
    const struct checkpoint_tensor *codes = join->codes;
    const struct integer_scheme *scheme = &join->scheme;
    uint64_t fastest = codes->dimensions[0], next = codes->dimensions[1], bits = 0;
    if (codes->data_bytes > 0 && fastest <= UINT32_MAX && next <= UINT32_MAX) {
        bits = 32 * (scheme->layout == WEIGHT_GPTQ ? next : fastest);
        uint64_t packed = bits / scheme->bits;
        join->rows = scheme->layout == WEIGHT_PACKED ? next
                     : scheme->layout == WEIGHT_AWQ  ? packed
                                                     : fastest;
        join->columns = scheme->layout == WEIGHT_AWQ ? next : packed;
    }
    if (bits == 0 || bits % scheme->bits != 0 || join->columns % WEIGHT_SOURCE_BLOCK != 0 ||
        (scheme->layout == WEIGHT_GPTQ && join->rows * scheme->bits % 32 != 0))
        return error_set(join->error, RESULT_UNSUPPORTED,
                         "tensor %.*s: [%llu, %llu] words are no rows of a multiple of %u columns "
                         "of %u bits",
                         NAME(codes->name), (unsigned long long)fastest, (unsigned long long)next,
                         WEIGHT_SOURCE_BLOCK, scheme->bits);
    uint64_t group = scheme->group > 0 ? scheme->group : join->columns;
    join->groups = (join->columns + group - 1) / group;
    join->source = (struct weight_source){.layout = scheme->layout,
                                          .row_bytes = join->columns * scheme->bits / 8,
                                          .bits = scheme->bits,
                                          .group = (uint32_t)group,
                                          .zero_step = scheme->zero_step,
                                          .block_rows = join->rows};
    return check_shape(join, codes, fastest, next);
}

static enum result add_scales(struct join *join, const char *ending)
{
    struct checkpoint_tensor *scales;
    bool packed = join->scheme.layout == WEIGHT_PACKED;
    enum result result =
        quantized_tensors_need(join->table, join->codes, join->cut, ending, &scales, join->error);
    if (result == RESULT_OK)
        result = quantized_tensors_check_float(scales, join->error);
    if (result == RESULT_OK)
        result = check_shape(join, scales, packed ? join->groups : join->rows,
                             packed ? join->rows : join->groups);
    if (result != RESULT_OK)
        return result;
    scales->part = true;
    join->source.scales = scales->data;
    join->source.scale_type = scales->type;
    return RESULT_OK;
}

static enum result add_zeros(struct join *join, const char *ending)
{
    struct checkpoint_tensor *zeros;
    uint64_t words = (join->rows * join->scheme.bits + 31) / 32;
    bool packed = join->scheme.layout == WEIGHT_PACKED;
    if (!join->scheme.zeros) {
        zeros = quantized_tensors_part(join->table, join->codes, join->cut, ending);
        return !zeros ? RESULT_OK
                      : error_set(join->error, RESULT_INVALID,
                                  "tensor %.*s: config.json states symmetric weights",
                                  NAME(zeros->name));
    }
    enum result result =
        quantized_tensors_need(join->table, join->codes, join->cut, ending, &zeros, join->error);
    if (result == RESULT_OK)
        result = check_integers(join, zeros);
    if (result == RESULT_OK)
        result =
            check_shape(join, zeros, packed ? join->groups : words, packed ? words : join->groups);
    if (result != RESULT_OK)
        return result;
    zeros->part = true;
    join->source.zeros = zeros->data;
    return RESULT_OK;
}

static int32_t load_i32(const uint8_t *at)
{
    return (int32_t)(at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
}

/* Group numbers that repeat column / group are not kept. */
static enum result add_groups(struct join *join, const char *ending)
{
    struct checkpoint_tensor *groups =
        quantized_tensors_part(join->table, join->codes, join->cut, ending);
    if (!groups)
        return RESULT_OK;
    enum result result = check_integers(join, groups);
    if (result == RESULT_OK)
        result = check_shape(join, groups, join->columns, 1);
    bool in_order = true;
    for (uint64_t c = 0; result == RESULT_OK && c < join->columns; c++) {
        int32_t group = load_i32(groups->data + 4 * c);
        if (group < 0 || (uint64_t)group >= join->groups)
            result = error_set(join->error, RESULT_INVALID,
                               "tensor %.*s: group %d of column %llu is not below %llu",
                               NAME(groups->name), group, (unsigned long long)c,
                               (unsigned long long)join->groups);
        in_order &= (uint64_t)group == c / join->source.group;
    }
    if (result != RESULT_OK)
        return result;
    groups->part = true;
    join->source.groups = in_order ? NULL : groups->data;
    return RESULT_OK;
}

/* compressed-tensors repeats rows and columns in X.weight_shape, two I64 or I32. */
static enum result check_stated_shape(struct join *join)
{
    struct checkpoint_tensor *shape =
        quantized_tensors_part(join->table, join->codes, join->cut, "weight_shape");
    if (!shape || join->scheme.layout != WEIGHT_PACKED)
        return RESULT_OK;
    size_t bytes = strcmp(shape->type_name, "I64") == 0 ? 8 : 4;
    uint64_t stated[2] = {0, 0};
    bool fit =
        shape->data_bytes == 2 * bytes && (bytes == 8 || strcmp(shape->type_name, "I32") == 0);
    for (size_t i = 0; fit && i < 2 * bytes; i++)
        stated[i / bytes] |= (uint64_t)shape->data[i] << (8 * (i % bytes));
    if (stated[0] != join->rows || stated[1] != join->columns)
        return error_set(join->error, RESULT_INVALID, "tensor %.*s does not state [%llu, %llu]",
                         NAME(shape->name), (unsigned long long)join->rows,
                         (unsigned long long)join->columns);
    shape->part = true;
    return RESULT_OK;
}

enum result integer_tensors_join(struct tensor_table *table, uint32_t index,
                                 struct integer_scheme scheme, struct error_text *error)
{
    struct endings endings = endings_of(scheme.layout);
    struct join join = {.table = table,
                        .scheme = scheme,
                        .codes = tensor_table_edit(table, index),
                        .cut = strlen(endings.codes),
                        .error = error};
    enum result result = find_size(&join);
    if (result == RESULT_OK)
        result = add_scales(&join, endings.scales);
    if (result == RESULT_OK)
        result = add_zeros(&join, endings.zeros);
    if (result == RESULT_OK)
        result = add_groups(&join, endings.groups);
    if (result == RESULT_OK)
        result = check_stated_shape(&join);
    if (result == RESULT_OK)
        result = tensor_table_rename(table, index, join.cut, "weight", error);
    if (result != RESULT_OK)
        return result;
    quantized_tensors_become(join.codes, join.source, join.columns);
    join.codes->dimensions[1] = join.rows;
    return RESULT_OK;
}
