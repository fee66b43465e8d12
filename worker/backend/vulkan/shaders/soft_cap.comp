#version 450
/*
 * out[r, c] = cap * tanh(scale * x[r, c] / cap), or scale * x[r, c] when cap is 0. `out` may be x.
 *
 * tanh(v) = 1 - 2 / (1 + exp(2 v)) is exact at both ends, where exp() is 0 or infinite; near 0,
 * where it cancels, v's Taylor polynomial of degree 9 is used.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(push_constant) uniform Push
{
    uint64_t x; /* f32 [rows, columns] */
    RowOutputs outputs;
    uint columns;
    float scale;
    float cap;
} push;

vec4 bounded(vec4 v)
{
    vec4 far = 1.0 - 2.0 / (1.0 + exp(2.0 * v));
    vec4 square = v * v;
    vec4 near = v + v * square *
                        (-1.0 / 3.0 + square * (2.0 / 15.0 + square * (-17.0 / 315.0 +
                                                                       square * (62.0 / 2835.0))));
    return mix(far, near, lessThan(abs(v), vec4(0.25)));
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    vec4 v = push.scale * row_load(push.x, row, column, push.columns);
    if (push.cap > 0.0)
        v = push.cap * bounded(v / push.cap);
    row_store(push.outputs, row, column, push.columns, v);
}
