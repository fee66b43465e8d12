/*
 * short_conv: a channel's output is a weighted sum of its own last few inputs, so channels are
 * independent and rows of a sequence run in order. A piece is a block of channels of one sequence:
 * it loads the inputs before the first row from the sequence's slot and stores the last ones there.
 *
 * Sums go from the oldest input to the newest, from the slot or from the step, so results do not
 * depend on how a sequence is divided into chunks. The inputs of deferred rows are kept after the
 * product of their gate, and shift the columns of a later step as late rows (struct step_sequence).
 */
#include <string.h>

#include "proto/must.h"
#include "worker/backend/cpu/ops/cpu_ops.h"
#include "worker/backend/cpu/program/cpu_state.h"

#define BLOCK 256u /* channels of a piece; whole quantization blocks */

struct conv_piece {
    const struct cpu_step *step;
    const struct plan_op *op;
    uint32_t index; /* of the op */
    uint32_t taps;
    uint32_t channels; /* of the whole row */
    uint32_t first;    /* channel, and how many of them */
    uint32_t count;
    float weights[LIMIT_CONV_TAPS][BLOCK]; /* oldest tap first */
    float bias[BLOCK];
    float inputs[LIMIT_CONV_TAPS][BLOCK]; /* a ring that begins at `oldest` */
    uint32_t oldest;
};

static void load_weights(struct conv_piece *piece)
{
    plan_weight_id bias = piece->op->weights[1];
    memset(piece->bias, 0, sizeof piece->bias);
    if (bias != PLAN_NONE)
        memcpy(piece->bias, piece->step->program->vectors[bias] + piece->first,
               piece->count * sizeof(float));
    const float *weights = piece->step->program->vectors[piece->op->weights[0]];
    for (uint32_t c = 0; c < piece->count; c++)
        for (uint32_t tap = 0; tap < piece->taps; tap++)
            piece->weights[tap][c] = weights[(size_t)(piece->first + c) * piece->taps + tap];
}

/* The slot's columns: the inputs of the taps - 1 positions before the sequence's first row. */
static void load_state(struct conv_piece *piece, const float *state, uint32_t first_position)
{
    piece->oldest = 0;
    for (uint32_t tap = 0; tap + 1 < piece->taps; tap++) {
        if (first_position == 0)
            memset(piece->inputs[tap], 0, piece->count * sizeof(float));
        else
            memcpy(piece->inputs[tap], state + (size_t)tap * piece->channels + piece->first,
                   piece->count * sizeof(float));
    }
}

static void store_state(const struct conv_piece *piece, float *state)
{
    for (uint32_t tap = 0; tap + 1 < piece->taps; tap++)
        memcpy(state + (size_t)tap * piece->channels + piece->first,
               piece->inputs[(piece->oldest + tap) % piece->taps], piece->count * sizeof(float));
}

/* The row's own input is the newest; it replaces the oldest. */
static void take_input(struct conv_piece *piece, const float *x)
{
    float *newest = piece->inputs[(piece->oldest + piece->taps - 1) % piece->taps];
    x += piece->first;
    if (piece->op->params.short_conv.form == SHORT_CONV_SILU) {
        memcpy(newest, x + piece->op->params.short_conv.offset, piece->count * sizeof(float));
        return;
    }
    const float *gated = x + (size_t)2 * piece->channels;
    for (uint32_t c = 0; c < piece->count; c++)
        newest[c] = x[c] * gated[c];
}

/* Late rows advance the columns without an output. */
static void take_late(struct conv_piece *piece, const float *kept)
{
    float *newest = piece->inputs[(piece->oldest + piece->taps - 1) % piece->taps];
    memcpy(newest, kept + piece->first, piece->count * sizeof(float));
    piece->oldest = (piece->oldest + 1) % piece->taps;
}

/* Of the row taken last. */
static void keep_input(const struct conv_piece *piece, float *kept)
{
    const float *newest = piece->inputs[(piece->oldest + piece->taps - 1) % piece->taps];
    memcpy(kept + piece->first, newest, piece->count * sizeof(float));
}

static void convolve(const struct conv_piece *piece, const float *x, float *out)
{
    const struct cpu_kernels *kernels = piece->step->program->kernels;
    float sums[BLOCK] = {0}, ones[BLOCK];
    for (uint32_t tap = 0; tap < piece->taps; tap++) {
        const float *weights = piece->weights[tap];
        const float *inputs = piece->inputs[(piece->oldest + tap) % piece->taps];
        for (uint32_t c = 0; c < piece->count; c++)
            sums[c] += weights[c] * inputs[c];
    }
    if (piece->op->params.short_conv.form == SHORT_CONV_SILU) {
        for (uint32_t c = 0; c < piece->count; c++) {
            sums[c] += piece->bias[c];
            ones[c] = 1.0f;
        }
        kernels->gate(GATE_SILU, sums, ones, piece->count, out + piece->first);
        return;
    }
    const float *gate = x + piece->channels + piece->first;
    for (uint32_t c = 0; c < piece->count; c++)
        out[piece->first + c] = gate[c] * sums[c];
}

/* Takes the row's input and computes its output; the input stays the newest. */
static void do_row(struct conv_piece *piece, uint32_t row)
{
    const struct cpu_step *step = piece->step;
    const struct plan_op *op = piece->op;
    const float *x = cpu_step_row(step, op->inputs[0], row);
    take_input(piece, x);
    convolve(piece, x, cpu_step_row(step, op->output, row));
    if (step->program->notes[piece->index].quantize_output)
        cpu_step_quantize(step, op->output, row, piece->first, piece->count);
}

static void do_piece(struct conv_piece *piece, const struct step_sequence *sequence)
{
    const struct cpu_step *step = piece->step;
    const struct plan_op *op = piece->op;
    uint32_t layer = op->params.short_conv.layer;
    float *state = cpu_state_conv(step->program, layer, sequence->state_slot);
    uint32_t copied_after = cpu_state_copied_after(sequence);
    uint32_t certain = sequence->row_count - sequence->deferred_rows;
    load_weights(piece);
    load_state(piece, state, sequence->first_position);
    for (uint32_t r = 0; r < sequence->late_rows; r++) {
        take_late(piece, cpu_state_conv_row(step->program, layer, sequence->late_place + r));
        if (r + 1 == copied_after)
            store_state(piece, cpu_state_conv(step->program, layer, sequence->state_copy));
    }
    for (uint32_t r = 0; r < sequence->row_count; r++) {
        do_row(piece, sequence->first_row + r);
        if (r >= certain)
            keep_input(piece, cpu_state_conv_row(step->program, layer,
                                                 sequence->deferred_place + r - certain));
        piece->oldest = (piece->oldest + 1) % piece->taps;
        if (r + 1 == certain)
            store_state(piece, state);
        if (sequence->late_rows + r + 1 == copied_after)
            store_state(piece, cpu_state_conv(step->program, layer, sequence->state_copy));
    }
}

void cpu_short_conv(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    (void)thread;
    const struct plan_op *op = &step->program->plan->ops[index];
    struct conv_piece piece = {.step = step, .op = op, .index = index};
    piece.channels = step->program->tensors[op->output].columns;
    piece.taps = step->program->plan->weights[op->weights[0]].columns;
    must(piece.taps <= LIMIT_CONV_TAPS);
    uint32_t blocks = (piece.channels + BLOCK - 1) / BLOCK; /* of a sequence */
    uint32_t total = blocks * step->batch->sequence_count;
    for (;;) {
        uint32_t claimed = cpu_step_claim(step, index, 1);
        if (claimed >= total)
            return;
        piece.first = claimed % blocks * BLOCK;
        piece.count = piece.channels - piece.first;
        piece.count = piece.count < BLOCK ? piece.count : BLOCK;
        do_piece(&piece, &step->batch->sequences[claimed / blocks]);
    }
}
