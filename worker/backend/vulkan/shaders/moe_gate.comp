#version 450
/*
 * The activation of one half of an expert's columns times the other half, biases added first
 * (op_list.h). Both activations are v * sigmoid(inner), as in gate.comp.
 *
 * Grid: (pairs of row and expert, column tiles). An invocation does one column.
 */
#extension GL_GOOGLE_include_directive : require
#include "moe_groups.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ACTIVATION = 0;
layout(constant_id = 2) const uint INTERLEAVED = 0;
layout(constant_id = 3) const uint LIMITED = 0;

layout(push_constant) uniform Push
{
    uint64_t x;       /* f32 [pairs, 2 * columns] */
    uint64_t route;   /* f32 [rows, 2 * chosen] */
    uint64_t bias;    /* f32 [experts, bias_columns], or 0 */
    uint64_t bias_up; /* the same of the columns from bias_columns on */
    uint64_t out_f32; /* f32 [pairs, columns] */
    uint columns;
    uint chosen;
    uint bias_columns;
    float limit;
    float alpha;
} push;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

const uint ACTIVATION_GELU_TANH = 1;

float load(uint pair, uint expert, uint column)
{
    float v = MoeFloats(push.x + 8 * uint64_t(pair) * push.columns).at[column];
    if (push.bias == 0)
        return v;
    bool up = column >= push.bias_columns;
    MoeFloats bias = MoeFloats((up ? push.bias_up : push.bias) +
                               4 * uint64_t(expert) * push.bias_columns);
    return v + bias.at[up ? column - push.bias_columns : column];
}

void main()
{
    uint pair = gl_WorkGroupID.x;
    uint column = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (column >= push.columns)
        return;
    uint expert = moe_expert(push.route, pair, push.chosen);
    float gate = load(pair, expert, INTERLEAVED != 0 ? 2 * column : column);
    float up = load(pair, expert, INTERLEAVED != 0 ? 2 * column + 1 : push.columns + column);
    float inner = gate;
    if (LIMITED != 0) {
        gate = min(gate, push.limit);
        up = clamp(up, -push.limit, push.limit) + 1.0;
        inner = push.alpha * gate;
    } else if (ACTIVATION == ACTIVATION_GELU_TANH) {
        inner = 1.5957691216057308 * gate * (1.0 + 0.044715 * gate * gate);
    }
    Floats(push.out_f32 + 4 * uint64_t(pair) * push.columns).at[column] =
        gate / (1.0 + exp(-inner)) * up;
}
