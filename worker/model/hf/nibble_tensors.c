/*
 * Checks the shapes of the parts against each other, so that readers of the weight need no bounds
 * checks. A part that is missing, or of another type or shape, is an error that names it.
 *
 * bitsandbytes stores a matrix as one column of bytes and its shape in a JSON document that is the
 * data of a tensor of its own.
 */
#include "worker/model/hf/nibble_tensors.h"

#include <math.h>
#include <string.h>

#include "proto/json_value.h"
#include "worker/model/hf/quantized_tensors.h"

#define NAME QUANTIZED_NAME

#define STATE_BYTES_MAX 4096u /* written states have about 150 */
#define NVFP4_COLUMNS   16u   /* of a scale */
#define MAP_NUMBERS     256u

bool nibble_tensors_match(const struct checkpoint_tensor *tensor, enum nibble_form form)
{
    bool named = form == NIBBLES_MXFP4 || form == NIBBLES_NVFP4;
    return !tensor->part &&
           quantized_tensors_match(tensor, "U8", named ? ".weight_packed" : ".weight");
}

/* A part of the type and of `fastest` by `next` elements; `next` 0: `fastest` elements of any
 * shape. */
static enum result take_part(struct tensor_table *table, const struct checkpoint_tensor *codes,
                             size_t cut, const char *ending, const char *type, uint64_t fastest,
                             uint64_t next, struct checkpoint_tensor **part,
                             struct error_text *error)
{
    enum result result = quantized_tensors_need(table, codes, cut, ending, part, error);
    if (result != RESULT_OK)
        return result;
    uint64_t elements = 1;
    for (uint32_t d = 0; d < TENSOR_DIMENSIONS_MAX; d++)
        elements *= (*part)->dimensions[d];
    bool fit = next == 0 ? elements == fastest
                         : elements == fastest * next && (*part)->dimensions[0] == fastest &&
                               (*part)->dimensions[1] == next;
    if (strcmp((*part)->type_name, type) != 0 || (*part)->data_bytes == 0 || !fit)
        return error_set(error, RESULT_INVALID,
                         "tensor %.*s of type %s is [%llu, %llu], not %s and %llu by %llu (fastest "
                         "first)",
                         NAME((*part)->name), (*part)->type_name,
                         (unsigned long long)(*part)->dimensions[0],
                         (unsigned long long)(*part)->dimensions[1], type,
                         (unsigned long long)fastest, (unsigned long long)(next > 0 ? next : 1));
    (*part)->part = true;
    return RESULT_OK;
}

/* --- 4-bit floats ----------------------------------------------------------------------------- */

static enum result join_mxfp4(struct tensor_table *table, uint32_t index, struct error_text *error)
{
    struct checkpoint_tensor *codes = tensor_table_edit(table, index), *scales;
    size_t cut = strlen("packed");
    uint64_t columns = 2 * codes->dimensions[0];
    const struct checkpoint_tensor *stated = quantized_tensors_part(table, codes, cut, "scale");
    bool exponents = stated && strcmp(stated->type_name, "F8_E8M0") == 0;
    enum result result =
        take_part(table, codes, cut, "scale", exponents ? "F8_E8M0" : "U8",
                  columns / WEIGHT_SOURCE_BLOCK, codes->dimensions[1], &scales, error);
    if (result != RESULT_OK)
        return result;
    struct weight_source source = {
        .layout = WEIGHT_FP4, .row_bytes = columns / 2, .scales = scales->data};
    codes->name.length -= strlen("_packed");
    quantized_tensors_become(codes, source, columns);
    return RESULT_OK;
}

static enum result join_nvfp4(struct tensor_table *table, uint32_t index, bool modelopt,
                              struct error_text *error)
{
    struct checkpoint_tensor *codes = tensor_table_edit(table, index), *scales, *factor;
    size_t cut = modelopt ? 0 : strlen("packed");
    uint64_t columns = 2 * codes->dimensions[0];
    enum result result = take_part(table, codes, cut, modelopt ? "_scale" : "scale", "F8_E4M3",
                                   columns / NVFP4_COLUMNS, codes->dimensions[1], &scales, error);
    if (result == RESULT_OK)
        result = take_part(table, codes, cut, modelopt ? "_scale_2" : "global_scale", "F32", 1, 0,
                           &factor, error);
    if (result != RESULT_OK)
        return result;
    struct weight_source source = {.layout = WEIGHT_NVFP4,
                                   .row_bytes = columns / 2,
                                   .scales = scales->data,
                                   .factor_divides = !modelopt};
    memcpy(&source.factor, factor->data, sizeof source.factor);
    if (!isfinite(source.factor) || source.factor <= 0.0f)
        return error_set(error, RESULT_INVALID, "tensor %.*s is not a finite number above 0",
                         NAME(factor->name));
    codes->name.length -= modelopt ? 0 : strlen("_packed");
    quantized_tensors_become(codes, source, columns);
    return RESULT_OK;
}

/* Rows of a multiple of 32 columns, in two dimensions. */
static enum result check_codes(const struct checkpoint_tensor *codes, struct error_text *error)
{
    bool fit = codes->data_bytes > 0 && codes->dimensions[0] % (WEIGHT_SOURCE_BLOCK / 2) == 0;
    for (uint32_t d = 2; d < TENSOR_DIMENSIONS_MAX; d++)
        fit &= codes->dimensions[d] == 1;
    return fit ? RESULT_OK
               : error_set(error, RESULT_UNSUPPORTED,
                           "tensor %.*s: rows of %llu bytes are no multiple of 32 columns",
                           NAME(codes->name), (unsigned long long)codes->dimensions[0]);
}

/* --- tables ----------------------------------------------------------------------------------- */

struct table_state {
    uint32_t rows, columns, block, nested_block;
    float nested_offset;
    enum ggml_type type;
};

static bool read_shape(struct json_value array, struct table_state *state)
{
    uint32_t sizes[2] = {0, 0}, count = 0;
    struct json_value element;
    bool fit = true;
    for (struct json_reader at = json_value_elements(array); json_value_next(&at, &element);
         count++)
        fit &= count < 2 && json_value_u32(element, &sizes[count & 1]) == RESULT_OK;
    state->rows = sizes[0];
    state->columns = sizes[1];
    return fit && count == 2 && sizes[0] > 0 && sizes[1] > 0;
}

static bool read_type(struct json_value name, struct table_state *state)
{
    char text[16];
    if (json_value_string(name, text, sizeof text) != RESULT_OK)
        return false;
    if (strcmp(text, "bfloat16") == 0)
        state->type = GGML_BF16;
    else if (strcmp(text, "float16") == 0)
        state->type = GGML_F16;
    else if (strcmp(text, "float32") == 0)
        state->type = GGML_F32;
    else
        return false;
    return true;
}

static enum result read_state(const struct checkpoint_tensor *tensor, struct table_state *state,
                              struct error_text *error)
{
    struct error_text reason = {""};
    struct json_value json;
    const char *wrong = NULL;
    if (strcmp(tensor->type_name, "U8") != 0)
        return error_set(error, RESULT_INVALID, "tensor %.*s is of type %s, not U8",
                         NAME(tensor->name), tensor->type_name);
    if (json_value_open((const char *)tensor->data, tensor->data_bytes, STATE_BYTES_MAX, &json,
                        &reason) != RESULT_OK)
        return error_set(error, RESULT_INVALID, "tensor %.*s: %.60s", NAME(tensor->name),
                         reason.text);
    struct json_value nested = json_value_member(json, "nested_blocksize");
    *state = (struct table_state){.block = 0};
    if (!read_shape(json_value_member(json, "shape"), state))
        wrong = "shape";
    else if (json_value_u32(json_value_member(json, "blocksize"), &state->block) != RESULT_OK ||
             state->block == 0)
        wrong = "blocksize";
    else if (!read_type(json_value_member(json, "dtype"), state))
        wrong = "dtype";
    else if (json_value_type(nested) != JSON_ABSENT &&
             (json_value_u32(nested, &state->nested_block) != RESULT_OK ||
              state->nested_block == 0))
        wrong = "nested_blocksize";
    else if (state->nested_block > 0 && json_value_f32(json_value_member(json, "nested_offset"),
                                                       &state->nested_offset) != RESULT_OK)
        wrong = "nested_offset";
    return wrong ? error_set(error, RESULT_INVALID, "tensor %.*s: key %s is not readable",
                             NAME(tensor->name), wrong)
                 : RESULT_OK;
}

static enum result add_scales(struct tensor_table *table, const struct checkpoint_tensor *codes,
                              const struct table_state *state, struct weight_source *source,
                              struct error_text *error)
{
    uint64_t numbers = (uint64_t)state->rows * state->columns;
    uint64_t scales = (numbers + state->block - 1) / state->block;
    bool nested = state->nested_block > 0;
    struct checkpoint_tensor *absmax, *map, *outer;
    enum result result =
        take_part(table, codes, 0, ".absmax", nested ? "U8" : "F32", scales, 0, &absmax, error);
    if (result != RESULT_OK)
        return result;
    source->scales = absmax->data;
    if (!nested)
        return RESULT_OK;
    result = take_part(table, codes, 0, ".nested_quant_map", "F32", MAP_NUMBERS, 0, &map, error);
    if (result == RESULT_OK)
        result =
            take_part(table, codes, 0, ".nested_absmax", "F32",
                      (scales + state->nested_block - 1) / state->nested_block, 0, &outer, error);
    if (result != RESULT_OK)
        return result;
    source->nested = (struct weight_nested_scales){map->data, outer->data, state->nested_offset,
                                                   state->nested_block};
    return RESULT_OK;
}

static enum result join_table(struct tensor_table *table, uint32_t index, struct error_text *error)
{
    struct checkpoint_tensor *codes = tensor_table_edit(table, index), *map, *stated;
    struct table_state state;
    stated = quantized_tensors_part(table, codes, 0, ".quant_state.bitsandbytes__fp4");
    if (!stated) {
        enum result needed = quantized_tensors_need(
            table, codes, 0, ".quant_state.bitsandbytes__nf4", &stated, error);
        if (needed != RESULT_OK)
            return needed;
    }
    enum result result = read_state(stated, &state, error);
    if (result != RESULT_OK)
        return result;
    uint64_t numbers = (uint64_t)state.rows * state.columns;
    if (codes->data_bytes != numbers / 2 + numbers % 2 || state.columns % 2 != 0)
        return error_set(error, RESULT_INVALID,
                         "tensor %.*s has %llu bytes, not those of %u rows of %u columns, an even "
                         "number",
                         NAME(codes->name), (unsigned long long)codes->data_bytes, state.rows,
                         state.columns);
    struct weight_source source = {.layout = WEIGHT_TABLE4,
                                   .type = state.type,
                                   .scale_type = state.type,
                                   .row_bytes = state.columns / 2,
                                   .group = state.block};
    result = take_part(table, codes, 0, ".quant_map", "F32", 16, 0, &map, error);
    if (result == RESULT_OK)
        result = add_scales(table, codes, &state, &source, error);
    if (result != RESULT_OK)
        return result;
    stated->part = true;
    source.table = map->data;
    for (uint32_t d = 1; d < TENSOR_DIMENSIONS_MAX; d++)
        codes->dimensions[d] = 1;
    codes->dimensions[1] = state.rows;
    quantized_tensors_become(codes, source, state.columns);
    return RESULT_OK;
}

enum result nibble_tensors_join(struct tensor_table *table, uint32_t index, enum nibble_form form,
                                struct error_text *error)
{
    if (form == NIBBLES_TABLE)
        return join_table(table, index, error);
    enum result result = check_codes(tensor_table_at(table, index), error);
    if (result != RESULT_OK)
        return result;
    return form == NIBBLES_MXFP4 ? join_mxfp4(table, index, error)
                                 : join_nvfp4(table, index, form == NIBBLES_MODELOPT, error);
}
