/*
 * Decimation in time by the length's prime factors, smallest first: a transform of length p * m is p
 * transforms of length m, combined. A prime length is transformed by its definition.
 */
#include "frontend/audio/fourier.h"

#include <math.h>
#include <stdlib.h>

#include "proto/must.h"

#define FACTOR_MOST 16u /* larger ones are transformed by definition */

enum result fourier_init(struct fourier *fourier, uint32_t length, struct error_text *error)
{
    must(length >= 1 && length <= FOURIER_LENGTH_MOST);
    *fourier = (struct fourier){length, calloc(length, sizeof *fourier->roots)};
    if (!fourier->roots)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a transform");
    for (uint32_t k = 0; k < length; k++) {
        double angle = -2.0 * M_PI * k / length;
        fourier->roots[k] = (struct fourier_value){cos(angle), sin(angle)};
    }
    return RESULT_OK;
}

void fourier_fini(struct fourier *fourier)
{
    free(fourier->roots);
    *fourier = (struct fourier){0};
}

static struct fourier_value times(struct fourier_value a, struct fourier_value b)
{
    return (struct fourier_value){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static uint32_t smallest_factor(uint32_t length)
{
    for (uint32_t factor = 2; factor <= FACTOR_MOST && factor < length; factor++) {
        if (length % factor == 0)
            return factor;
    }
    return length;
}

/* A part of the whole: every `stride`-th sample from `frame` on. */
struct part {
    const double *frame;
    uint32_t stride;
    uint32_t length;
};

static void by_definition(const struct fourier *f, const struct part *part,
                          struct fourier_value *out)
{
    for (uint32_t k = 0; k < part->length; k++) {
        struct fourier_value sum = {0};
        for (uint32_t j = 0; j < part->length; j++) {
            struct fourier_value root = f->roots[(uint64_t)j * k % part->length * part->stride];
            double sample = part->frame[(size_t)j * part->stride];
            sum.re += sample * root.re;
            sum.im += sample * root.im;
        }
        out[k] = sum;
    }
}

/* Depth: one call for each factor, at most 13 of them. */
static void transform(const struct fourier *f, const struct part *part, struct fourier_value *out)
{
    uint32_t factor = smallest_factor(part->length);
    if (factor == part->length) {
        by_definition(f, part, out);
        return;
    }
    uint32_t length = part->length / factor;
    for (uint32_t i = 0; i < factor; i++)
        transform(f,
                  &(const struct part){part->frame + (size_t)i * part->stride,
                                       part->stride * factor, length},
                  out + (size_t)i * length);
    for (uint32_t k = 0; k < length; k++) {
        struct fourier_value turned[FACTOR_MOST];
        for (uint32_t i = 0; i < factor; i++)
            turned[i] = times(out[(size_t)i * length + k], f->roots[i * k * part->stride]);
        for (uint32_t q = 0; q < factor; q++) {
            struct fourier_value sum = turned[0];
            for (uint32_t i = 1; i < factor; i++) {
                struct fourier_value one =
                    times(turned[i], f->roots[i * q % factor * length * part->stride]);
                sum.re += one.re;
                sum.im += one.im;
            }
            out[(size_t)q * length + k] = sum;
        }
    }
}

void fourier_run(const struct fourier *fourier, const double *frame, struct fourier_value *out)
{
    transform(fourier, &(const struct part){frame, 1, fourier->length}, out);
}
