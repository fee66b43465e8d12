/*
 * Weights that are a part of a tensor: some of its rows or columns, and stacks of a part for each
 * head (plan_builder.h). Weights that are computed instead of read.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/model/build/builder_state.h"
#include "worker/model/build/plan_builder.h"

/* Part `index` of `parts` equal ones of a tensor of shape `whole`, as a weight of shape `shape`. */
static plan_weight_id add_part(struct plan_builder *builder, uint32_t parts, uint32_t index,
                               struct weight_shape whole, struct weight_shape shape,
                               const char *name)
{
    struct stored_name stored;
    must(index < parts);
    const struct checkpoint_tensor *tensor = builder_find_checked(builder, name, whole, &stored);
    if (!tensor)
        return 0;
    struct checkpoint_tensor part = *tensor;
    part.data_bytes = tensor->data_bytes / parts;
    part.data = tensor->data + index * part.data_bytes;
    part.source.first_row = (uint64_t)index * shape.rows;
    return builder_add_weight(builder, &part, stored.text, shape);
}

plan_weight_id plan_builder_part(struct plan_builder *builder, uint32_t parts, uint32_t index,
                                 uint32_t rows, uint32_t columns, const char *name)
{
    const struct weight_shape shape = {.rows = rows, .columns = columns};
    struct weight_shape whole = {.rows = rows, .columns = columns, .experts = parts};
    struct stored_name stored;
    if (builder->result != RESULT_OK)
        return 0;
    const struct checkpoint_tensor *tensor = builder_find_tensor(builder, name, &stored);
    if (tensor && tensor->dimensions[2] == 1)
        whole = (struct weight_shape){.rows = parts * rows, .columns = columns};
    return add_part(builder, parts, index, whole, shape, name);
}

plan_weight_id plan_builder_vector_part(struct plan_builder *builder, uint32_t parts,
                                        uint32_t index, uint32_t columns, const char *name)
{
    const struct weight_shape shape = {.columns = columns, .vector = true};
    return add_part(builder, parts, index,
                    (struct weight_shape){.columns = parts * columns, .vector = true}, shape, name);
}

plan_weight_id plan_builder_columns(struct plan_builder *builder, uint32_t parts, uint32_t index,
                                    uint32_t rows, uint32_t columns, const char *name)
{
    const struct weight_shape whole = {.rows = rows, .columns = parts * columns};
    struct stored_name stored;
    must(index < parts);
    const struct checkpoint_tensor *tensor = builder_find_checked(builder, name, whole, &stored);
    if (!tensor)
        return 0;
    struct ggml_block block = ggml_type_block(tensor->type);
    if (tensor->source.layout != WEIGHT_IN_PLACE || columns % block.elements != 0) {
        builder->result =
            error_set(builder->error, RESULT_UNSUPPORTED,
                      "tensor %s is of type %s, whose rows cannot be divided into parts of %u",
                      stored.text, tensor->type_name, columns);
        return 0;
    }
    struct checkpoint_tensor part = *tensor;
    part.source = (struct weight_source){
        .layout = WEIGHT_SLICE,
        .type = tensor->type,
        .data = tensor->data + (uint64_t)index * (columns / block.elements) * block.bytes,
        .row_bytes = (uint64_t)parts * (columns / block.elements) * block.bytes};
    return builder_add_weight(builder, &part, stored.text,
                              (struct weight_shape){.rows = rows, .columns = columns});
}

plan_weight_id plan_builder_divided(struct plan_builder *builder, uint32_t rows, uint32_t parts,
                                    uint32_t columns, const char *name)
{
    const struct weight_shape whole = {.rows = rows, .columns = parts * columns, .flat = true};
    struct stored_name stored;
    const struct checkpoint_tensor *tensor = builder_find_checked(builder, name, whole, &stored);
    if (!tensor)
        return 0;
    return builder_add_weight(builder, tensor, stored.text,
                              (struct weight_shape){.rows = rows * parts, .columns = columns});
}

/* Bytes of a row as it is stored; 0 if the tensor's rows are not stored one after the other. */
static uint64_t row_bytes_of(const struct checkpoint_tensor *tensor)
{
    struct ggml_block block = ggml_type_block(tensor->type);
    return tensor->source.layout == WEIGHT_IN_PLACE
               ? tensor->dimensions[0] / block.elements * block.bytes
               : tensor->source.row_bytes;
}

plan_weight_id plan_builder_rows(struct plan_builder *builder, struct row_range range,
                                 uint32_t columns, const char *name)
{
    struct stored_name stored;
    const struct checkpoint_tensor *tensor = builder_find_checked(
        builder, name, (struct weight_shape){.rows = range.whole, .columns = columns}, &stored);
    must(range.first + range.rows <= range.whole);
    if (!tensor)
        return 0;
    struct checkpoint_tensor part = *tensor;
    part.data_bytes = range.rows * row_bytes_of(tensor);
    part.data = tensor->data + range.first * row_bytes_of(tensor);
    part.source.first_row += range.first;
    return builder_add_weight(builder, &part, stored.text,
                              (struct weight_shape){.rows = range.rows, .columns = columns});
}

/* Head `head` of a stack of heads' rows. */
static struct plan_weight_part head_part(const struct checkpoint_tensor *tensor, uint64_t first_row)
{
    return (struct plan_weight_part){.data = tensor->data + first_row * row_bytes_of(tensor),
                                     .source = tensor->source,
                                     .first_row = first_row};
}

/* The same transposed; `part` is that of its rows. */
static struct weight_source turned_source(const struct checkpoint_tensor *tensor,
                                          const struct plan_weight_part *part,
                                          const struct plan_weight *weight)
{
    bool in_place = tensor->source.layout == WEIGHT_IN_PLACE;
    struct weight_source source = {.layout = WEIGHT_TURNED,
                                   .type = weight->type,
                                   .data = part->data,
                                   .row_bytes =
                                       weight->data_bytes / weight->experts / weight->rows};
    if (in_place && builder_is_float(tensor->type)) {
        source.layout = WEIGHT_TRANSPOSED;
        source.block_rows = weight->rows;
        return source;
    }
    source.turned = (struct weight_turned){.source = in_place ? NULL : &tensor->source,
                                           .rows = tensor->data,
                                           .type = in_place ? tensor->type : tensor->source.type,
                                           .columns = weight->rows,
                                           .row = part->first_row};
    return source;
}

static plan_weight_id add_heads(struct plan_builder *builder, uint32_t heads,
                                struct row_range range, uint32_t columns, bool turned,
                                const char *name)
{
    const struct weight_shape whole = {.rows = heads * range.whole, .columns = columns};
    struct weight_shape shape = {.rows = range.rows, .columns = columns, .experts = heads};
    struct stored_name stored;
    const struct checkpoint_tensor *tensor = builder_find_checked(builder, name, whole, &stored);
    must(range.first + range.rows <= range.whole);
    if (!tensor)
        return 0;
    if (turned) {
        shape.rows = columns;
        shape.columns = range.rows;
    }
    struct checkpoint_tensor stack = *tensor;
    stack.data_bytes = (uint64_t)heads * range.rows * row_bytes_of(tensor);
    bool floats = tensor->source.layout == WEIGHT_IN_PLACE && builder_is_float(tensor->type);
    if (turned && !floats)
        stack.type = GGML_F32;
    plan_weight_id id = builder_add_weight(builder, &stack, stored.text, shape);
    struct plan_weight *weight = &builder->plan->weights[id];
    weight->parts = calloc(heads, sizeof *weight->parts);
    if (builder->result != RESULT_OK || !weight->parts) {
        builder->result = error_set(builder->error, RESULT_OUT_OF_MEMORY, "no memory for a plan");
        return 0;
    }
    for (uint32_t head = 0; head < heads; head++) {
        struct plan_weight_part part =
            head_part(tensor, (uint64_t)head * range.whole + range.first);
        if (turned) {
            part.source = turned_source(tensor, &part, weight);
            part.first_row = 0;
        }
        weight->parts[head] = part;
    }
    weight->data = weight->parts[0].data;
    weight->source = weight->parts[0].source;
    return id;
}

plan_weight_id plan_builder_head_rows(struct plan_builder *builder, uint32_t heads,
                                      struct row_range range, uint32_t columns, const char *name)
{
    return add_heads(builder, heads, range, columns, false, name);
}

plan_weight_id plan_builder_head_columns(struct plan_builder *builder, uint32_t heads,
                                         struct row_range range, uint32_t columns, const char *name)
{
    return add_heads(builder, heads, range, columns, true, name);
}

plan_weight_id plan_builder_computed(struct plan_builder *builder, uint32_t rows, uint32_t columns,
                                     const char *name, float **values)
{
    struct plan *plan = builder->plan;
    uint64_t count = (uint64_t)rows * columns;
    *values = NULL;
    if (builder->result != RESULT_OK)
        return 0;
    float **all = realloc((void *)plan->computed, (plan->computed_count + 1) * sizeof *all);
    float *made = calloc(count, sizeof *made);
    plan->computed = all ? all : plan->computed;
    if (!all || !made) {
        free(made);
        builder->result = error_set(builder->error, RESULT_OUT_OF_MEMORY, "no memory for a plan");
        return 0;
    }
    plan->computed[plan->computed_count++] = made;
    const struct checkpoint_tensor tensor = {
        .type = GGML_F32,
        .data = (const uint8_t *)made,
        .data_bytes = count * sizeof *made,
        .source = {.type = GGML_F32},
    };
    *values = made;
    return builder_add_weight(builder, &tensor, name,
                              (struct weight_shape){.rows = rows, .columns = columns});
}

bool plan_builder_floats(struct plan_builder *builder, uint32_t rows, uint32_t columns,
                         float *values, const char *name_format, ...)
{
    const struct weight_shape shape = {.rows = rows, .columns = columns, .flat = true};
    struct stored_name asked, stored;
    va_list arguments;
    va_start(arguments, name_format);
    (void)vsnprintf(asked.text, sizeof asked.text, name_format, arguments);
    va_end(arguments);
    if (builder->result != RESULT_OK)
        return false;
    const struct checkpoint_tensor *tensor =
        builder_find_checked(builder, asked.text, shape, &stored);
    if (!tensor)
        return false;
    uint64_t count = (uint64_t)rows * columns;
    const struct weight_source floats = {.scale_type = tensor->type};
    for (uint64_t i = 0; i < count && tensor->type != GGML_BF16; i++)
        values[i] = weight_layout_float(&floats, tensor->data, i);
    for (uint64_t i = 0; i < count && tensor->type == GGML_BF16; i++) { /* the usual type */
        uint32_t bits = (uint32_t)tensor->data[2 * i + 1] << 24 | (uint32_t)tensor->data[2 * i]
                                                                      << 16;
        memcpy(&values[i], &bits, sizeof bits);
    }
    return true;
}

bool plan_builder_has_floats(const struct plan_builder *builder, const char *name)
{
    struct stored_name stored;
    const struct checkpoint_tensor *tensor = builder_find_tensor(builder, name, &stored);
    return tensor && tensor->source.layout == WEIGHT_IN_PLACE && builder_is_float(tensor->type);
}

plan_weight_id plan_builder_kernel(struct plan_builder *builder, struct kernel_shape shape,
                                   const char *name_format, ...)
{
    uint32_t columns = shape.taps * shape.channels;
    char name[STORED_NAME_BYTES];
    va_list arguments;
    float *values, *stored = NULL;
    va_start(arguments, name_format);
    (void)vsnprintf(name, sizeof name, name_format, arguments);
    va_end(arguments);
    plan_weight_id id = plan_builder_computed(builder, shape.rows, columns, name, &values);
    if (values)
        stored = calloc((size_t)shape.rows * columns, sizeof *stored);
    if (values && !stored)
        builder->result = error_set(builder->error, RESULT_OUT_OF_MEMORY, "no memory for a plan");
    if (stored && plan_builder_floats(builder, shape.rows, columns, stored, "%s", name))
        for (uint32_t row = 0; row < shape.rows; row++)
            for (uint32_t i = 0; i < columns; i++)
                values[(size_t)row * columns + i] =
                    stored[(size_t)row * columns + i % shape.channels * shape.taps +
                           i / shape.channels];
    free(stored);
    return id;
}

plan_weight_id plan_builder_copy(struct plan_builder *builder, const struct plan_weight *weight)
{
    if (builder->result != RESULT_OK)
        return 0;
    must(weight->experts == 0 && !weight->parts);
    const struct checkpoint_tensor tensor = {.readable = true,
                                             .type = weight->type,
                                             .data = weight->data,
                                             .data_bytes = weight->data_bytes,
                                             .source = weight->source};
    return builder_add_weight(
        builder, &tensor, weight->name,
        (struct weight_shape){.rows = weight->rows, .columns = weight->columns});
}
