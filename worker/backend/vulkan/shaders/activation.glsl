/*
 * Activations of gates. SIGMOID is sigmoid(v), SILU and GELU are v * sigmoid(inner): silu with inner = v, gelu by its tanh
 * approximation with inner = 2 sqrt(2/pi) (v + 0.044715 v^3).
 */
layout(constant_id = 2) const uint ACTIVATION = 0;
const uint ACTIVATION_SILU = 0, ACTIVATION_GELU_TANH = 1, ACTIVATION_PLAIN = 2, ACTIVATION_SIGMOID = 3;

vec4 activation(vec4 v)
{
    vec4 inner = v;
    if (ACTIVATION == ACTIVATION_PLAIN)
        return v;
    if (ACTIVATION == ACTIVATION_GELU_TANH)
        inner = 1.5957691216057308 * v * (1.0 + 0.044715 * v * v);
    /* If exp() overflows, the result is -0, the limit of the function. */
    vec4 whole = ACTIVATION == ACTIVATION_SIGMOID ? vec4(1.0) : v;
    return whole / (1.0 + exp(-inner));
}
