#version 450
/*
 * Moves the matrices of a state space mixer row by row and computes each row's output
 * (worker/plan/op_list.h, ssm_scan).
 *
 * The columns of a head are independent: a subgroup takes one column of one head of one sequence
 * through all rows of the step, with the states of the column in its lanes' registers. The slot's
 * memory is read once before the first row and written once after the last row that advances it.
 * Late rows are read from their places; deferred rows go on in registers, and the first subgroups of
 * each head keep their inputs.
 *
 * Grid: (columns of all heads by subgroups of a workgroup, sequences).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "step.glsl"
#include "moves.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD_DIM = 64;
layout(constant_id = 2) const uint STATE = 128;
layout(constant_id = 3) const uint HEADS = 24;
layout(constant_id = 4) const uint GROUPS = 1;
layout(constant_id = 5) const uint OWN = 0; /* bit 0: the rate is a log */
layout(constant_id = 6) const uint LANES = 32;

const bool RATE_IS_LOG = (OWN & 1) != 0;
const uint HELD = (STATE + LANES - 1) / LANES; /* elements of a lane */
const uint VALUES = HEADS * HEAD_DIM;
const float SOFTPLUS_LINEAR = 20.0;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;         /* f32 [rows, VALUES + 2 * GROUPS * STATE] */
    uint64_t y;         /* f32 [rows, y_stride]; a step of each head from y_offset on */
    uint64_t weights;   /* f32 [3 * HEADS]: rates, biases of steps, skips */
    uint64_t state;     /* f32 [slots, slot_floats] of the layer */
    uint64_t sequences; /* StepSequence [] */
    uint64_t moves;     /* StepMove [] */
    uint64_t deferred;  /* f32 [places, place_floats] of the layer */
    uint64_t out_f32;   /* [rows, VALUES] */
    uint slot_floats;
    uint slot_offset; /* of the matrices in a slot, floats */
    uint place_floats;
    uint place_offset; /* of a row of x in a place, floats; the steps follow */
    uint y_stride;
    uint y_offset;
    float least_step;
    float most_step;
} push;

const uint X_COLUMNS = VALUES + 2 * GROUPS * STATE;

float held[HELD];

uint element(uint i)
{
    return i * LANES + gl_SubgroupInvocationID;
}

float softplus(float x)
{
    return x > SOFTPLUS_LINEAR ? x : max(x, 0.0) + log(1.0 + exp(-abs(x)));
}

uint64_t place_address(uint place)
{
    return push.deferred + 4 * (uint64_t(place) * push.place_floats + push.place_offset);
}

uint64_t matrix_address(uint slot, uint column)
{
    return push.state +
           4 * (uint64_t(slot) * push.slot_floats + push.slot_offset + uint64_t(column) * STATE);
}

void store(uint slot, uint column)
{
    Floats matrix = Floats(matrix_address(slot, column));
    for (uint i = 0; i < HELD; i++)
        if (element(i) < STATE)
            matrix.at[element(i)] = held[i];
}

/* Keeps a deferred row: each column its value, the first column of a head its step, and that of a
 * group's first head the group's B; a late row's C is not used. */
void keep(Floats x, Floats y, uint place, uint column, uint group)
{
    uint head = column / HEAD_DIM;
    Floats kept_x = Floats(place_address(place));
    Floats kept_y = Floats(place_address(place) + 4 * X_COLUMNS);
    bool first = column % HEAD_DIM == 0;
    if (subgroupElect()) {
        kept_x.at[column] = x.at[column];
        if (first)
            kept_y.at[head] = y.at[head];
    }
    bool keeps_group = first && head % (HEADS / GROUPS) == 0;
    for (uint i = 0; keeps_group && i < HELD; i++)
        if (element(i) < STATE)
            kept_x.at[VALUES + group * STATE + element(i)] =
                x.at[VALUES + group * STATE + element(i)];
}

/* Moves the column's states by a row; returns its output. */
float move_row(Floats x, float value, float step_size, float decay, uint group)
{
    uint first = VALUES + group * STATE;
    float answer = 0.0;
    for (uint i = 0; i < HELD; i++) {
        bool inside = element(i) < STATE;
        float b = inside ? x.at[first + element(i)] : 0.0;
        float c = inside ? x.at[first + GROUPS * STATE + element(i)] : 0.0;
        held[i] = held[i] * decay + b * (value * step_size);
        answer += held[i] * c;
    }
    return subgroupAdd(answer);
}

void main()
{
    uint column = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    if (column >= VALUES)
        return;
    uint head = column / HEAD_DIM;
    uint group = head / (HEADS / GROUPS);
    StepSequence sequence = StepSequences(push.sequences).at[gl_WorkGroupID.y];
    StepMove move = StepMoves(push.moves).at[gl_WorkGroupID.y];
    Floats matrix = Floats(matrix_address(sequence.state_slot, column));
    uint total = move.late_rows + sequence.row_count;
    uint advancing = total - move.deferred_rows;
    Floats weights = Floats(push.weights);
    float rate = RATE_IS_LOG ? -exp(weights.at[head]) : weights.at[head];
    float step_bias = weights.at[HEADS + head], skip = weights.at[2 * HEADS + head];
    for (uint i = 0; i < HELD; i++)
        held[i] = sequence.first_position > 0 && element(i) < STATE ? matrix.at[element(i)] : 0.0;
    for (uint r = 0; r < total; r++) {
        bool late = r < move.late_rows;
        uint row = sequence.first_row + r - move.late_rows;
        uint64_t kept = place_address(move.late_place + r);
        Floats x = Floats(late ? kept : push.x + 4 * (uint64_t(row) * X_COLUMNS));
        Floats y = Floats(late ? kept + 4 * X_COLUMNS
                               : push.y + 4 * (uint64_t(row) * push.y_stride + push.y_offset));
        float step_size =
            clamp(softplus(y.at[head] + step_bias), push.least_step, push.most_step);
        float value = x.at[column];
        float answer = move_row(x, value, step_size, exp(rate * step_size), group);
        if (!late && subgroupElect())
            Floats(push.out_f32).at[row * VALUES + column] = answer + skip * value;
        if (r + 1 == advancing)
            store(sequence.state_slot, column);
        if (r + 1 == move.copied_after && move.state_copy != SLOT_NONE)
            store(move.state_copy, column);
        if (r >= advancing)
            keep(x, y, move.deferred_place + r - advancing, column, group);
    }
}
