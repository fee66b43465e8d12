#version 450
// needs: GL_NV_cooperative_matrix2
// variant: f16 -DDECODE=0 -DWHOLE=0
// variant: f16_whole -DDECODE=0 -DWHOLE=1
// variant: packed -DDECODE=1 -DWHOLE=0
// variant: packed_whole -DDECODE=1 -DWHOLE=1
/*
 * out[r, n] = x[r, :] . W[n, :] for many rows, by matrices that a whole workgroup holds (NV
 * cooperative matrix 2): the driver lays out tiles, shared memory and the order of loads.
 *
 * Variant f16 takes weights as f16 [n, k] (F16 matrices, or others unpacked by matrix_unpack);
 * variant packed reads them packed and decodes each element as it is loaded.
 *
 * Variants ..._whole are for shapes without edges: rows, outputs and k are multiples of the tile.
 * Others read zeros beyond the edge and do not write there. k is a multiple of 32: the mask says so
 * to the compiler, which without it reads two bytes at a time.
 *
 * Gated: a workgroup holds the sums of the gate and of the up of the same results.
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
/* One block's codes, and what else belongs to it found by its coordinates. */
layout(buffer_reference, std430, buffer_reference_align = 1) readonly buffer Codes4 { uint8_t bytes[16]; };

const uint COLUMNS = GATED ? TILE_COLUMNS / 2 : TILE_COLUMNS; /* of out */
#define ACCUMULATOR coopmat<float, gl_ScopeWorkgroup, TILE_ROWS, COLUMNS, gl_MatrixUseAccumulator>
#define ACCUMULATOR16 \
    coopmat<float16_t, gl_ScopeWorkgroup, TILE_ROWS, COLUMNS, gl_MatrixUseAccumulator>
#define FACTOR_X coopmat<float16_t, gl_ScopeWorkgroup, TILE_ROWS, TILE_K, gl_MatrixUseA>
#define FACTOR_W coopmat<float16_t, gl_ScopeWorkgroup, TILE_K, COLUMNS, gl_MatrixUseB>
#if WHOLE
const uint CLAMP = gl_CooperativeMatrixClampModeUndefinedNV;
#else
const uint CLAMP = gl_CooperativeMatrixClampModeConstantNV;
#endif

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
    return WEIGHT_MINIMUM ? code * terms.x + terms.y : code * terms.x;
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

/* In main(): columns k … k + TILE_K of the weights from row `first` on. */
#if DECODE
#define LOAD_W(into, first) \
    coopMatLoadTensorNV(into, w.bytes, 0, sliceTensorLayoutNV(w_layout, first, COLUMNS, k, TILE_K), \
                        transposed, decode_block)
#else
#define LOAD_W(into, first) \
    coopMatLoadTensorNV(into, w.at, 0, sliceTensorLayoutNV(w_layout, first, COLUMNS, k, TILE_K), \
                        transposed)
#endif

void main()
{
    uint k_count = push.k & ~31u;
    uint rows = push.rows, n = push.n, stride = push.out_stride;
#if WHOLE
    rows &= ~15u;
    k_count &= ~63u;
    n &= ~63u;
    stride &= ~31u;
#endif
    uint outputs = GATED ? n / 2 : n;
    uint row = gl_WorkGroupID.x * TILE_ROWS, column = gl_WorkGroupID.y * COLUMNS;

    tensorLayoutNV<2, CLAMP> x_layout = createTensorLayoutNV(2, CLAMP);
    x_layout = setTensorLayoutDimensionNV(x_layout, rows, k_count);
    x_layout = setTensorLayoutStrideNV(x_layout, k_count, 1);
    tensorLayoutNV<2, CLAMP> w_layout = createTensorLayoutNV(2, CLAMP);
#if DECODE
    w_layout = setTensorLayoutBlockSizeNV(w_layout, 1, WEIGHT_BLOCK);
#endif
    w_layout = setTensorLayoutDimensionNV(w_layout, n, k_count);
#if DECODE
    w_layout = setTensorLayoutStrideNV(w_layout, k_count / WEIGHT_BLOCK, 1);
#else
    w_layout = setTensorLayoutStrideNV(w_layout, k_count, 1);
#endif
    tensorViewNV<2, false, 1, 0> transposed = createTensorViewNV(2, false, 1, 0);
    tensorLayoutNV<2, CLAMP> out_layout = createTensorLayoutNV(2, CLAMP);
    out_layout = setTensorLayoutDimensionNV(out_layout, rows, outputs);
    out_layout = setTensorLayoutStrideNV(out_layout, stride, 1);

    Halves x = Halves(push.x);
#if DECODE
    Codes4 w = Codes4(push.weights.codes);
#else
    Halves w = Halves(push.weights.codes);
#endif

    ACCUMULATOR sums = ACCUMULATOR(0.0);
    ACCUMULATOR up_sums = ACCUMULATOR(0.0);
    for (uint k = 0; k < k_count; k += TILE_K) {
        FACTOR_X factor_x;
        FACTOR_W factor_w;
        coopMatLoadTensorNV(factor_x, x.at, 0, sliceTensorLayoutNV(x_layout, row, TILE_ROWS, k, TILE_K));
        LOAD_W(factor_w, column);
        sums = coopMatMulAdd(factor_x, factor_w, sums);
        if (GATED) {
            LOAD_W(factor_w, outputs + column);
            up_sums = coopMatMulAdd(factor_x, factor_w, up_sums);
        }
    }
    Floats out_floats = Floats(push.out_f32);
    HalvesOut out_halves = HalvesOut(push.out_f16);
    if (GATED)
        coopMatPerElementNV(sums, sums, combine, up_sums);
    if (EPILOGUE == EPILOGUE_ADD) {
        ACCUMULATOR before = ACCUMULATOR(0.0);
        coopMatLoadTensorNV(before, out_floats.at, 0,
                            sliceTensorLayoutNV(out_layout, row, TILE_ROWS, column, COLUMNS));
        sums += before;
    }
    if ((FORMS & FORM_F32) != 0)
        coopMatStoreTensorNV(sums, out_floats.at, 0,
                             sliceTensorLayoutNV(out_layout, row, TILE_ROWS, column, COLUMNS));
    if ((FORMS & FORM_F16) != 0) {
        coopMatPerElementNV(sums, sums, bounded);
        coopMatStoreTensorNV(ACCUMULATOR16(sums), out_halves.at, 0,
                             sliceTensorLayoutNV(out_layout, row, TILE_ROWS, column, COLUMNS));
    }
}
