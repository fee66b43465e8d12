#version 450
// needs: GL_KHR_cooperative_matrix
/*
 * out[r, n] = x[r, :] . W[n, :] for a handful of rows r, in matrix units whose registers are filled
 * by hand: W is read once, packed, by the very lanes whose part of a fragment it becomes, and goes
 * neither through shared memory nor through another lane.
 *
 * That takes knowing which lane holds which element. The kernel is for units of 16 x 8 x 16 where
 * lane 4 g + t holds, with columns k and k + 1 side by side,
 *     A (outputs x columns)   rows g and g + 8, columns 2 t and 2 t + 8
 *     B (columns x rows)      columns 2 t and 2 t + 8 of row g
 *     sums (outputs x rows)   outputs g and g + 8, rows 2 t and 2 t + 1
 * which linear_register_probe.comp finds out when a device is opened; elsewhere other kernels do.
 *
 * Any order of the columns will do as long as both factors have the same: lane 4 g + t takes a whole
 * block of 32 columns of its rows, the four lanes of a row four neighbouring blocks, and eight
 * products use up four columns of every lane's block each.
 *
 * The subgroups of a workgroup share 16 * OUTPUT_TILES outputs and take turns on the columns; their
 * sums meet in shared memory in a fixed order. Gated, half of the tiles are the gate's rows and half
 * the up's of the same columns. x is f16, k a multiple of 32, weights are quantized.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#define WEIGHT_KIND_CONSTANT 1
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint ROWS = 8;
layout(constant_id = 3) const uint EPILOGUE = 0;
layout(constant_id = 4) const uint FORMS = 1;
layout(constant_id = 5) const uint OUTPUT_TILES = 2; /* of 16 outputs; gated: even */
layout(constant_id = 6) const uint SUBGROUPS = 8;    /* of a workgroup */
layout(constant_id = 7) const uint DEPTH = 1;        /* blocks a lane loads ahead of each row */

const uint EPILOGUE_STORE = 0, EPILOGUE_ADD = 1, EPILOGUE_GATE_SILU = 2, EPILOGUE_GATE_GELU = 3;
const uint FORM_F32 = 1, FORM_F16 = 2;
const bool GATED = EPILOGUE >= EPILOGUE_GATE_SILU;
const uint ROW_TILES = (ROWS + 7) / 8;
const uint OUTPUTS = 16 * OUTPUT_TILES;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Halves8 { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { float16_t at[]; };

layout(push_constant) uniform Push
{
    WeightMatrix weights;
    uint64_t x; /* f16 [ROWS, k_count] */
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
} push;

/* A row more than there is keeps subgroups' sums of one output out of each other's banks. */
shared float shared_sums[SUBGROUPS * ROW_TILES * 8 * (OUTPUTS + 1)];

struct Factors {
    WeightBlock low[OUTPUT_TILES]; /* of row g of each tile */
    WeightBlock high[OUTPUT_TILES]; /* of row g + 8 */
    uvec4 x[ROW_TILES * 4]; /* 32 columns of row g of each tile of rows */
};

Factors ahead[DEPTH];
coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums[OUTPUT_TILES * ROW_TILES];

/* Row of W that is output `i` of the workgroup's; not below n_count: there is none. */
uint weight_row(uint i)
{
    if (!GATED)
        return gl_WorkGroupID.x * OUTPUTS + i;
    uint column = gl_WorkGroupID.x * (OUTPUTS / 2) + i % (OUTPUTS / 2);
    uint half_count = push.n_count / 2;
    return column < half_count ? column + i / (OUTPUTS / 2) * half_count : push.n_count;
}

void load_factors(uint d, uint step)
{
    uint g = gl_SubgroupInvocationID / 4, t = gl_SubgroupInvocationID % 4;
    uint blocks = push.k_count / WEIGHT_BLOCK;
    uint block = 4 * step + t;
    bool inside = block < blocks;
    block = min(block, blocks - 1);
    [[unroll]] for (uint m = 0; m < OUTPUT_TILES; m++)
    {
        uint low = min(weight_row(16 * m + g), push.n_count - 1);
        uint high = min(weight_row(16 * m + g + 8), push.n_count - 1);
        ahead[d].low[m] = weight_load(push.weights, low * blocks + block);
        ahead[d].high[m] = weight_load(push.weights, high * blocks + block);
        if (!inside) {
            ahead[d].low[m].scales = f16vec4(0.0hf);
            ahead[d].high[m].scales = f16vec4(0.0hf);
        }
    }
    [[unroll]] for (uint r = 0; r < ROW_TILES; r++)
    {
        uint row = min(8 * r + g, ROWS - 1);
        [[unroll]] for (uint i = 0; i < 4; i++)
            ahead[d].x[4 * r + i] = Halves8(push.x).at[(row * blocks + block) * 4 + i];
    }
}

/* Columns 4 * j .. + 3 of the lane's block, in the order 0 2 1 3. */
f16vec4 activations(uint d, uint r, uint j)
{
    uvec4 eight = ahead[d].x[4 * r + j / 2];
    f16vec2 first = unpackFloat2x16((j & 1) == 0 ? eight.x : eight.z);
    f16vec2 second = unpackFloat2x16((j & 1) == 0 ? eight.y : eight.w);
    return f16vec4(first.x, second.x, first.y, second.y);
}

void multiply(uint d)
{
    [[unroll]] for (uint j = 0; j < 8; j++)
    {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> b[ROW_TILES];
        [[unroll]] for (uint r = 0; r < ROW_TILES; r++)
        {
            f16vec4 x = activations(d, r, j);
            b[r][0] = x.x;
            b[r][1] = x.y;
            b[r][2] = x.z;
            b[r][3] = x.w;
        }
        [[unroll]] for (uint m = 0; m < OUTPUT_TILES; m++)
        {
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
            f16vec4 low = weight_halves(ahead[d].low[m], j);
            f16vec4 high = weight_halves(ahead[d].high[m], j);
            a[0] = low.x;
            a[1] = low.z;
            a[2] = high.x;
            a[3] = high.z;
            a[4] = low.y;
            a[5] = low.w;
            a[6] = high.y;
            a[7] = high.w;
            [[unroll]] for (uint r = 0; r < ROW_TILES; r++)
                sums[m * ROW_TILES + r] = coopMatMulAdd(a, b[r], sums[m * ROW_TILES + r]);
        }
    }
}

uint sum_place(uint subgroup, uint row, uint i)
{
    return (subgroup * ROW_TILES * 8 + row) * (OUTPUTS + 1) + i;
}

void leave_sums()
{
    uint g = gl_SubgroupInvocationID / 4, t = gl_SubgroupInvocationID % 4;
    [[unroll]] for (uint m = 0; m < OUTPUT_TILES; m++)
        [[unroll]] for (uint r = 0; r < ROW_TILES; r++)
            [[unroll]] for (uint e = 0; e < 4; e++)
                shared_sums[sum_place(gl_SubgroupID, 8 * r + 2 * t + (e & 1),
                                      16 * m + g + 8 * (e / 2))] = sums[m * ROW_TILES + r][e];
}

float total(uint row, uint i)
{
    float sum = 0.0;
    [[unroll]] for (uint s = 0; s < SUBGROUPS; s++)
        sum += shared_sums[sum_place(s, row, i)];
    return sum;
}

float activate(float x)
{
    if (EPILOGUE == EPILOGUE_GATE_SILU)
        return x / (1.0 + exp(-x));
    float inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + tanh(clamp(inner, -15.0, 15.0)));
}

void store(uint row, uint column, float value)
{
    uint at = row * push.out_stride + column;
    if (EPILOGUE == EPILOGUE_ADD)
        value += Floats(push.out_f32).at[at];
    if (EPILOGUE == EPILOGUE_ADD || (FORMS & FORM_F32) != 0)
        Floats(push.out_f32).at[at] = value;
    if ((FORMS & FORM_F16) != 0)
        Halves(push.out_f16).at[at] = float16_t(clamp(value, -65504.0, 65504.0));
}

void finish()
{
    const uint results = GATED ? OUTPUTS / 2 : OUTPUTS;
    uint columns = GATED ? push.n_count / 2 : push.n_count;
    for (uint i = gl_LocalInvocationIndex; i < results * ROWS; i += gl_WorkGroupSize.x) {
        uint row = i / results, slot = i % results;
        uint column = gl_WorkGroupID.x * results + slot;
        float value = total(row, slot);
        if (GATED)
            value = activate(value) * total(row, slot + results);
        if (column < columns)
            store(row, column, value);
    }
}

void main()
{
    uint steps = (push.k_count / WEIGHT_BLOCK + 3) / 4;
    uint stride = SUBGROUPS * DEPTH;
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
        load_factors(d, gl_SubgroupID * DEPTH + d);
    [[unroll]] for (uint i = 0; i < OUTPUT_TILES * ROW_TILES; i++)
        sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    for (uint step = gl_SubgroupID * DEPTH; step < steps; step += stride) {
        [[unroll]] for (uint d = 0; d < DEPTH; d++)
        {
            if (step + d < steps)
                multiply(d);
            if (step + stride < steps)
                load_factors(d, step + stride + d);
        }
    }
    leave_sums();
    barrier();
    finish();
}
