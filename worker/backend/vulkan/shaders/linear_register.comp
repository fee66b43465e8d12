#version 450
// needs: GL_KHR_cooperative_matrix
/*
 * out[r, n] = x[r, :] . W[n, :] for a few rows r, in matrix units whose registers are filled by hand. A
 * lane reads the packed weights of the fragment elements that it holds, once; they pass neither through
 * shared memory nor through another lane.
 *
 * register_tile.glsl computes the products. It needs the layout of lanes that
 * linear_register_probe.comp checks when the device is opened; other devices use other kernels. x is
 * f16, by rows or TILED, k a multiple of 32, weights are quantized. ROWS is the number of rows rounded
 * up to a multiple of eight, so one kernel serves eight numbers of rows.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#define WEIGHT_KIND_CONSTANT 1
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 9) const bool TILED = false; /* x */
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { float16_t at[]; };

layout(push_constant) uniform Push
{
    WeightMatrix weights;
    uint64_t x; /* f16 [row_count, k_count] */
    uint64_t x_terms;
    uint64_t norm_weights;
    uint64_t out_f32;
    uint64_t out_f16;
    uint64_t out_q8;
    uint64_t out_q8_terms;
    uint n_count;
    uint k_count;
    float epsilon;
    float weight_offset;
    uint out_stride;
    uint row_count; /* up to ROWS, above ROWS - 8 */
} push;

#include "register_tile.glsl"
#include "tiled_halves.glsl"

/* First column of out of this subgroup's team. */
uint first_result()
{
    return (gl_WorkGroupID.x * TEAMS + gl_SubgroupID / SPLIT) * RESULTS;
}

/* Rows that do not exist may have any contents, since no other row's sums use them. */
uvec4 x_piece(uint r, uint g, uint block, uint i)
{
    uint blocks = push.k_count / WEIGHT_BLOCK;
    uint tile = r * ((blocks + 3) / 4) + block / 4;
    if (TILED)
        return Halves8(push.x).at[((tile * 4 + i) * 8 + g) * 4 + block % 4];
    return Halves8(push.x).at[(min(8 * r + g, push.row_count - 1) * blocks + block) * 4 + i];
}

WeightMatrix weight_matrix(bool upper)
{
    return push.weights;
}

uint weight_row(uint m, uint g, bool upper)
{
    if (!GATED)
        return min(first_result() + 16 * m + g + (upper ? 8 : 0), push.n_count - 1);
    uint half_count = push.n_count / 2;
    uint column = min(first_result() + 8 * m + g, half_count - 1);
    return column + (upper ? half_count : 0);
}

void store(uint row, uint column, float value)
{
    uint at = row * push.out_stride + column;
    if (EPILOGUE == EPILOGUE_ADD)
        value += Floats(push.out_f32).at[at];
    if (EPILOGUE == EPILOGUE_ADD || (FORMS & FORM_F32) != 0)
        Floats(push.out_f32).at[at] = value;
    float16_t half_value = float16_t(clamp(value, -65504.0, 65504.0));
    if ((FORMS & FORM_F16) != 0)
        Halves(push.out_f16).at[at] = half_value;
    if ((FORMS & FORM_TILED) != 0)
        Halves(push.out_f16).at[uint(tiled_half(row, column, push.out_stride))] = half_value;
}

void finish()
{
    uint columns = GATED ? push.n_count / 2 : push.n_count;
    for (uint i = gl_LocalInvocationIndex; i < TEAMS * RESULTS * ROWS; i += gl_WorkGroupSize.x) {
        uint row = i / (TEAMS * RESULTS), slot = i % (TEAMS * RESULTS);
        uint column = gl_WorkGroupID.x * TEAMS * RESULTS + slot;
        uint team = slot / RESULTS, place = slot % RESULTS;
        float value;
        if (GATED)
            value = activate(total(team, row, 2 * place)) * total(team, row, 2 * place + 1);
        else
            value = total(team, row, place);
        if (row < push.row_count && column < columns)
            store(row, column, value);
    }
}

void main()
{
    multiply_columns();
    finish();
}
