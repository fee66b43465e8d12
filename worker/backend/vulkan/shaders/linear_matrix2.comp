#version 450
// needs: GL_NV_cooperative_matrix2
// variant: f16 -DDECODE=0 -DEDGES=1
// variant: f16_whole -DDECODE=0 -DEDGES=0
// variant: packed -DDECODE=1 -DEDGES=2
// variant: packed_whole -DDECODE=1 -DEDGES=0
/*
 * out[r, n] = x[r, :] . W[n, :] for many rows, by matrices that a whole workgroup holds (NV
 * cooperative matrix 2): the driver lays out tiles, shared memory and the order of loads.
 *
 * Variant f16 takes weights as f16 [n, k] (F16 matrices, or others unpacked by matrix_unpack);
 * the packed variants decode each element as it is loaded.
 *
 * Variants ..._whole are for shapes without edges: rows, outputs and k are multiples of the tile.
 * Loads that check for edges take three times as long, so f16 never checks: the memory after x and W
 * has room for whole tiles, and sums of its contents are not stored. k is a multiple of 32: the
 * remainder of k after steps of TILE_K is done in steps of 32. Only stores of tiles at an edge check
 * for it; compiling both stores makes the other tiles a sixth slower, hence the variants. Variant
 * packed reads zeros beyond edges and does not write there.
 *
 * Masks tell the compiler of which number a value is a multiple; without them it reads two bytes at a
 * time. Gated: a workgroup holds the sums of the gate and of the up of the same results.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#define WEIGHT_KIND_CONSTANT 1
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint EPILOGUE = 0;
layout(constant_id = 3) const uint FORMS = 1;
layout(constant_id = 4) const uint TILE_ROWS = 128;
layout(constant_id = 5) const uint TILE_COLUMNS = 256;
layout(constant_id = 6) const uint TILE_K = 64;

#include "matrix_push.glsl"
#include "matrix_outputs.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Halves { float16_t at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer HalvesOut { float16_t at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer EdgeFloats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer EdgeHalves { float16_t at[]; };
/* One block's codes; its coordinates give the place of its scales. */
layout(buffer_reference, std430, buffer_reference_align = 1) readonly buffer Codes4 { uint8_t bytes[16]; };

const uint COLUMNS = GATED ? TILE_COLUMNS / 2 : TILE_COLUMNS; /* of out */
#define ACCUMULATOR coopmat<float, gl_ScopeWorkgroup, TILE_ROWS, COLUMNS, gl_MatrixUseAccumulator>
#define ACCUMULATOR16 \
    coopmat<float16_t, gl_ScopeWorkgroup, TILE_ROWS, COLUMNS, gl_MatrixUseAccumulator>
#define FACTOR_X(depth) coopmat<float16_t, gl_ScopeWorkgroup, TILE_ROWS, depth, gl_MatrixUseA>
#define FACTOR_W(depth) coopmat<float16_t, gl_ScopeWorkgroup, depth, COLUMNS, gl_MatrixUseB>
const uint REST_K = 32; /* what k is a multiple of */
const uint ALIGNED = 8; /* outputs: columns of which rows are multiples inside of the edges */
const uint ANYWHERE = gl_CooperativeMatrixClampModeUndefinedNV;
const uint AT_EDGES = gl_CooperativeMatrixClampModeConstantNV;
const uint LOADS = EDGES < 2 ? ANYWHERE : AT_EDGES;

#if DECODE
float16_t decode_block(const in Codes4 codes, const in uint place[2], const in uint coordinate[2])
{
    uint e = coordinate[1];
    uint block = place[0] * (push.k / WEIGHT_BLOCK) + place[1];
    float16_t code;
    if (WEIGHT_KIND == WEIGHT_Q4_0 || WEIGHT_KIND == WEIGHT_Q4_1) {
        uint byte = codes.bytes[e & 15];
        code = float16_t(int(byte >> (e & 16) / 4 & 15) - int(WEIGHT_CENTER));
    } else {
        uint word = weight_codes(weight_load(push.weights, block), e / 4);
        int value = int(word << 8 * (3 - e % 4)) >> 24;
        code = float16_t(value - int(WEIGHT_CENTER));
    }
    f16vec4 scales = weight_load_scales(push.weights, block);
    f16vec2 terms = e < 16 ? scales.xy : scales.zw;
    return weight_scaled(f16vec4(code), terms, weight_load_factor(push.weights, block)).x;
}
#endif

float combine(const in uint row, const in uint column, const in float gate, const in float up)
{
    return gated_value(gate, up);
}

float16_t finite_half(const in uint row, const in uint column, const in float16_t unused,
                      const in float value)
{
    return float16_t(clamp(value, -HALF_LARGEST, HALF_LARGEST));
}

float bounded(const in uint row, const in uint column, const in float value)
{
    return clamp(value, -HALF_LARGEST, HALF_LARGEST);
}

/* For main(): loads columns k … k + depth of the weights from row `first` on. */
#if DECODE
#define LOAD_W(into, first, depth)                                                                  \
    coopMatLoadTensorNV(into, w.bytes, 0, sliceTensorLayoutNV(w_layout, first, COLUMNS, k, depth),  \
                        transposed, decode_block)
#else
#define LOAD_W(into, first, depth)                                                                  \
    coopMatLoadTensorNV(into, w.at, 0, sliceTensorLayoutNV(w_layout, first, COLUMNS, k, depth),     \
                        transposed)
#endif

/* For main(): adds the products of those columns to the sums. */
#define ADD_PRODUCTS(depth)                                                                         \
    {                                                                                               \
        FACTOR_X(depth) factor_x;                                                                   \
        FACTOR_W(depth) factor_w;                                                                   \
        coopMatLoadTensorNV(factor_x, x.at, 0,                                                      \
                            sliceTensorLayoutNV(x_layout, row, TILE_ROWS, k, depth));               \
        LOAD_W(factor_w, column, depth);                                                            \
        sums = coopMatMulAdd(factor_x, factor_w, sums);                                             \
        if (GATED) {                                                                                \
            LOAD_W(factor_w, outputs + column, depth);                                              \
            up_sums = coopMatMulAdd(factor_x, factor_w, up_sums);                                   \
        }                                                                                           \
    }

/* For main(): stores the finished sums, in a layout of the outputs. */
#define STORE(floats, halves, layout)                                                               \
    {                                                                                               \
        if (EPILOGUE == EPILOGUE_ADD) {                                                             \
            ACCUMULATOR before = ACCUMULATOR(0.0);                                                  \
            coopMatLoadTensorNV(before, floats.at, 0,                                               \
                                sliceTensorLayoutNV(layout, row, TILE_ROWS, column, COLUMNS));      \
            sums += before;                                                                         \
        }                                                                                           \
        if ((FORMS & FORM_F32) != 0)                                                                \
            coopMatStoreTensorNV(sums, floats.at, 0,                                                \
                                 sliceTensorLayoutNV(layout, row, TILE_ROWS, column, COLUMNS));     \
        if ((FORMS & FORM_F16) != 0) {                                                              \
            coopMatPerElementNV(sums, sums, bounded);                                               \
            coopMatStoreTensorNV(ACCUMULATOR16(sums), halves.at, 0,                                 \
                                 sliceTensorLayoutNV(layout, row, TILE_ROWS, column, COLUMNS));     \
        }                                                                                           \
    }

void main()
{
    uint k_count = push.k & ~(EDGES == 0 ? 63u : REST_K - 1);
    uint n = push.n & ~(EDGES == 0 ? 63u : 0u), rows = push.rows & ~(EDGES == 0 ? 15u : 0u);
    uint outputs = GATED ? n / 2 : n;
    uint row = gl_WorkGroupID.x * TILE_ROWS, column = gl_WorkGroupID.y * COLUMNS;
    uint x_rows = rows, w_rows = n;
#if EDGES == 1
    x_rows = gl_NumWorkGroups.x * TILE_ROWS;
    w_rows = n - outputs + gl_NumWorkGroups.y * COLUMNS;
#endif

    tensorLayoutNV<2, LOADS> x_layout = createTensorLayoutNV(2, LOADS);
    x_layout = setTensorLayoutDimensionNV(x_layout, x_rows, k_count);
    x_layout = setTensorLayoutStrideNV(x_layout, k_count, 1);
    tensorLayoutNV<2, LOADS> w_layout = createTensorLayoutNV(2, LOADS);
#if DECODE
    w_layout = setTensorLayoutBlockSizeNV(w_layout, 1, WEIGHT_BLOCK);
#endif
    w_layout = setTensorLayoutDimensionNV(w_layout, w_rows, k_count);
#if DECODE
    w_layout = setTensorLayoutStrideNV(w_layout, k_count / WEIGHT_BLOCK, 1);
#else
    w_layout = setTensorLayoutStrideNV(w_layout, k_count, 1);
#endif
    tensorViewNV<2, false, 1, 0> transposed = createTensorViewNV(2, false, 1, 0);

    Halves x = Halves(push.x);
#if DECODE
    Codes4 w = Codes4(push.weights.codes);
#else
    Halves w = Halves(push.weights.codes);
#endif

    ACCUMULATOR sums = ACCUMULATOR(0.0), up_sums = ACCUMULATOR(0.0);
    uint k = 0;
#if EDGES == 1
    for (; k + TILE_K <= k_count; k += TILE_K)
        ADD_PRODUCTS(TILE_K)
    for (; k < k_count; k += REST_K)
        ADD_PRODUCTS(REST_K)
#else
    for (; k < k_count; k += TILE_K)
        ADD_PRODUCTS(TILE_K)
#endif
    if (GATED)
        coopMatPerElementNV(sums, sums, combine, up_sums);

#if EDGES < 2
    tensorLayoutNV<2, ANYWHERE> inside = createTensorLayoutNV(2, ANYWHERE);
    inside = setTensorLayoutDimensionNV(inside, rows, outputs);
    inside = setTensorLayoutStrideNV(inside, push.out_stride & ~(EDGES == 0 ? 31u : ALIGNED - 1), 1);
#endif
#if EDGES > 0
    tensorLayoutNV<2, AT_EDGES> edged = createTensorLayoutNV(2, AT_EDGES);
    edged = setTensorLayoutDimensionNV(edged, rows, outputs);
    edged = setTensorLayoutStrideNV(edged, push.out_stride, 1);
#endif
#if EDGES == 1
    bool aligned = push.out_stride % ALIGNED == 0 && (uint(push.out_f32) & 15) == 0;
    if (row + TILE_ROWS <= rows && column + COLUMNS <= outputs && aligned)
        STORE(Floats(push.out_f32), HalvesOut(push.out_f16), inside)
    else
        STORE(EdgeFloats(push.out_f32), EdgeHalves(push.out_f16), edged)
#elif EDGES == 0
    STORE(Floats(push.out_f32), HalvesOut(push.out_f16), inside)
#else
    STORE(Floats(push.out_f32), HalvesOut(push.out_f16), edged)
#endif
}
