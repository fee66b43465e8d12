/*
 * Products of a few rows of x with 16 * OUTPUT_TILES rows of W, in matrix units of 16 x 8 x 16 whose
 * registers are filled by hand. A lane reads the packed weights of the fragment elements that it holds,
 * once; they pass neither through shared memory nor through another lane.
 *
 * This requires a known layout: lane 4 g + t holds, in this order,
 *     A (outputs x columns)   of row g, then g + 8: columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9
 *     B (columns x rows)      the same columns of row g
 *     sums (outputs x rows)   of output g, then g + 8: rows 2 t and 2 t + 1
 *
 * The order of the columns is free if both factors have the same: lane 4 g + t takes a whole block of 32
 * columns of its rows, the four lanes of a row four neighbouring blocks, and each of eight products uses
 * four columns of every lane's block.
 *
 * SPLIT subgroups share the outputs and alternate on the columns; their sums are added in shared memory
 * in a fixed order. The includer has defined the push constant k_count, a multiple of 32; TILED, whether
 * x has the order of tiled_halves.glsl; and the functions below that map rows. Weights are quantized.
 */
layout(constant_id = 2) const uint ROWS = 8;
layout(constant_id = 3) const uint EPILOGUE = 0;
layout(constant_id = 4) const uint FORMS = 1;
layout(constant_id = 5) const uint OUTPUT_TILES = 2; /* of 16 outputs, of a team */
layout(constant_id = 6) const uint SUBGROUPS = 8;    /* of a workgroup */
layout(constant_id = 7) const uint SPLIT = 8;        /* of those that share outputs */
layout(constant_id = 8) const bool AHEAD = true;     /* load a step before the last one's products */

const uint EPILOGUE_STORE = 0, EPILOGUE_ADD = 1, EPILOGUE_GATE_SILU = 2, EPILOGUE_GATE_GELU = 3;
const uint FORM_F32 = 1, FORM_F16 = 2, FORM_TILED = 8;
const bool GATED = EPILOGUE >= EPILOGUE_GATE_SILU;
const uint ROW_TILES = (ROWS + 7) / 8;
const uint OUTPUTS = 16 * OUTPUT_TILES; /* of a team: the subgroups that share outputs */
const uint TEAMS = SUBGROUPS / SPLIT;
const uint RESULTS = GATED ? OUTPUTS / 2 : OUTPUTS; /* columns of out */

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Halves8 { uvec4 at[]; };

/* The i-th eight columns of a block of row g of the r-th eight rows of x. */
uvec4 x_piece(uint r, uint g, uint block, uint i);
/* An existing row of W for row g (upper: g + 8) of the m-th sixteen outputs. Gated, the upper rows are
 * the up's of the lower ones. */
WeightMatrix weight_matrix(bool upper);
uint weight_row(uint m, uint g, bool upper);

/* One output more than there is keeps rows out of each other's banks. */
shared float shared_sums[SUBGROUPS * ROW_TILES * 8 * (OUTPUTS + 1)];

struct Factors {
    WeightBlock low[OUTPUT_TILES]; /* of row g of each tile */
    WeightBlock high[OUTPUT_TILES]; /* of row g + 8 */
    uvec4 x[ROW_TILES * 4]; /* 32 columns of row g of each tile of rows */
};

Factors factors; /* of the step at work */
Factors ahead;
coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums[OUTPUT_TILES * ROW_TILES];

void load_factors(uint step)
{
    uint g = gl_SubgroupInvocationID / 4, t = gl_SubgroupInvocationID % 4;
    uint blocks = push.k_count / WEIGHT_BLOCK;
    uint block = 4 * step + t;
    bool inside = block < blocks;
    block = min(block, blocks - 1);
    [[unroll]] for (uint m = 0; m < OUTPUT_TILES; m++)
    {
        ahead.low[m] =
            weight_load(weight_matrix(false), weight_row(m, g, false) * blocks + block);
        ahead.high[m] = weight_load(weight_matrix(true), weight_row(m, g, true) * blocks + block);
        if (!inside) {
            ahead.low[m].scales = f16vec4(0.0hf);
            ahead.high[m].scales = f16vec4(0.0hf);
        }
    }
    [[unroll]] for (uint r = 0; r < ROW_TILES; r++)
        [[unroll]] for (uint i = 0; i < 4; i++)
            ahead.x[4 * r + i] = x_piece(r, g, block, i);
}

void take_factors()
{
    [[unroll]] for (uint m = 0; m < OUTPUT_TILES; m++)
    {
        factors.low[m] = ahead.low[m];
        factors.high[m] = ahead.high[m];
    }
    [[unroll]] for (uint i = 0; i < 4 * ROW_TILES; i++)
        factors.x[i] = ahead.x[i];
}

/* Columns 4 * j .. + 3 of the lane's block, in the order 0 2 1 3. */
f16vec4 activations(uint r, uint j)
{
    uvec4 eight = factors.x[4 * r + j / 2];
    f16vec2 first = unpackFloat2x16((j & 1) == 0 ? eight.x : eight.z);
    f16vec2 second = unpackFloat2x16((j & 1) == 0 ? eight.y : eight.w);
    return TILED ? f16vec4(first, second) : f16vec4(first.x, second.x, first.y, second.y);
}

void multiply()
{
    [[unroll]] for (uint j = 0; j < 8; j++)
    {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> b[ROW_TILES];
        [[unroll]] for (uint r = 0; r < ROW_TILES; r++)
        {
            f16vec4 x = activations(r, j);
            b[r][0] = x.x;
            b[r][1] = x.y;
            b[r][2] = x.z;
            b[r][3] = x.w;
        }
        [[unroll]] for (uint m = 0; m < OUTPUT_TILES; m++)
        {
            coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
            f16vec4 low = weight_pairs(factors.low[m], j);
            f16vec4 high = weight_pairs(factors.high[m], j);
            a[0] = low.x;
            a[1] = low.y;
            a[2] = low.z;
            a[3] = low.w;
            a[4] = high.x;
            a[5] = high.y;
            a[6] = high.z;
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

/* Outputs of a tile lie in order; gated, the gate's are even and the up's odd. */
void leave_sums()
{
    uint g = gl_SubgroupInvocationID / 4, t = gl_SubgroupInvocationID % 4;
    [[unroll]] for (uint m = 0; m < OUTPUT_TILES; m++)
        [[unroll]] for (uint r = 0; r < ROW_TILES; r++)
            [[unroll]] for (uint e = 0; e < 4; e++)
    {
        uint i = GATED ? 16 * m + 2 * g + e / 2 : 16 * m + g + 8 * (e / 2);
        shared_sums[sum_place(gl_SubgroupID, 8 * r + 2 * t + (e & 1), i)] =
            sums[m * ROW_TILES + r][e];
    }
}

float total(uint team, uint row, uint i)
{
    float sum = 0.0;
    [[unroll]] for (uint s = 0; s < SPLIT; s++)
        sum += shared_sums[sum_place(team * SPLIT + s, row, i)];
    return sum;
}

float activate(float x)
{
    if (EPILOGUE == EPILOGUE_GATE_SILU)
        return x / (1.0 + exp(-x));
    float inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + tanh(clamp(inner, -15.0, 15.0)));
}

/* Computes the sums of all subgroups; each takes every SPLIT-th step of the columns. */
void multiply_columns()
{
    uint steps = (push.k_count / WEIGHT_BLOCK + 3) / 4;
    uint step = gl_SubgroupID % SPLIT;
    if (step < steps)
        load_factors(step);
    [[unroll]] for (uint i = 0; i < OUTPUT_TILES * ROW_TILES; i++)
        sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    for (; step < steps; step += SPLIT) {
        take_factors();
        if (AHEAD && step + SPLIT < steps)
            load_factors(step + SPLIT);
        multiply();
        if (!AHEAD && step + SPLIT < steps)
            load_factors(step + SPLIT);
    }
    leave_sums();
    barrier();
}
