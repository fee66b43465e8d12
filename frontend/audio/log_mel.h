/*
 * Log-mel rows: what audio towers see of sound. Samples are cut into overlapping frames, each frame's
 * spectrum is summed by triangles of equal width on the mel scale, and the logarithms of these sums
 * are a row.
 *
 * Rows equal those of transformers' feature extractors within 1e-4 (tests/golden/audio/PROVENANCE.md):
 *
 *   WHISPER  WhisperFeatureExtractor: frame r is centred on sample r * hop; beyond the audio are zeros up
 *            to most_samples, beyond these and before the first sample the audio mirrored. Periodic Hann
 *            window, power spectrum, Slaney's mels with triangles of equal area; v = log10(max(sum,
 *            1e-10)), then (max(v, greatest v - 8) + 4) / 4. A row for each begun hop.
 *   GEMMA3N  Gemma3nAudioFeatureExtractor: frame r begins at sample r * hop; of the audio with zeros up to a
 *            multiple of 128 samples. The first sample times 1 - preemphasis, the others minus
 *            preemphasis times the one before; Hann, spectrum of magnitudes, HTK's mels;
 *            ln(max(sum, floor)).
 *   GEMMA4   Gemma4AudioFeatureExtractor: as GEMMA3N, but half a frame of zeros in front, and
 *            ln(sum + floor). Only rows of frames that end inside the audio.
 */
#ifndef SHOAL_FRONTEND_AUDIO_LOG_MEL_H
#define SHOAL_FRONTEND_AUDIO_LOG_MEL_H

#include <stdint.h>

#include "frontend/audio/fourier.h"

enum log_mel_rule { LOG_MEL_WHISPER, LOG_MEL_GEMMA3N, LOG_MEL_GEMMA4, LOG_MEL_RULES };

struct log_mel_settings {
    enum log_mel_rule rule;
    uint32_t rate;         /* samples a second, LIMIT_AUDIO_RATE_* */
    uint32_t mels;         /* columns of a row, 1..LIMIT_AUDIO_MELS */
    uint32_t window;       /* samples of a frame, 2..FOURIER_LENGTH_MOST */
    uint32_t hop;          /* samples from frame to frame, 1..window */
    uint32_t fourier;      /* length of the transform, window..FOURIER_LENGTH_MOST */
    uint32_t most_samples; /* of one audio, window..LIMIT_AUDIO_SAMPLES */
    double least_hz;       /* 0 <= least_hz < most_hz <= rate / 2 */
    double most_hz;
    double preemphasis; /* 0..1, of Gemma's rules */
    double floor;       /* above 0, likewise */
};

/* Settings of the published models: `mels` and `seconds` of Whisper's, which differ. */
struct log_mel_settings log_mel_whisper(uint32_t mels, uint32_t seconds);
struct log_mel_settings log_mel_gemma3n(void);
struct log_mel_settings log_mel_gemma4(void);

/* The part of the spectrum that a mel sums. */
struct mel_triangle {
    uint32_t first; /* bin */
    uint32_t count;
    uint32_t weights; /* index of its first weight */
};

/* Immutable once open. */
struct log_mel {
    struct log_mel_settings settings;
    struct fourier fourier;
    double *window;                 /* [window] */
    struct mel_triangle *triangles; /* [mels] */
    double *weights;
};

/* RESULT_INVALID, with the setting, if one is out of its range. RESULT_OUT_OF_MEMORY. */
enum result log_mel_init(struct log_mel *mel, const struct log_mel_settings *settings,
                         struct error_text *error) RESULT_CHECKED;
void log_mel_fini(struct log_mel *mel);

/* Rows of an audio; 0: it is too short for one. */
uint32_t log_mel_rows(const struct log_mel_settings *settings, uint32_t samples);

/* Writes rows[row_count][mels] of finite samples, 1..most_samples of them. `row_count` is log_mel_rows(),
 * or more of WHISPER, up to most_samples / hop: rows of the zeros after the audio.
 * RESULT_OUT_OF_MEMORY. */
enum result log_mel_run(const struct log_mel *mel, const float *samples, uint32_t count,
                        float *rows, uint32_t row_count, struct error_text *error) RESULT_CHECKED;

#endif
