#version 450
/*
 * out[r, h, :] = x[r, h, first:] | y[r, h, :].
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;   /* f32 [rows, heads * x_columns] */
    uint64_t y;   /* f32 [rows, heads * y_columns] */
    uint64_t out_values; /* f32 [rows, columns] */
    uint columns;
    uint head_columns; /* of the output */
    uint x_columns;
    uint y_columns;
    uint heads;
    uint first;
} push;

void main()
{
    uint row = gl_WorkGroupID.x;
    uint first = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    Floats x = Floats(push.x + 4 * (uint64_t(row) * push.heads * push.x_columns));
    Floats y = Floats(push.y + 4 * (uint64_t(row) * push.heads * push.y_columns));
    Floats outputs = Floats(push.out_values + 4 * (uint64_t(row) * push.columns));
    uint taken = push.x_columns - push.first;
    for (uint i = first; i < first + 4 && i < push.columns; i++) {
        uint head = i / push.head_columns, c = i % push.head_columns;
        outputs.at[i] = c < taken ? x.at[head * push.x_columns + push.first + c]
                                  : y.at[head * push.y_columns + c - taken];
    }
}
