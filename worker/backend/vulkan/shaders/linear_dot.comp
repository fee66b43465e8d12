#version 450
/*
 * out[r, n] = x[r, :] . W[n, :] for few rows r (ROWS, at most 8) and all outputs n: the decode
 * kernel, bound by reading W once.
 *
 * A team of SPLIT subgroups works on OUTPUTS rows of W at once, each lane on its own blocks of 32
 * columns, DEPTH of them loaded before any is used. A block's codes are unpacked once for all rows
 * r and multiplied by packed dots with the activations' codes, which come from shared memory
 * (SHARED_BLOCKS > 0: the prologue puts them there) or straight from memory through the cache. The
 * first weights are loaded before the prologue, because they do not depend on it.
 *
 * Prologue (INPUT): the input is q8 already, or f32 that every workgroup quantizes for itself,
 * optionally times the weights of an rms norm. The norm's factor of the row is not part of the
 * quantization (codes do not depend on it); the sums are multiplied by it, so that the products do
 * not wait for its reduction.
 *
 * Epilogue: store, add to the output, or (GATE_*) activation(gate) * up, where W is gate's rows
 * and then up's, and a workgroup owns 32 consecutive columns of the result, so it can write q8.
 *
 * Float weights take f32 input as it is, for any K. Quantized ones need K % 32 == 0.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#define WEIGHT_KIND_CONSTANT 1
#include "q8_blocks.glsl"
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const uint ROWS = 1;
layout(constant_id = 3) const uint INPUT = 0;
layout(constant_id = 4) const uint EPILOGUE = 0;
layout(constant_id = 5) const uint FORMS = 1;          /* bit 0 f32, 1 f16, 2 q8 */
layout(constant_id = 6) const uint OUTPUTS = 4;        /* rows of W a team works on at once */
layout(constant_id = 7) const uint SPLIT = 1;          /* subgroups of a team */
layout(constant_id = 8) const uint DEPTH = 2;          /* blocks a lane has loaded per row of W */
layout(constant_id = 9) const uint SHARED_BLOCKS = 0;  /* K / 32 with activations in shared memory */
layout(constant_id = 10) const uint SUBGROUPS = 8;     /* of a workgroup, at most */
layout(constant_id = 11) const bool HAS_DOT = true;    /* packed dots in hardware */
layout(constant_id = 12) const uint AHEAD = 1;         /* when the next blocks are loaded: */

/* at their use; after the products before them; before those (twice the registers). */
const uint AHEAD_NONE = 0, AHEAD_AFTER = 1, AHEAD_BEFORE = 2;
const uint INPUT_Q8 = 0, INPUT_F32 = 1, INPUT_NORM = 2;
const uint EPILOGUE_STORE = 0, EPILOGUE_ADD = 1, EPILOGUE_GATE_SILU = 2, EPILOGUE_GATE_GELU = 3;
const uint FORM_F32 = 1, FORM_F16 = 2, FORM_Q8 = 4;
const bool GATED = EPILOGUE >= EPILOGUE_GATE_SILU;
const uint GATE_COLUMNS = 32; /* results of a workgroup's tile when GATED */

#include "packed_dots.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Codes16 { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Terms { vec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Floats4 { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { float16_t at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint at[]; };

layout(push_constant) uniform Push
{
    WeightMatrix weights;  /* [n_count, k_count] */
    uint64_t x;            /* q8 codes or f32 [ROWS, k_count] */
    uint64_t x_terms;      /* q8: {d, d * sum} [ROWS, k_count / 32] */
    uint64_t norm_weights; /* f32 [k_count] */
    uint64_t out_f32;      /* n_count columns of ROWS, GATED: n_count / 2 */
    uint64_t out_f16;
    uint64_t out_q8;
    uint64_t out_q8_terms;
    uint n_count;
    uint k_count;
    float epsilon;
    float weight_offset;
    uint out_stride; /* columns from one row of f32 or f16 output to the next */
} push;

/* Activations of block b, row r: columns 0..15 at [r][b], 16..31 after all of those, so that
 * neighbouring lanes read neighbouring words. */
shared uvec4 shared_codes[SHARED_BLOCKS > 0 ? 2 * ROWS * SHARED_BLOCKS : 1];
shared vec2 shared_terms[SHARED_BLOCKS > 0 ? ROWS * SHARED_BLOCKS : 1];
shared float shared_squares[INPUT == INPUT_NORM ? ROWS * SUBGROUPS : 1];

/* Sums of a pass: OUTPUTS x ROWS, padded to a power of two for the reduction over lanes. */
const uint SUMS = OUTPUTS * ROWS;
const uint SUMS_PADDED = SUMS <= 1    ? 1
                         : SUMS <= 2  ? 2
                         : SUMS <= 4  ? 4
                         : SUMS <= 8  ? 8
                         : SUMS <= 16 ? 16
                         : SUMS <= 32 ? 32
                                      : 64;
/* Sums for the epilogue: of every subgroup if SPLIT > 1; of the tile if GATED. */
shared float shared_sums[SPLIT > 1 ? SUBGROUPS * SUMS : 1];
shared float shared_tile[GATED ? 2 * GATE_COLUMNS * ROWS : 1];

WeightBlock tile[OUTPUTS * DEPTH];
uvec4 float_tile[OUTPUTS * DEPTH];
/* On their way. */
WeightBlock incoming[OUTPUTS * DEPTH];
uvec4 incoming_floats[OUTPUTS * DEPTH];
float sums[SUMS_PADDED];
float row_factor[ROWS]; /* of the norm */

/* --- which rows of W --- */

uint teams()
{
    return gl_NumSubgroups / SPLIT;
}

/* Passes of a team over a workgroup's tile. */
uint tile_passes()
{
    return GATED ? 2 * GATE_COLUMNS / (teams() * OUTPUTS) : 1;
}

uint tile_outputs()
{
    return GATED ? GATE_COLUMNS : teams() * OUTPUTS;
}

/* Row of W of output `s` in pass `pass` of tile `t`; not below n_count: there is none. */
uint weight_row(uint t, uint pass, uint s)
{
    uint slot = (pass * teams() + gl_SubgroupID / SPLIT) * OUTPUTS + s;
    if (!GATED)
        return t * tile_outputs() + slot;
    uint column = t * GATE_COLUMNS + slot / 2;
    uint half_count = push.n_count / 2;
    return column < half_count ? column + (slot & 1) * half_count : push.n_count;
}

/* Position of a workgroup's work: step of a pass of a tile. */
struct Position {
    uint t, pass, step;
};

Position next_position(Position at, uint steps)
{
    at.step++;
    if (at.step == steps) {
        at.step = 0;
        at.pass++;
    }
    if (at.pass == tile_passes()) {
        at.pass = 0;
        at.t += gl_NumWorkGroups.x;
    }
    return at;
}

/* --- loads --- */

/* Blocks (quantized) or sixteen bytes (float) of a row of W. */
uint row_units()
{
    return WEIGHT_QUANTIZED ? push.k_count / WEIGHT_BLOCK : weight_float_stride(push.k_count);
}

/* Index of this lane's unit d of the team's `step`. */
uint unit_index(uint step, uint d)
{
    uint lanes = gl_SubgroupSize * SPLIT;
    return (step * DEPTH + d) * lanes + gl_SubgroupID % SPLIT * gl_SubgroupSize +
           gl_SubgroupInvocationID;
}

void load_tile(Position at)
{
    uint units = row_units();
    [[unroll]] for (uint s = 0; s < OUTPUTS; s++)
    {
        uint row = min(weight_row(at.t, at.pass, s), push.n_count - 1);
        [[unroll]] for (uint d = 0; d < DEPTH; d++)
        {
            uint unit = min(unit_index(at.step, d), units - 1);
            if (WEIGHT_QUANTIZED)
                incoming[s * DEPTH + d] = weight_load(push.weights, row * units + unit);
            else
                incoming_floats[s * DEPTH + d] =
                    weight_load_floats(push.weights, row * units + unit);
        }
    }
}

void take_tile()
{
    [[unroll]] for (uint i = 0; i < OUTPUTS * DEPTH; i++)
    {
        if (WEIGHT_QUANTIZED)
            tile[i] = incoming[i];
        else
            float_tile[i] = incoming_floats[i];
    }
}

/* --- products --- */

void activations_of(uint r, uint block, out uint codes[8], out vec2 terms)
{
    uvec4 low, high;
    if (SHARED_BLOCKS > 0) {
        low = shared_codes[r * SHARED_BLOCKS + block];
        high = shared_codes[(ROWS + r) * SHARED_BLOCKS + block];
        terms = shared_terms[r * SHARED_BLOCKS + block];
    } else {
        uint at = r * (push.k_count / Q8_BLOCK) + block;
        low = Codes16(push.x).at[2 * at];
        high = Codes16(push.x).at[2 * at + 1];
        terms = Terms(push.x_terms).at[at];
    }
    [[unroll]] for (uint j = 0; j < 4; j++)
    {
        codes[j] = low[j];
        codes[4 + j] = high[j];
    }
}

void multiply_quantized(uint step)
{
    uint units = row_units();
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
    {
        uint unit = unit_index(step, d);
        if (unit >= units)
            continue;
        uint weight[OUTPUTS][8];
        [[unroll]] for (uint s = 0; s < OUTPUTS; s++)
            [[unroll]] for (uint j = 0; j < 8; j++)
                weight[s][j] = weight_codes(tile[s * DEPTH + d], j);
        [[unroll]] for (uint r = 0; r < ROWS; r++)
        {
            uint codes[8];
            vec2 terms;
            activations_of(r, unit, codes, terms);
            float first_sum = first_span_sum(codes, terms);
            [[unroll]] for (uint s = 0; s < OUTPUTS; s++)
                sums[s * ROWS + r] +=
                    block_product(tile[s * DEPTH + d], weight[s], codes, terms, first_sum);
        }
    }
}

/* Columns 4 * quad .. + 3 of an f32 row [k_count], zero beyond it. */
vec4 float_quad(uint64_t address, uint row, uint quad)
{
    if ((push.k_count & 3u) == 0)
        return 4 * quad < push.k_count ? Floats4(address).at[row * (push.k_count / 4) + quad]
                                       : vec4(0.0);
    vec4 v = vec4(0.0);
    [[unroll]] for (uint i = 0; i < 4; i++)
        if (4 * quad + i < push.k_count)
            v[i] = Floats(address).at[row * push.k_count + 4 * quad + i];
    return v;
}

void multiply_floats(uint step)
{
    uint units = row_units();
    [[unroll]] for (uint d = 0; d < DEPTH; d++)
    {
        uint unit = unit_index(step, d);
        if (unit >= units)
            continue;
        [[unroll]] for (uint i = 0; i < WEIGHT_FLOATS / 4; i++)
        {
            uint quad = unit * (WEIGHT_FLOATS / 4) + i;
            vec4 norm = INPUT == INPUT_NORM ? float_quad(push.norm_weights, 0, quad) + push.weight_offset : vec4(1.0);
            [[unroll]] for (uint r = 0; r < ROWS; r++)
            {
                vec4 x = float_quad(push.x, r, quad) * norm;
                [[unroll]] for (uint s = 0; s < OUTPUTS; s++)
                    sums[s * ROWS + r] += dot(weight_floats(float_tile[s * DEPTH + d], i), x);
            }
        }
    }
}

/* --- prologue --- */

/* Sum of squares of row r over the workgroup's invocations, one part a subgroup. */
void leave_squares(uint r, float squares)
{
    float total = subgroupAdd(squares);
    if (subgroupElect())
        shared_squares[r * SUBGROUPS + gl_SubgroupID] = total;
}

/* Eight neighbouring lanes (four where a subgroup has no more) quantize one block. */
void quantize_input()
{
    uint lanes = min(gl_SubgroupSize, 8u), quads = 8 / lanes;
    uint lane = gl_LocalInvocationIndex % lanes;
    uint blocks = push.k_count / Q8_BLOCK;
    [[unroll]] for (uint r = 0; r < ROWS; r++)
    {
        float squares = 0.0;
        /* The bound is the same for all lanes of a subgroup, because shuffles need all lanes. */
        uint base = gl_SubgroupID * (gl_SubgroupSize / lanes);
        for (; base < blocks; base += gl_WorkGroupSize.x / lanes) {
            uint block = base + gl_SubgroupInvocationID / lanes;
            bool inside = block < blocks;
            vec4 x[2];
            float largest = 0.0;
            for (uint q = 0; q < quads; q++) {
                uint quad = min(block, blocks - 1) * 8 + lane * quads + q;
                x[q] = Floats4(push.x).at[r * blocks * 8 + quad];
                if (INPUT == INPUT_NORM) {
                    squares += inside ? dot(x[q], x[q]) : 0.0;
                    x[q] *= Floats4(push.norm_weights).at[quad] + push.weight_offset;
                }
                largest = max(largest, q8_magnitude(x[q]));
            }
            Q8Scale scale = q8_scale(q8_group_max(largest, lanes));
            int sum = 0;
            for (uint q = 0; q < quads; q++) {
                uint codes = q8_pack(x[q], scale);
                uint j = lane * quads + q;
                sum += q8_code_sum(codes);
                if (inside)
                    shared_codes[((j >> 2) * ROWS + r) * SHARED_BLOCKS + block][j & 3] = codes;
            }
            vec2 terms = q8_terms(scale, q8_group_sum(sum, lanes));
            if (inside && lane == 0)
                shared_terms[r * SHARED_BLOCKS + block] = terms;
        }
        if (INPUT == INPUT_NORM)
            leave_squares(r, squares);
    }
}

void copy_input()
{
    uint blocks = push.k_count / Q8_BLOCK;
    for (uint i = gl_LocalInvocationIndex; i < 2 * ROWS * blocks; i += gl_WorkGroupSize.x) {
        uint r = i / (2 * blocks), at = i % (2 * blocks);
        shared_codes[((at & 1) * ROWS + r) * SHARED_BLOCKS + at / 2] = Codes16(push.x).at[i];
    }
    for (uint i = gl_LocalInvocationIndex; i < ROWS * blocks; i += gl_WorkGroupSize.x)
        shared_terms[i / blocks * SHARED_BLOCKS + i % blocks] = Terms(push.x_terms).at[i];
}

void square_input()
{
    [[unroll]] for (uint r = 0; r < ROWS; r++)
    {
        float squares = 0.0;
        for (uint k = gl_LocalInvocationIndex; k < push.k_count; k += gl_WorkGroupSize.x) {
            float x = Floats(push.x).at[r * push.k_count + k];
            squares += x * x;
        }
        leave_squares(r, squares);
    }
}

void prepare_input()
{
    if (WEIGHT_QUANTIZED && INPUT != INPUT_Q8)
        quantize_input();
    else if (WEIGHT_QUANTIZED && SHARED_BLOCKS > 0)
        copy_input();
    else if (INPUT == INPUT_NORM)
        square_input();
    if (SHARED_BLOCKS > 0 || INPUT == INPUT_NORM)
        barrier();
    [[unroll]] for (uint r = 0; r < ROWS; r++)
    {
        row_factor[r] = 1.0;
        if (INPUT == INPUT_NORM) {
            float squares = 0.0;
            for (uint g = 0; g < gl_NumSubgroups; g++)
                squares += shared_squares[r * SUBGROUPS + g];
            row_factor[r] = inversesqrt(squares / float(push.k_count) + push.epsilon);
        }
    }
}

/* --- sums over lanes --- */

/*
 * Adds sums[] over the subgroup's lanes. Instead of every lane ending with every total, each step
 * gives half of the values to the lane across and takes the other half, as long as there is more
 * than one: lane l ends with the values first_sum() + 0.. < kept_sums() in sums[0..].
 */
void reduce_sums()
{
    uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint k = 0; k < 7; k++)
    {
        const uint count = max(SUMS_PADDED >> k, 1u);
        uint across = 1u << k;
        if (across >= gl_SubgroupSize)
            break;
        if (count == 1) {
            sums[0] += subgroupShuffleXor(sums[0], across);
        } else {
            bool upper = (lane & across) != 0;
            [[unroll]] for (uint i = 0; i < count / 2; i++)
            {
                float give = upper ? sums[i] : sums[i + count / 2];
                float keep = upper ? sums[i + count / 2] : sums[i];
                sums[i] = keep + subgroupShuffleXor(give, across);
            }
        }
    }
}

uint kept_sums()
{
    return max(SUMS_PADDED / gl_SubgroupSize, 1u);
}

uint first_sum()
{
    uint first = 0;
    [[unroll]] for (uint k = 0; k < 6; k++)
        if ((1u << k) < gl_SubgroupSize)
            first += (gl_SubgroupInvocationID >> k & 1) * (SUMS_PADDED >> (k + 1));
    return first;
}

/* Lanes beyond the number of values hold copies. */
bool owns_sums()
{
    return gl_SubgroupInvocationID < SUMS_PADDED;
}

/* --- epilogue --- */

float16_t to_half(float value)
{
    return float16_t(clamp(value, -65504.0, 65504.0));
}

float factor_of(uint r)
{
    float factor = 1.0;
    if (INPUT == INPUT_NORM)
        [[unroll]] for (uint i = 0; i < ROWS; i++)
            factor = i == r ? row_factor[i] : factor;
    return factor;
}

void store_sum(uint t, uint pass, uint index, float value)
{
    uint s = index / ROWS, r = index % ROWS;
    value *= factor_of(r);
    if (GATED) {
        uint slot = (pass * teams() + gl_SubgroupID / SPLIT) * OUTPUTS + s;
        shared_tile[slot * ROWS + r] = value;
        return;
    }
    uint n = weight_row(t, pass, s);
    if (n >= push.n_count)
        return;
    uint at = r * push.out_stride + n;
    if (EPILOGUE == EPILOGUE_ADD)
        value += Floats(push.out_f32).at[at];
    if (EPILOGUE == EPILOGUE_ADD || (FORMS & FORM_F32) != 0)
        Floats(push.out_f32).at[at] = value;
    if ((FORMS & FORM_F16) != 0)
        Halves(push.out_f16).at[at] = to_half(value);
}

void finish_pass(uint t, uint pass)
{
    reduce_sums();
    uint first = first_sum();
    if (SPLIT == 1) {
        [[unroll]] for (uint i = 0; i < SUMS_PADDED; i++)
            if (i < kept_sums() && owns_sums() && first + i < SUMS)
                store_sum(t, pass, first + i, sums[i]);
        return;
    }
    barrier(); /* the last pass's sums are read */
    [[unroll]] for (uint i = 0; i < SUMS_PADDED; i++)
        if (i < kept_sums() && owns_sums() && first + i < SUMS)
            shared_sums[gl_SubgroupID * SUMS + first + i] = sums[i];
    barrier();
    if (gl_SubgroupID % SPLIT == 0)
        for (uint i = gl_SubgroupInvocationID; i < SUMS; i += gl_SubgroupSize) {
            float total = 0.0;
            [[unroll]] for (uint part = 0; part < SPLIT; part++)
                total += shared_sums[(gl_SubgroupID + part) * SUMS + i];
            store_sum(t, pass, i, total);
        }
}

float activate(float x)
{
    if (EPILOGUE == EPILOGUE_GATE_SILU)
        return x / (1.0 + exp(-x));
    float inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + tanh(clamp(inner, -15.0, 15.0)));
}

float gated(uint column, uint r)
{
    return activate(shared_tile[2 * column * ROWS + r]) * shared_tile[(2 * column + 1) * ROWS + r];
}

/* 32 columns of every row; `lanes` neighbours share one row's. */
void finish_gate(uint t)
{
    barrier();
    uint columns = push.n_count / 2, lanes = min(gl_SubgroupSize, 8u), quads = 8 / lanes;
    uint lane = gl_LocalInvocationIndex % lanes;
    for (uint base = gl_SubgroupID * (gl_SubgroupSize / lanes); base < ROWS;
         base += gl_WorkGroupSize.x / lanes) {
        uint row = base + gl_SubgroupInvocationID / lanes;
        bool inside = row < ROWS;
        uint r = min(row, ROWS - 1);
        vec4 v[2];
        float largest = 0.0;
        for (uint q = 0; q < quads; q++) {
            uint first = (lane * quads + q) * 4;
            [[unroll]] for (uint i = 0; i < 4; i++)
            {
                uint column = t * GATE_COLUMNS + first + i;
                v[q][i] = gated(first + i, r);
                if (inside && column < columns && (FORMS & FORM_F32) != 0)
                    Floats(push.out_f32).at[r * push.out_stride + column] = v[q][i];
                if (inside && column < columns && (FORMS & FORM_F16) != 0)
                    Halves(push.out_f16).at[r * push.out_stride + column] = to_half(v[q][i]);
            }
            largest = max(largest, q8_magnitude(v[q]));
        }
        if ((FORMS & FORM_Q8) != 0) {
            Q8Scale scale = q8_scale(q8_group_max(largest, lanes));
            int sum = 0;
            for (uint q = 0; q < quads; q++) {
                uint codes = q8_pack(v[q], scale);
                sum += q8_code_sum(codes);
                if (inside)
                    Words(push.out_q8).at[(r * columns + t * GATE_COLUMNS) / 4 + lane * quads + q] =
                        codes;
            }
            vec2 terms = q8_terms(scale, q8_group_sum(sum, lanes));
            if (inside && lane == 0)
                Terms(push.out_q8_terms).at[r * (columns / GATE_COLUMNS) + t] = terms;
        }
    }
    barrier(); /* before the next tile's sums */
}

void main()
{
    uint per_step = gl_SubgroupSize * SPLIT * DEPTH;
    uint steps = (row_units() + per_step - 1) / per_step;
    uint outputs = GATED ? push.n_count / 2 : push.n_count;
    uint tiles = (outputs + tile_outputs() - 1) / tile_outputs();
    Position at = Position(gl_WorkGroupID.x, 0, 0);
    if (at.t >= tiles)
        return;
    if (AHEAD != AHEAD_NONE)
        load_tile(at);
    prepare_input();
    while (at.t < tiles) {
        Position next = next_position(at, steps);
        if (at.step == 0)
            [[unroll]] for (uint i = 0; i < SUMS_PADDED; i++)
                sums[i] = 0.0;
        if (AHEAD == AHEAD_NONE)
            load_tile(at);
        take_tile();
        if (AHEAD == AHEAD_BEFORE && next.t < tiles)
            load_tile(next);
        if (WEIGHT_QUANTIZED)
            multiply_quantized(at.step);
        else
            multiply_floats(at.step);
        if (AHEAD == AHEAD_AFTER && next.t < tiles)
            load_tile(next);
        if (next.step == 0)
            finish_pass(at.t, at.pass);
        if (GATED && next.step == 0 && next.pass == 0)
            finish_gate(at.t);
        at = next;
    }
}
