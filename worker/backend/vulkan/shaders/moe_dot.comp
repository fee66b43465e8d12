#version 450
/*
 * out[p, n] = x(p) . W[expert(p), n, :] for few pairs p of row and expert: the decode kernel of
 * mixtures, bound by reading the chosen experts once.
 *
 * A team of LANES lanes works on COLUMNS columns of out at once, each lane on its own blocks of 32
 * columns of W (of float weights: sixteen bytes), DEPTH of them loaded before any is used. A block's
 * codes are unpacked once for all pairs of a tile and multiplied by packed dots with the pairs'
 * activations, which come through the cache. Teams are narrow because an expert's rows are short.
 *
 * MODE: the meaning of a workgroup's y
 *     groups   a tile of up to TILE_ROWS pairs of one expert (moe_groups.glsl)
 *     pairs    one pair, independent of the others' experts: nothing has to be sorted. With EXPERTS
 *              there is no route yet: every workgroup chooses its row's experts from their scores,
 *              and the first workgroup of a pair writes the pair's part of the route
 *     rows     one row. The blocks of all its experts are one long list that a team's lanes share,
 *              and the outputs are summed by the route's weights on the way, in a fixed order:
 *              out[r, n] = sum over j of weight(r, j) * x(r, j) . W[expert(r, j), n, :], or that added
 *              to what out holds
 *
 * Gated: out is activation(gate) * up; gate's and up's rows of W lie in two stacks or in one. A
 * workgroup then owns 32 consecutive columns of out, so that it can write q8.
 *
 * Quantized weights take q8 activations and k % 32 == 0, others f32 ones.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define WEIGHT_KIND_CONSTANT 1
#include "activation.glsl" /* constant 2 */
#include "moe_groups.glsl"
#include "q8_blocks.glsl"
#include "weight_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint MODE = 0;
layout(constant_id = 4) const uint TILE_ROWS = 1;
layout(constant_id = 5) const uint COLUMNS = 1; /* of out, of a team */
layout(constant_id = 6) const uint LANES = 8;   /* of a team: a power of two, at most a subgroup */
layout(constant_id = 7) const uint DEPTH = 4;
layout(constant_id = 8) const bool GATED = false;
layout(constant_id = 9) const uint FORM = 1; /* of out; q8 only when gated */
layout(constant_id = 10) const bool HAS_DOT = true;
layout(constant_id = 11) const bool ADD = false;
layout(constant_id = 12) const uint EXPERTS = 0; /* to choose among */
layout(constant_id = 13) const bool SOFTMAX_ALL = false;
layout(constant_id = 14) const float ROUTE_SCALE = 1.0;

#define CHOICE_EXPERTS (EXPERTS > 0 ? (EXPERTS + 3) / 4 * 4 : 4)
#include "moe_choice.glsl"
#include "packed_dots.glsl"

const uint MODE_GROUPS = 0, MODE_PAIRS = 1, MODE_ROWS = 2;
const uint FORM_F16 = 2, FORM_Q8 = 4;
const uint HALVES = GATED ? 2 : 1;
const uint OUTPUTS = COLUMNS * HALVES; /* rows of W of a team */
const uint GATE_COLUMNS = 32;
const uint QUANTIZERS = GATE_COLUMNS / 4; /* lanes that write a pair's q8 */

layout(push_constant) uniform Push
{
    WeightMatrix weights; /* [experts * expert_rows, k]; gated: of the gate */
    WeightMatrix up;      /* gated: of the up */
    uint64_t x;           /* q8 codes or f32 [rows or pairs, k] */
    uint64_t x_terms;     /* q8: {d, d * sum} */
    uint64_t groups_or_route; /* MODE_GROUPS: MoeGroups; otherwise f32 [rows, 2 * chosen] */
    uint64_t out_values;  /* [pairs or rows, out_stride]: f32, f16 or q8 codes */
    uint64_t out_terms;
    uint64_t pairs_or_scores; /* MODE_GROUPS: MoePairs; with EXPERTS: f32 [rows, EXPERTS] */
    uint n; /* columns of out */
    uint k;
    uint expert_rows;  /* of an expert in its stack */
    uint up_row;       /* of the up's first row in its stack */
    uint row_stride;   /* from a column's row of W to the next column's */
    uint out_stride;
    uint chosen;
    uint pairs_per_x;  /* chosen, or 1 when each pair has its own x */
} push;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Codes16 { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Terms { vec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Floats4 { vec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { float16_t at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint at[]; };

shared float gated_tile[GATED && FORM == FORM_Q8 ? TILE_ROWS * GATE_COLUMNS : 1];

uint tile_expert;
uint count;             /* of the tile's pairs */
uint pairs[TILE_ROWS];
uint units;             /* of a row of W: blocks, or sixteen bytes of floats */
uint items;             /* of a team's list */
uint first_column;      /* of the team */
WeightBlock tile[OUTPUTS * DEPTH];
uvec4 float_tile[OUTPUTS * DEPTH];
float sums[TILE_ROWS * OUTPUTS];

/* --- the list of a team --- */

uint item_of(uint step, uint d)
{
    return (step * DEPTH + d) * LANES + gl_SubgroupInvocationID % LANES;
}

uint item_pair(uint item)
{
    return gl_WorkGroupID.y * push.chosen + item / units;
}

/* False: of an expert whose weight is 0. */
bool is_used(uint item)
{
    return MODE != MODE_ROWS || moe_weight(push.groups_or_route, item_pair(item), push.chosen) != 0.0;
}

uint item_expert(uint item)
{
    return MODE == MODE_ROWS ? moe_expert(push.groups_or_route, item_pair(item), push.chosen) : tile_expert;
}

uint item_unit(uint item)
{
    return MODE == MODE_ROWS ? item % units : item;
}

void load_tile(uint step)
{
    [[unroll]] for (uint d = 0; d < DEPTH; d++) {
        uint item = min(item_of(step, d), items - 1);
        if (!is_used(item))
            continue;
        uint first_row = item_expert(item) * push.expert_rows, unit = item_unit(item);
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            uint row = first_row + min(first_column + c, push.n - 1) * push.row_stride;
            [[unroll]] for (uint h = 0; h < HALVES; h++) {
                uint at = (row + h * push.up_row) * units + unit;
                uint place = (c * HALVES + h) * DEPTH + d;
                if (WEIGHT_QUANTIZED && h == 0)
                    tile[place] = weight_load(push.weights, at);
                else if (WEIGHT_QUANTIZED)
                    tile[place] = weight_load(push.up, at);
                else if (h == 0)
                    float_tile[place] = weight_load_floats(push.weights, at);
                else
                    float_tile[place] = weight_load_floats(push.up, at);
            }
        }
    }
}

/* --- products --- */

void multiply_block(uint d, uint unit, uint x_rows[TILE_ROWS], float factor)
{
    uint weight[OUTPUTS][8];
    [[unroll]] for (uint o = 0; o < OUTPUTS; o++)
        [[unroll]] for (uint j = 0; j < 8; j++)
            weight[o][j] = weight_codes(tile[o * DEPTH + d], j);
    [[unroll]] for (uint r = 0; r < TILE_ROWS; r++) {
        if (r >= count)
            continue;
        uint at = x_rows[r] * units + unit;
        uvec4 low = Codes16(push.x).at[2 * at], high = Codes16(push.x).at[2 * at + 1];
        vec2 terms = Terms(push.x_terms).at[at];
        uint codes[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        float first_sum = first_span_sum(codes, terms);
        [[unroll]] for (uint o = 0; o < OUTPUTS; o++)
            sums[r * OUTPUTS + o] +=
                factor * block_product(tile[o * DEPTH + d], weight[o], codes, terms, first_sum);
    }
}

/* Columns column .. column + 3 of an f32 row, zero beyond it. */
vec4 float_quad(uint row, uint column)
{
    if (push.k % 4 == 0)
        return column < push.k ? Floats4(push.x).at[(row * push.k + column) / 4] : vec4(0.0);
    vec4 v = vec4(0.0);
    [[unroll]] for (uint i = 0; i < 4; i++)
        if (column + i < push.k)
            v[i] = Floats(push.x).at[row * push.k + column + i];
    return v;
}

void multiply_quads(uint d, uint unit, uint x_rows[TILE_ROWS], float factor)
{
    [[unroll]] for (uint i = 0; i < WEIGHT_FLOATS / 4; i++)
        [[unroll]] for (uint r = 0; r < TILE_ROWS; r++) {
            if (r >= count)
                continue;
            vec4 x = factor * float_quad(x_rows[r], unit * WEIGHT_FLOATS + 4 * i);
            [[unroll]] for (uint o = 0; o < OUTPUTS; o++)
                sums[r * OUTPUTS + o] += dot(weight_floats(float_tile[o * DEPTH + d], i), x);
        }
}

void multiply_tile(uint step)
{
    [[unroll]] for (uint d = 0; d < DEPTH; d++) {
        uint item = item_of(step, d);
        if (item >= items || !is_used(item))
            continue;
        uint x_rows[TILE_ROWS];
        float factor = 1.0;
        [[unroll]] for (uint r = 0; r < TILE_ROWS; r++)
            x_rows[r] = (MODE == MODE_ROWS ? item_pair(item) : pairs[r]) / push.pairs_per_x;
        if (MODE == MODE_ROWS)
            factor = moe_weight(push.groups_or_route, item_pair(item), push.chosen);
        if (WEIGHT_QUANTIZED)
            multiply_block(d, item_unit(item), x_rows, factor);
        else
            multiply_quads(d, item_unit(item), x_rows, factor);
    }
}

/* --- results --- */

void reduce_sums()
{
    [[unroll]] for (uint i = 0; i < TILE_ROWS * OUTPUTS; i++)
        [[unroll]] for (uint across = 1; across < LANES; across *= 2)
            sums[i] += subgroupShuffleXor(sums[i], across);
}

void store(uint row, uint column, float value)
{
    uint at = row * push.out_stride + column;
    if (FORM == FORM_F16) {
        Halves(push.out_values).at[at] = float16_t(clamp(value, -65504.0, 65504.0));
        return;
    }
    if (ADD)
        value += Floats(push.out_values).at[at];
    Floats(push.out_values).at[at] = value;
}

/* The team's results; the first of its lanes does it. */
void store_results()
{
    [[unroll]] for (uint r = 0; r < TILE_ROWS; r++)
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            float value = sums[r * OUTPUTS + c * HALVES];
            if (GATED)
                value = activation(vec4(value)).x * sums[r * OUTPUTS + c * HALVES + HALVES - 1];
            uint column = first_column + c;
            if (r >= count || column >= push.n)
                continue;
            if (GATED && FORM == FORM_Q8)
                gated_tile[r * GATE_COLUMNS + column % GATE_COLUMNS] = value;
            else
                store(MODE == MODE_ROWS ? gl_WorkGroupID.y : pairs[r], column, value);
        }
}

/* Neighbouring lanes quantize a pair's 32 columns; all of a subgroup take part. */
void store_codes()
{
    uint per_subgroup = gl_SubgroupSize / QUANTIZERS, quad = gl_SubgroupInvocationID % QUANTIZERS;
    for (uint base = gl_SubgroupID * per_subgroup; base < count;
         base += gl_NumSubgroups * per_subgroup) {
        uint mine = base + gl_SubgroupInvocationID / QUANTIZERS, r = min(mine, count - 1);
        vec4 v;
        [[unroll]] for (uint i = 0; i < 4; i++)
            v[i] = gated_tile[r * GATE_COLUMNS + 4 * quad + i];
        Q8Scale scale = q8_scale(q8_group_max(q8_magnitude(v), QUANTIZERS));
        uint codes = q8_pack(v, scale);
        vec2 terms = q8_terms(scale, q8_group_sum(q8_code_sum(codes), QUANTIZERS));
        uint pair = MODE == MODE_PAIRS
                        ? pairs[0]
                        : MoePairs(push.pairs_or_scores)
                              .at[MoeGroups(push.groups_or_route).tiles[gl_WorkGroupID.y].first + r];
        uint block = pair * (push.n / GATE_COLUMNS) + gl_WorkGroupID.x;
        if (mine >= count)
            continue;
        Words(push.out_values).at[block * QUANTIZERS + quad] = codes;
        if (quad == 0)
            Terms(push.out_terms).at[block] = terms;
    }
}

/* The expert of a pair whose route is not known yet. */
uint choose_expert(uint pair)
{
    uint row = pair / push.chosen, j = pair % push.chosen;
    MoeFloats scores = MoeFloats(push.pairs_or_scores + 4 * uint64_t(row) * EXPERTS);
    choose_experts(scores, EXPERTS, push.chosen);
    if (gl_WorkGroupID.x == 0 && gl_LocalInvocationIndex == 0) {
        Floats route = Floats(push.groups_or_route + 8 * uint64_t(row) * push.chosen);
        route.at[j] = float(choice_experts[j]);
        route.at[push.chosen + j] =
            choice_weight(scores, EXPERTS, push.chosen, j) * ROUTE_SCALE;
    }
    return choice_experts[j];
}

/* False: there is no such tile, or its weight is 0. */
bool take_pairs()
{
    count = 1;
    if (MODE == MODE_ROWS)
        return true;
    if (MODE == MODE_PAIRS) {
        pairs[0] = gl_WorkGroupID.y;
        if (EXPERTS == 0 && moe_weight(push.groups_or_route, pairs[0], push.chosen) == 0.0)
            return false;
        tile_expert = EXPERTS > 0 ? choose_expert(pairs[0])
                                  : moe_expert(push.groups_or_route, pairs[0], push.chosen);
        return true;
    }
    MoeGroups groups = MoeGroups(push.groups_or_route);
    if (gl_WorkGroupID.y >= groups.tile_count)
        return false;
    MoeTile found = groups.tiles[gl_WorkGroupID.y];
    tile_expert = found.expert;
    count = found.count;
    [[unroll]] for (uint r = 0; r < TILE_ROWS; r++)
        pairs[r] = MoePairs(push.pairs_or_scores).at[found.first + min(r, count - 1)];
    return true;
}

void main()
{
    if (!take_pairs())
        return;
    uint teams = gl_WorkGroupSize.x / LANES;
    uint team = gl_SubgroupID * (gl_SubgroupSize / LANES) + gl_SubgroupInvocationID / LANES;
    first_column = (gl_WorkGroupID.x * teams + team) * COLUMNS;
    units = WEIGHT_QUANTIZED ? push.k / WEIGHT_BLOCK : weight_float_stride(push.k);
    items = MODE == MODE_ROWS ? push.chosen * units : units;
    [[unroll]] for (uint i = 0; i < TILE_ROWS * OUTPUTS; i++)
        sums[i] = 0.0;
    for (uint step = 0; step * DEPTH * LANES < items; step++) {
        load_tile(step);
        multiply_tile(step);
    }
    reduce_sums();
    if (gl_SubgroupInvocationID % LANES == 0)
        store_results();
    if (GATED && FORM == FORM_Q8) {
        barrier();
        store_codes();
    }
}
