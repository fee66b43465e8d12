/*
 * sound_rows and sound_taps: mel rows and what a convolution over three rows made of them, unfolded as
 * the checkpoint's kernels are, so that convolutions are products.
 */
#include <string.h>

#include "worker/backend/cpu/ops/cpu_ops.h"

static const struct encode_image *sound_of(const struct cpu_step *step, uint32_t row)
{
    return &step->patches->tiles[step->patches->places[row].tile].image;
}

/* Mel row `at` of the sound; NULL: beyond it. The bytes have no alignment. */
static const uint8_t *mel_row(const struct encode_image *sound, int64_t at)
{
    if (at < 0 || at >= sound->shape.height)
        return NULL;
    return sound->pixels + (size_t)at * sound->shape.width * sizeof(float);
}

/* All mels of `lines` mel rows. */
static void copy_lines(const struct encode_image *sound, uint32_t y, uint32_t lines, float *out)
{
    size_t mels = sound->shape.width;
    for (uint32_t i = 0; i < lines; i++, out += mels) {
        const uint8_t *from = mel_row(sound, (int64_t)y * lines + i);
        if (from)
            memcpy(out, from, mels * sizeof *out);
    }
}

void cpu_sound_rows(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    uint32_t columns = step->program->tensors[op->output].columns;
    uint32_t lines = op->params.sound_rows.lines;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_PATCHES, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        const struct encode_image *sound = sound_of(step, row);
        int64_t first = 2 * (int64_t)step->patches->places[row].y + op->params.sound_rows.tap - 2;
        float *out = cpu_step_row(step, op->output, row);
        memset(out, 0, columns * sizeof *out);
        if (lines > 0)
            copy_lines(sound, step->patches->places[row].y, lines, out);
        for (uint32_t i = 0; lines == 0 && i < SOUND_TAPS; i++) {
            const uint8_t *mels = mel_row(sound, first + i);
            for (uint32_t m = 0; mels && m < sound->shape.width; m++)
                memcpy(&out[SOUND_TAPS * m + i], mels + m * sizeof *out, sizeof *out);
        }
    }
}

void cpu_sound_taps(const struct cpu_step *step, uint32_t index, uint32_t thread)
{
    const struct plan_op *op = &step->program->plan->ops[index];
    uint32_t columns = step->program->tensors[op->inputs[0]].columns;
    uint32_t tap = op->params.sound_taps.tap;
    struct row_share share = cpu_step_share(step, PLAN_ROWS_PATCHES, thread);
    for (uint32_t row = share.begin; row < share.end; row++) {
        int64_t at = 2 * (int64_t)step->patches->places[row].y + tap - 1;
        bool heard = mel_row(sound_of(step, row), at) != NULL;
        const float *x = cpu_step_row(step, op->inputs[0], row);
        float *out = cpu_step_row(step, op->output, row);
        for (uint32_t c = 0; c < columns; c++)
            out[SOUND_TAPS * c + tap] = heard ? x[c] : 0.0f;
    }
}
