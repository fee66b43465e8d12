#version 450
/*
 * The route of rows that use all of columns / 2 matrices in order: their numbers, then ones.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t out_values; /* f32 [rows, columns] */
    uint columns;
} push;

void main()
{
    uint first = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    Floats outputs = Floats(push.out_values + 4 * (uint64_t(gl_WorkGroupID.x) * push.columns));
    for (uint i = first; i < first + 4 && i < push.columns; i++)
        outputs.at[i] = i < push.columns / 2 ? float(i) : 1.0;
}
