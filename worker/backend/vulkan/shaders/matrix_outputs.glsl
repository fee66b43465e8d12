/*
 * The last step of matrix kernels: store a finished sum, add it to the output, or combine a gate's
 * with its up's. The includer has defined EPILOGUE and FORMS (specialization constants, see
 * vulkan_push.h) and the push constants out_f32, out_f16 and out_stride.
 */
const uint EPILOGUE_STORE = 0, EPILOGUE_ADD = 1, EPILOGUE_GATE_SILU = 2, EPILOGUE_GATE_GELU = 3;
const bool GATED = EPILOGUE >= EPILOGUE_GATE_SILU;
const uint FORM_F32 = 1, FORM_F16 = 2;
const float HALF_LARGEST = 65504.0;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer OutputFloats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer OutputHalves { float16_t at[]; };

/* gelu(x) by its tanh formula: x * sigmoid(2 u), so that no tanh of a large number is taken. */
float gated_value(float gate, float up)
{
    float u = EPILOGUE == EPILOGUE_GATE_GELU
                  ? 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)
                  : gate;
    return gate / (1.0 + exp(-u)) * up;
}

/* The number that `value` is added to. Loads placed before all stores are in flight together. */
float output_before(uint row, uint column)
{
    return EPILOGUE == EPILOGUE_ADD ? OutputFloats(push.out_f32).at[row * push.out_stride + column]
                                    : 0.0;
}

void put_output(uint row, uint column, float value)
{
    uint index = row * push.out_stride + column;
    if ((FORMS & FORM_F32) != 0)
        OutputFloats(push.out_f32).at[index] = value;
    if ((FORMS & FORM_F16) != 0)
        OutputHalves(push.out_f16).at[index] = float16_t(clamp(value, -HALF_LARGEST, HALF_LARGEST));
}

void write_output(uint row, uint column, float value)
{
    put_output(row, column, value + output_before(row, column));
}
