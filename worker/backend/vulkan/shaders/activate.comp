#version 450
/*
 * out[r, c] = activation(x[r, c]); columns of out from `columns` on are 0. `out` may be x. The forms of
 * silu and gelu are v * sigmoid(inner), as in activation.glsl, but for the exact gelu. The error function is Abramowitz and
 * Stegun's 7.1.26, with an error of 1.5e-7.
 *
 * Grid: (rows, column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"

layout(constant_id = 2) const uint ACTIVATION = 0; /* enum activation */
const uint SILU = 0, GELU_TANH = 1, GELU_ERF = 2, GELU_QUICK = 3, RELU2 = 4, XIELU = 5;

layout(push_constant) uniform Push
{
    uint64_t x; /* f32 [rows, row_columns] */
    RowOutputs outputs; /* likewise */
    uint row_columns;
    uint columns;
    float positive; /* of XIELU: op_list.h, enum activation */
    float negative;
    float linear;
    float least;
} push;

vec4 error_function(vec4 v)
{
    vec4 t = 1.0 / (1.0 + 0.3275911 * abs(v));
    vec4 sum = t * (0.254829592 +
                    t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return sign(v) * (1.0 - sum * exp(-v * v));
}

vec4 activate(vec4 v)
{
    if (ACTIVATION == GELU_ERF)
        return 0.5 * v * (1.0 + error_function(v * 0.70710678));
    if (ACTIVATION == RELU2)
        return max(v, vec4(0.0)) * max(v, vec4(0.0));
    if (ACTIVATION == XIELU) {
        vec4 below = push.negative * (exp(min(v, vec4(push.least))) - 1.0 - v);
        vec4 curve = mix(below, push.positive * v * v, greaterThan(v, vec4(0.0)));
        return curve + push.linear * v;
    }
    vec4 inner = v;
    if (ACTIVATION == GELU_TANH)
        inner = 1.5957691216057308 * v * (1.0 + 0.044715 * v * v);
    else if (ACTIVATION == GELU_QUICK)
        inner = 1.702 * v;
    /* If exp() overflows, the result is -0, the limit of the function. */
    return v / (1.0 + exp(-inner));
}

void main()
{
    uint row = gl_WorkGroupID.x;
    uint column = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    vec4 v = row_load(push.x, row, column, push.row_columns);
    v = mix(vec4(0.0), v, lessThan(column + uvec4(0, 1, 2, 3), uvec4(push.columns)));
    row_store(push.outputs, row, column, push.row_columns, activate(v));
}
