#version 450
/*
 * A causal convolution of each channel over the last TAPS rows of its sequence
 * (worker/plan/op_list.h, short_conv), and the columns of input that the sequence keeps for the
 * rows of later steps.
 *
 * Inputs of the step's own rows are read from x, so rows do not wait for each other; only inputs before
 * the sequence's first row come from places of late rows and from its slot. ROWS keeps the inputs of
 * deferred rows. The slot must not be written before all rows have read
 * it: a step with several rows of a sequence takes two dispatches, ROWS and then MOVE; a step of decodes
 * does both in one.
 *
 * Grid: (rows, or with MOVE sequences; column tiles of 4 * invocations).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define FORMS_CONSTANT 1
#include "row_forms.glsl"
#include "step.glsl"
#include "moves.glsl"

layout(constant_id = 2) const uint OWN = 0; /* bit 0: gated; bit 1: ROWS; bit 2: MOVE; bit 3: BIASED */
const bool GATED = (OWN & 1) != 0, ROWS = (OWN & 2) != 0, MOVE = (OWN & 4) != 0,
           BIASED = (OWN & 8) != 0;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

layout(push_constant) uniform Push
{
    uint64_t x;         /* f32 [rows, stride] */
    uint64_t weights;   /* f32 [columns, taps], and BIASED [columns] */
    uint64_t state;     /* f32 [slots, slot_floats], of it the first [taps - 1, columns] */
    uint64_t rows;      /* StepRow [] */
    uint64_t sequences; /* StepSequence [] */
    uint64_t moves;     /* StepMove [] */
    uint64_t deferred;  /* f32 [places, place_floats] of the layer, of it the first [columns] */
    RowOutputs outputs; /* [rows, columns] */
    uint stride;
    uint columns;
    uint taps;
    uint slot_floats;
    uint place_floats;
    uint offset; /* of the columns in x, unless GATED */
} push;

struct Place {
    uint row;
    uint before; /* rows of the sequence before it in the step */
    uint first_position;
    uint64_t state; /* of the sequence */
    StepMove move;
    uint certain; /* rows of the step that advance the state */
};

Floats place_row(uint place)
{
    return Floats(push.deferred + 4 * (uint64_t(place) * push.place_floats));
}

float row_input(uint row, uint column)
{
    Floats x = Floats(push.x + 4 * (uint64_t(row) * push.stride));
    return GATED ? x.at[column] * x.at[2 * push.columns + column]
                 : x.at[push.offset + column];
}

/* Of the sequence, `at` counted from its first late row, its slot's columns being before that. */
float input_of(Place place, int at, uint column)
{
    int late = int(place.move.late_rows);
    if (at >= late)
        return row_input(place.row - place.before + uint(at - late), column);
    if (at >= 0)
        return place_row(place.move.late_place + uint(at)).at[column];
    if (place.first_position == 0)
        return 0.0;
    return Floats(place.state).at[(push.taps - 1 - uint(-at)) * push.columns + column];
}

Place find_place()
{
    Place place;
    uint index = gl_WorkGroupID.x;
    uint number = ROWS ? StepRows(push.rows).at[index].sequence : index;
    StepSequence sequence = StepSequences(push.sequences).at[number];
    place.move = StepMoves(push.moves).at[number];
    place.certain = sequence.row_count - place.move.deferred_rows;
    place.row = ROWS ? index : sequence.first_row;
    place.before = place.row - sequence.first_row;
    place.first_position = sequence.first_position;
    place.state = push.state + 4 * (uint64_t(sequence.state_slot) * push.slot_floats);
    return place;
}

float convolve(Place place, uint column)
{
    Floats weights = Floats(push.weights + 4 * (uint64_t(column) * push.taps));
    float sum = 0.0;
    int first = int(place.move.late_rows + place.before) - int(push.taps - 1);
    for (uint tap = 0; tap < push.taps; tap++)
        sum += weights.at[tap] * input_of(place, first + int(tap), column);
    if (GATED)
        return Floats(push.x + 4 * (uint64_t(place.row) * push.stride)).at[push.columns + column] *
               sum;
    if (BIASED)
        sum += Floats(push.weights).at[push.columns * push.taps + column];
    return sum / (1.0 + exp(-sum));
}

/* The state after `rows` rows of the sequence, late ones included. In the slot itself columns move
 * towards the front, and each is read before it is overwritten. */
void move_state(Place place, uint rows, uint64_t state, uint column)
{
    int first = int(rows) - int(push.taps - 1);
    for (uint kept = 0; kept + 1 < push.taps; kept++)
        Floats(state).at[kept * push.columns + column] =
            input_of(place, first + int(kept), column);
}

/* The copy comes first, because the slot's columns are read for both. */
void move_states(Place place, uint column)
{
    StepMove move = place.move;
    uint64_t copy = push.state + 4 * (uint64_t(move.state_copy) * push.slot_floats);
    if (move.state_copy != SLOT_NONE)
        move_state(place, move.copied_after, copy, column);
    move_state(place, move.late_rows + place.certain, place.state, column);
}

void keep_input(Place place, uint column)
{
    if (place.before >= place.certain)
        place_row(place.move.deferred_place + place.before - place.certain).at[column] =
            row_input(place.row, column);
}

void main()
{
    Place place = find_place();
    uint first = 4 * (gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x);
    if (ROWS) {
        vec4 sums = vec4(0.0);
        for (uint i = 0; i < 4; i++)
            if (first + i < push.columns)
                sums[i] = convolve(place, first + i);
        for (uint i = 0; i < 4; i++)
            if (first + i < push.columns)
                keep_input(place, first + i);
        row_store(push.outputs, place.row, first, push.columns, sums);
    }
    for (uint i = 0; MOVE && i < 4; i++)
        if (first + i < push.columns)
            move_states(place, first + i);
}
