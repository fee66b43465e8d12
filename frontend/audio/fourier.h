/*
 * Discrete Fourier transforms of real frames of any length, quick for lengths of small factors.
 */
#ifndef SHOAL_FRONTEND_AUDIO_FOURIER_H
#define SHOAL_FRONTEND_AUDIO_FOURIER_H

#include <stdint.h>

#include "proto/result.h"

#define FOURIER_LENGTH_MOST 8192u

struct fourier_value {
    double re;
    double im;
};

/* Immutable once open; each thread has its own work space. */
struct fourier {
    uint32_t length;
    struct fourier_value *roots; /* [length] exp(-2 pi i k / length) */
};

/* For frames of `length` samples, 1..FOURIER_LENGTH_MOST. RESULT_OUT_OF_MEMORY. */
enum result fourier_init(struct fourier *fourier, uint32_t length,
                         struct error_text *error) RESULT_CHECKED;
void fourier_fini(struct fourier *fourier);

/* out[k] = sum over j of frame[j] * exp(-2 pi i j k / length), for all k < length. */
void fourier_run(const struct fourier *fourier, const double *frame, struct fourier_value *out);

#endif
