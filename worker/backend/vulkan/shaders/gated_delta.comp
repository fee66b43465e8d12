#version 450
/*
 * Updates the matrices of a gated delta net row by row and computes each row's output
 * (worker/plan/op_list.h, gated_delta).
 *
 * The value columns of a matrix are independent: a subgroup takes one column of one value head of one
 * sequence through all rows of the step, with the key dimension in its lanes' registers. The slot's
 * memory is read once before the first row and written once after the last row that advances it.
 * Late rows are read from their places; deferred rows go on in registers, and the first subgroups of
 * each head keep their inputs.
 *
 * Grid: (columns of all value heads by subgroups of a workgroup, sequences).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "step.glsl"
#include "moves.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KEY_DIM = 128;
layout(constant_id = 2) const uint VALUE_DIM = 128;
layout(constant_id = 3) const uint KEY_HEADS = 16;
layout(constant_id = 4) const uint VALUE_HEADS = 32;
layout(constant_id = 5) const uint OWN = 0; /* bit 0: heads alternate; bit 1: the rate is a log */
layout(constant_id = 6) const uint LANES = 32;

const bool TAKE_TURNS = (OWN & 1) != 0, RATE_IS_LOG = (OWN & 2) != 0;
const uint HELD = (KEY_DIM + LANES - 1) / LANES; /* elements of a lane */
const uint KEYS = KEY_HEADS * KEY_DIM;
const float NORM_EPSILON = 1e-6, SOFTPLUS_LINEAR = 20.0;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;         /* f32 [rows, 2 * KEYS + VALUE_HEADS * VALUE_DIM] */
    uint64_t y;         /* f32 [rows, 2 * VALUE_HEADS]: beta, then alpha */
    uint64_t rates;     /* f32 [2 * VALUE_HEADS]: rates, then time biases */
    uint64_t state;     /* f32 [slots, slot_floats] of the layer */
    uint64_t sequences; /* StepSequence [] */
    uint64_t moves;     /* StepMove [] */
    uint64_t deferred;  /* f32 [places, place_floats] of the layer */
    uint64_t out_f32;   /* [rows, VALUE_HEADS * VALUE_DIM] */
    uint slot_floats;
    uint slot_offset; /* of the matrices in a slot, floats */
    uint place_floats;
    uint place_offset; /* of a row of x in a place, floats; the row of y follows */
} push;

const uint X_COLUMNS = 2 * KEYS + VALUE_HEADS * VALUE_DIM, Y_COLUMNS = 2 * VALUE_HEADS;

float held[HELD], key[HELD], query[HELD];

uint element(uint i)
{
    return i * LANES + gl_SubgroupInvocationID;
}

/* into = the vector, normalized, times `factor`; elements past the end are 0. */
void load_unit(Floats x, uint first, float factor, inout float into[HELD])
{
    float squares = 0.0;
    for (uint i = 0; i < HELD; i++) {
        into[i] = element(i) < KEY_DIM ? x.at[first + element(i)] : 0.0;
        squares += into[i] * into[i];
    }
    factor *= inversesqrt(subgroupAdd(squares) + NORM_EPSILON);
    for (uint i = 0; i < HELD; i++)
        into[i] *= factor;
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
           4 * (uint64_t(slot) * push.slot_floats + push.slot_offset + uint64_t(column) * KEY_DIM);
}

void store(uint slot, uint column)
{
    Floats matrix = Floats(matrix_address(slot, column));
    for (uint i = 0; i < HELD; i++)
        if (element(i) < KEY_DIM)
            matrix.at[element(i)] = held[i];
}

/* Keeps a deferred row: each column its value, the first column of a head beta and alpha, and the
 * first one of a key head its key; a late row's query is not used. */
void keep(Floats x, Floats y, uint place, uint column, uint key_head)
{
    uint head = column / VALUE_DIM;
    Floats kept_x = Floats(place_address(place));
    Floats kept_y = Floats(place_address(place) + 4 * X_COLUMNS);
    bool first = column % VALUE_DIM == 0;
    bool keeps_key = first && (TAKE_TURNS ? head < KEY_HEADS : head % (VALUE_HEADS / KEY_HEADS) == 0);
    if (subgroupElect()) {
        kept_x.at[2 * KEYS + column] = x.at[2 * KEYS + column];
        if (first) {
            kept_y.at[head] = y.at[head];
            kept_y.at[VALUE_HEADS + head] = y.at[VALUE_HEADS + head];
        }
    }
    for (uint i = 0; keeps_key && i < HELD; i++) {
        uint at = key_head * KEY_DIM + element(i);
        if (element(i) < KEY_DIM) {
            kept_x.at[at] = x.at[at];
            kept_x.at[KEYS + at] = x.at[KEYS + at];
        }
    }
}

void main()
{
    uint column = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    if (column >= VALUE_HEADS * VALUE_DIM)
        return;
    uint head = column / VALUE_DIM;
    uint key_head = TAKE_TURNS ? head % KEY_HEADS : head / (VALUE_HEADS / KEY_HEADS);
    StepSequence sequence = StepSequences(push.sequences).at[gl_WorkGroupID.y];
    StepMove move = StepMoves(push.moves).at[gl_WorkGroupID.y];
    Floats matrix = Floats(matrix_address(sequence.state_slot, column));
    uint total = move.late_rows + sequence.row_count;
    uint advancing = total - move.deferred_rows;
    Floats rates = Floats(push.rates);
    float rate = RATE_IS_LOG ? -exp(rates.at[head]) : rates.at[head];
    float time_bias = rates.at[VALUE_HEADS + head];
    for (uint i = 0; i < HELD; i++)
        held[i] = sequence.first_position > 0 && element(i) < KEY_DIM ? matrix.at[element(i)] : 0.0;
    for (uint r = 0; r < total; r++) {
        bool late = r < move.late_rows;
        uint row = sequence.first_row + r - move.late_rows;
        uint64_t kept = place_address(move.late_place + r);
        Floats x = Floats(late ? kept : push.x + 4 * (uint64_t(row) * X_COLUMNS));
        Floats y = Floats(late ? kept + 4 * X_COLUMNS : push.y + 4 * (uint64_t(row) * Y_COLUMNS));
        load_unit(x, key_head * KEY_DIM, inversesqrt(float(KEY_DIM)), query);
        load_unit(x, KEYS + key_head * KEY_DIM, 1.0, key);
        float decay = exp(rate * softplus(y.at[VALUE_HEADS + head] + time_bias));
        float recalled = 0.0;
        for (uint i = 0; i < HELD; i++) {
            held[i] *= decay;
            recalled += held[i] * key[i];
        }
        float correction = x.at[2 * KEYS + column] - subgroupAdd(recalled);
        correction /= 1.0 + exp(-y.at[head]);
        float answer = 0.0;
        for (uint i = 0; i < HELD; i++) {
            held[i] += key[i] * correction;
            answer += held[i] * query[i];
        }
        answer = subgroupAdd(answer);
        if (!late && subgroupElect())
            Floats(push.out_f32).at[row * VALUE_HEADS * VALUE_DIM + column] = answer;
        if (r + 1 == advancing)
            store(sequence.state_slot, column);
        if (r + 1 == move.copied_after && move.state_copy != SLOT_NONE)
            store(move.state_copy, column);
        if (r >= advancing)
            keep(x, y, move.deferred_place + r - advancing, column, key_head);
    }
}
