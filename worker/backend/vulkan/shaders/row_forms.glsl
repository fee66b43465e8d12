/*
 * Rows of tensors, four columns at a time, and the forms in which a kernel writes its output.
 *
 * A tensor is f32 [rows, columns] with any number of columns; only multiples of four have rows aligned
 * to 16 bytes. The forms f16 and q8 exist only for multiples of 32 columns; then invocation i must hold
 * columns 4i .. 4i + 3. All invocations of a subgroup store together, also those past the row's end.
 *
 * Before including, the includer names the specialization constant with the forms:
 *     #define FORMS_CONSTANT 1
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "q8_blocks.glsl"
#include "tiled_halves.glsl"
#include "staged_halves.glsl"

layout(constant_id = FORMS_CONSTANT) const uint FORMS = 1;
const uint FORM_F32 = 1, FORM_F16 = 2, FORM_Q8 = 4, FORM_TILED = 8, FORM_STAGED = 16;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer RowFloat
{
    float value;
};
layout(buffer_reference, std430, buffer_reference_align = 16) buffer RowFloats
{
    vec4 value;
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer RowHalves
{
    f16vec4 value;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer RowHalfPair
{
    f16vec2 value;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer RowCodes
{
    uint value;
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer RowTerms
{
    vec2 value;
};

/* Addresses of an output's forms; 0 for forms that are not written. */
struct RowOutputs {
    uint64_t f32;
    uint64_t f16; /* or tiled or staged: only one of them */
    uint64_t q8;
    uint64_t q8_terms;
};

uint64_t row_index(uint row, uint column, uint columns)
{
    return uint64_t(row) * columns + column;
}

/* Columns column .. column + 3 of a row; 0 for those past the end. */
vec4 row_load(uint64_t tensor, uint row, uint column, uint columns)
{
    vec4 v = vec4(0.0);
    uint64_t at = tensor + 4 * row_index(row, column, columns);
    if (columns % 4 == 0) {
        if (column < columns)
            v = RowFloats(at).value;
        return v;
    }
    for (uint i = 0; i < 4; i++)
        if (column + i < columns)
            v[i] = RowFloat(at + 4 * i).value;
    return v;
}

void row_store_f32(uint64_t tensor, uint row, uint column, uint columns, vec4 v)
{
    uint64_t at = tensor + 4 * row_index(row, column, columns);
    if (columns % 4 == 0) {
        if (column < columns)
            RowFloats(at).value = v;
        return;
    }
    for (uint i = 0; i < 4; i++)
        if (column + i < columns)
            RowFloat(at + 4 * i).value = v[i];
}

void row_store_q8(RowOutputs outputs, uint row, uint column, uint columns, vec4 v)
{
    uint lanes = q8_lanes(4);
    Q8Scale scale = q8_scale(q8_group_max(q8_magnitude(v), lanes));
    uint codes = q8_pack(v, scale);
    int sum = q8_group_sum(q8_code_sum(codes), lanes);
    if (column >= columns)
        return;
    uint64_t index = row_index(row, column, columns);
    RowCodes(outputs.q8 + index).value = codes;
    if (column % Q8_BLOCK == 0)
        RowTerms(outputs.q8_terms + 8 * (index / Q8_BLOCK)).value = q8_terms(scale, sum);
}

/* Clamps to the finite range of f16, so that no product with it becomes infinite. */
void row_store(RowOutputs outputs, uint row, uint column, uint columns, vec4 v)
{
    if ((FORMS & FORM_F32) != 0)
        row_store_f32(outputs.f32, row, column, columns, v);
    if ((FORMS & FORM_F16) != 0 && column < columns)
        RowHalves(outputs.f16 + 2 * row_index(row, column, columns)).value =
            f16vec4(clamp(v, vec4(-65504.0), vec4(65504.0)));
    if ((FORMS & FORM_TILED) != 0 && column < columns)
        RowHalves(outputs.f16 + 2 * tiled_half(row, column, columns)).value =
            f16vec4(clamp(v.xzyw, vec4(-65504.0), vec4(65504.0)));
    if ((FORMS & FORM_STAGED) != 0 && column < columns) {
        f16vec4 halves = f16vec4(clamp(v, vec4(-65504.0), vec4(65504.0)));
        RowHalfPair(outputs.f16 + 2 * staged_half(row, column, columns)).value = halves.xz;
        RowHalfPair(outputs.f16 + 2 * staged_half(row, column + 1, columns)).value = halves.yw;
    }
    if ((FORMS & FORM_Q8) != 0)
        row_store_q8(outputs, row, column, columns, v);
}
