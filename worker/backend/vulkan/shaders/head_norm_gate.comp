#version 450
/*
 * out[r, h, :] = rms_norm(x[r, h, :]) * weights * silu(gates[r, h, :]).
 *
 * Each invocation sums the squares of the heads of its four columns itself: heads are short, their
 * elements are in the cache, and no barrier is needed.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [rows, columns] */
    uint64_t gates;   /* f32 [rows, gate_stride] */
    uint64_t weights; /* f32 [head_dim] */
    RowOutputs outputs;
    uint columns;
    uint gate_stride;
    uint gate_offset;
    uint head_dim;
    float epsilon;
} push;

float norm_factor(Floats x, uint head)
{
    float squares = 0.0;
    for (uint d = 0; d < push.head_dim; d++) {
        float element = x.at[head * push.head_dim + d];
        squares += element * element;
    }
    return inversesqrt(squares / float(push.head_dim) + push.epsilon);
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint first = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    Floats x = Floats(push.x + 4 * (uint64_t(row) * push.columns));
    Floats gates = Floats(push.gates + 4 * (uint64_t(row) * push.gate_stride + push.gate_offset));
    vec4 v = vec4(0.0);
    uint head = 0xffffffff;
    float factor = 0.0;
    for (uint i = 0; i < 4 && first + i < push.columns; i++) {
        uint column = first + i;
        if (column / push.head_dim != head) {
            head = column / push.head_dim;
            factor = norm_factor(x, head);
        }
        float gate = gates.at[column];
        v[i] = x.at[column] * factor * Floats(push.weights).at[column % push.head_dim] * gate /
               (1.0 + exp(-gate));
    }
    row_store(push.outputs, row, first, push.columns, v);
}
