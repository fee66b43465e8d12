/*
 * Kernels over streams: a tensor [rows, streams * columns] is read as [rows * streams, columns].
 * They write f32 only.
 */
#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(push_constant) uniform Push
{
    uint64_t x;   /* f32 */
    uint64_t y;   /* f32, the second input */
    uint64_t out_rows; /* f32 */
    uint columns; /* of a stream */
    uint x_streams;
    uint x_stream;
    uint out_streams;
    uint out_stream; /* the one that is written; stream_add: the first of those */
    float deviations; /* stream_cut */
} push;

uint stream_column()
{
    return 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
}

vec4 stream_load(uint64_t tensor, uint row, uint streams, uint stream, uint column)
{
    return row_load(tensor, row * streams + stream, column, push.columns);
}

void stream_store(uint row, uint stream, uint column, vec4 v)
{
    row_store_f32(push.out_rows, row * push.out_streams + stream, column, push.columns, v);
}

float stream_number(uint64_t numbers, uint index)
{
    return RowFloat(numbers + 4 * uint64_t(index)).value;
}
