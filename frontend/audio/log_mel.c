/*
 * Everything is computed in f64 and rounded once at the end: the publishers' code rounds to f32 in
 * different places on different machines, and this lies in the middle of these.
 *
 * Sources: transformers, feature_extraction_whisper.py, feature_extraction_gemma3n.py,
 * feature_extraction_gemma4.py and audio_utils.py (mel_filter_bank).
 */
#include "frontend/audio/log_mel.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "proto/limits.h"
#include "proto/must.h"

#define GEMMA_MULTIPLE     128u /* samples that gemma3n and gemma4 pad to */
#define WHISPER_LEAST      1e-10
#define WHISPER_RANGE      8.0 /* decades below the greatest value that are kept */
#define SLANEY_LINEAR_HZ   1000.0
#define SLANEY_LINEAR_MELS 15.0

struct log_mel_settings log_mel_whisper(uint32_t mels, uint32_t seconds)
{
    return (struct log_mel_settings){.rule = LOG_MEL_WHISPER,
                                     .rate = 16000,
                                     .mels = mels,
                                     .window = 400,
                                     .hop = 160,
                                     .fourier = 400,
                                     .most_samples = seconds * 16000,
                                     .most_hz = 8000.0};
}

struct log_mel_settings log_mel_gemma3n(void)
{
    return (struct log_mel_settings){.rule = LOG_MEL_GEMMA3N,
                                     .rate = 16000,
                                     .mels = 128,
                                     .window = 512,
                                     .hop = 160,
                                     .fourier = 1024,
                                     .most_samples = 480000,
                                     .least_hz = 125.0,
                                     .most_hz = 7600.0,
                                     .preemphasis = 0.97,
                                     .floor = 1e-5};
}

struct log_mel_settings log_mel_gemma4(void)
{
    return (struct log_mel_settings){.rule = LOG_MEL_GEMMA4,
                                     .rate = 16000,
                                     .mels = 128,
                                     .window = 320,
                                     .hop = 160,
                                     .fourier = 512,
                                     .most_samples = 480000,
                                     .most_hz = 8000.0,
                                     .floor = 1e-3};
}

/* --- mels ------------------------------------------------------------------------------------- */

static double mel_of(const struct log_mel_settings *s, double hz)
{
    if (s->rule != LOG_MEL_WHISPER)
        return 2595.0 * log10(1.0 + hz / 700.0);
    if (hz < SLANEY_LINEAR_HZ)
        return 3.0 * hz / 200.0;
    return SLANEY_LINEAR_MELS + log(hz / SLANEY_LINEAR_HZ) * 27.0 / log(6.4);
}

static double hz_of(const struct log_mel_settings *s, double mel)
{
    if (s->rule != LOG_MEL_WHISPER)
        return 700.0 * (pow(10.0, mel / 2595.0) - 1.0);
    if (mel < SLANEY_LINEAR_MELS)
        return 200.0 * mel / 3.0;
    return SLANEY_LINEAR_HZ * exp(log(6.4) / 27.0 * (mel - SLANEY_LINEAR_MELS));
}

/* Corner i of mels + 2: mel m rises from corner m to m + 1 and falls to m + 2. */
static double corner_of(const struct log_mel_settings *s, uint32_t i)
{
    double least = mel_of(s, s->least_hz), most = mel_of(s, s->most_hz);
    return hz_of(s, least + (most - least) * i / (s->mels + 1));
}

/* The weight of a bin, 0 outside the triangle. */
static double weight_of(const struct log_mel_settings *s, const double corners[3], uint32_t bin)
{
    double hz = (double)bin * s->rate / s->fourier;
    double rise = (hz - corners[0]) / (corners[1] - corners[0]);
    double fall = (corners[2] - hz) / (corners[2] - corners[1]);
    double weight = fmax(0.0, fmin(rise, fall));
    return s->rule == LOG_MEL_WHISPER ? weight * 2.0 / (corners[2] - corners[0]) : weight;
}

static uint32_t bins_of(const struct log_mel_settings *s)
{
    return s->fourier / 2 + 1;
}

/* The triangles; without `weights` only their bins. Returns the number of weights. */
static uint32_t triangles_fill(const struct log_mel_settings *s, struct mel_triangle *triangles,
                               double *weights)
{
    uint32_t total = 0;
    for (uint32_t m = 0; m < s->mels; m++) {
        const double corners[3] = {corner_of(s, m), corner_of(s, m + 1), corner_of(s, m + 2)};
        struct mel_triangle triangle = {.weights = total};
        for (uint32_t bin = 0; bin < bins_of(s); bin++) {
            double weight = weight_of(s, corners, bin);
            if (weight <= 0.0)
                continue;
            if (triangle.count++ == 0)
                triangle.first = bin;
            if (weights)
                weights[total] = weight;
            total++;
        }
        triangles[m] = triangle;
    }
    return total;
}

/* --- life ------------------------------------------------------------------------------------- */

static enum result settings_check(const struct log_mel_settings *s, struct error_text *error)
{
    const struct {
        const char *name;
        double value, least, most;
    } ranges[] = {
        {"rate", s->rate, LIMIT_AUDIO_RATE_LEAST, LIMIT_AUDIO_RATE_MOST},
        {"mels", s->mels, 1, LIMIT_AUDIO_MELS},
        {"window", s->window, 2, FOURIER_LENGTH_MOST},
        {"hop", s->hop, 1, s->window},
        {"transform", s->fourier, s->window, FOURIER_LENGTH_MOST},
        {"maximum of samples", s->most_samples, s->window, LIMIT_AUDIO_SAMPLES},
        {"lowest frequency", s->least_hz, 0, s->most_hz - 1},
        {"highest frequency", s->most_hz, 1, s->rate / 2.0},
        {"preemphasis", s->preemphasis, 0, 1},
        {"floor", s->floor, s->rule == LOG_MEL_WHISPER ? 0 : 1e-12, 1},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (!(ranges[i].value >= ranges[i].least && ranges[i].value <= ranges[i].most))
            return error_set(error, RESULT_INVALID, "its %s of %g is not within %g to %g",
                             ranges[i].name, ranges[i].value, ranges[i].least, ranges[i].most);
    }
    return RESULT_OK;
}

/* Hann's window as published: in gemma3n rounded to f32 at every step, which shows in mels of few bins
 * that are much quieter than others. */
static double window_value(const struct log_mel_settings *s, uint32_t i)
{
    if (s->rule != LOG_MEL_GEMMA3N)
        return 0.5 - 0.5 * cos(2.0 * M_PI * i / s->window);
    float angle = (float)(2.0 * M_PI) * (float)i / (float)s->window;
    return 0.5f * (1.0f - cosf(angle));
}

enum result log_mel_init(struct log_mel *mel, const struct log_mel_settings *settings,
                         struct error_text *error)
{
    *mel = (struct log_mel){.settings = *settings};
    enum result result = settings_check(settings, error);
    if (result == RESULT_OK)
        result = fourier_init(&mel->fourier, settings->fourier, error);
    if (result != RESULT_OK)
        return result;
    mel->window = calloc(settings->window, sizeof *mel->window);
    mel->triangles = calloc(settings->mels, sizeof *mel->triangles);
    if (mel->triangles)
        mel->weights =
            calloc(triangles_fill(settings, mel->triangles, NULL) + 1, sizeof *mel->weights);
    if (!mel->window || !mel->triangles || !mel->weights) {
        log_mel_fini(mel);
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for mels");
    }
    (void)triangles_fill(settings, mel->triangles, mel->weights);
    for (uint32_t i = 0; i < settings->window; i++)
        mel->window[i] = window_value(settings, i);
    return RESULT_OK;
}

void log_mel_fini(struct log_mel *mel)
{
    fourier_fini(&mel->fourier);
    free(mel->window);
    free(mel->triangles);
    free(mel->weights);
    *mel = (struct log_mel){0};
}

/* --- rows ------------------------------------------------------------------------------------- */

uint32_t log_mel_rows(const struct log_mel_settings *s, uint32_t samples)
{
    uint32_t begun = (samples + s->hop - 1) / s->hop;
    uint32_t padded = (samples + GEMMA_MULTIPLE - 1) / GEMMA_MULTIPLE * GEMMA_MULTIPLE;
    uint32_t half = s->window / 2;
    switch (s->rule) {
    case LOG_MEL_WHISPER: {
        uint32_t most = s->most_samples / s->hop;
        return begun < most ? begun : most;
    }
    case LOG_MEL_GEMMA3N: { /* a frame needs one sample more than it has */
        uint32_t whole = padded > s->window ? (padded - s->window - 1) / s->hop + 1 : 0;
        return whole < begun ? whole : begun;
    }
    default:
        return samples > s->window - half ? (samples - (s->window - half) - 1) / s->hop + 1 : 0;
    }
}

struct sound {
    const float *samples;
    int64_t count;
    int64_t whole; /* with the zeros after it, after which it is mirrored */
};

static double sample_at(const struct sound *sound, int64_t at)
{
    if (at < 0)
        at = -at;
    if (at >= sound->whole)
        at = 2 * (sound->whole - 1) - at;
    return at >= 0 && at < sound->count ? (double)sound->samples[at] : 0.0;
}

/* frame[fourier] of a row: windowed samples, then zeros. */
static void frame_fill(const struct log_mel *mel, const struct sound *sound, uint32_t row,
                       double *frame)
{
    const struct log_mel_settings *s = &mel->settings;
    bool mirrored = s->rule == LOG_MEL_WHISPER;
    int64_t first = (int64_t)row * s->hop - (s->rule == LOG_MEL_GEMMA3N ? 0 : s->window / 2);
    double before = 0.0;
    for (uint32_t i = 0; i < s->window; i++) {
        int64_t at = first + i;
        double sample = mirrored || at >= 0 ? sample_at(sound, at) : 0.0, value = sample;
        if (s->preemphasis > 0.0)
            value = i == 0 ? sample * (1.0 - s->preemphasis) : sample - s->preemphasis * before;
        before = sample;
        frame[i] = value * mel->window[i];
    }
    for (uint32_t i = s->window; i < s->fourier; i++)
        frame[i] = 0.0;
}

/* The logarithms of a frame's mels in `out`; `spectrum` is work space. */
static void frame_mels(const struct log_mel *mel, const double *frame,
                       struct fourier_value *spectrum, double *out)
{
    const struct log_mel_settings *s = &mel->settings;
    fourier_run(&mel->fourier, frame, spectrum);
    for (uint32_t bin = 0; bin < bins_of(s); bin++) {
        double power = spectrum[bin].re * spectrum[bin].re + spectrum[bin].im * spectrum[bin].im;
        spectrum[bin].re = s->rule == LOG_MEL_WHISPER ? power : sqrt(power);
    }
    for (uint32_t m = 0; m < s->mels; m++) {
        const struct mel_triangle *triangle = &mel->triangles[m];
        double sum = 0.0;
        for (uint32_t i = 0; i < triangle->count; i++)
            sum += mel->weights[triangle->weights + i] * spectrum[triangle->first + i].re;
        switch (s->rule) {
        case LOG_MEL_WHISPER: out[m] = log10(fmax(sum, WHISPER_LEAST)); break;
        case LOG_MEL_GEMMA3N: out[m] = log(fmax(sum, s->floor)); break;
        default: out[m] = log(sum + s->floor); break;
        }
    }
}

/* Whisper's last step. */
static void rows_level(float *rows, uint64_t values, double greatest)
{
    for (uint64_t i = 0; i < values; i++)
        rows[i] = (float)((fmax((double)rows[i], greatest - WHISPER_RANGE) + 4.0) / 4.0);
}

enum result log_mel_run(const struct log_mel *mel, const float *samples, uint32_t count,
                        float *rows, uint32_t row_count, struct error_text *error)
{
    const struct log_mel_settings *s = &mel->settings;
    bool levels = s->rule == LOG_MEL_WHISPER;
    const struct sound sound = {samples, count, levels ? s->most_samples : INT64_MAX / 4};
    /* Frames after the last row that still hear the audio count for the greatest value. */
    uint32_t most = s->most_samples / s->hop, heard = (count + s->window / 2) / s->hop + 1;
    uint32_t all = levels && heard > row_count ? heard : row_count;
    all = levels && all > most ? most : all;
    must(count >= 1 && count <= s->most_samples && row_count <= all);
    double greatest = -HUGE_VAL;
    double *frame = calloc((size_t)s->fourier + s->mels, sizeof *frame);
    struct fourier_value *spectrum = calloc(s->fourier, sizeof *spectrum);
    enum result result = frame && spectrum ? RESULT_OK : RESULT_OUT_OF_MEMORY;
    for (uint32_t row = 0; row < all && result == RESULT_OK; row++) {
        double *out = frame + s->fourier;
        frame_fill(mel, &sound, row, frame);
        frame_mels(mel, frame, spectrum, out);
        for (uint32_t m = 0; m < s->mels; m++) {
            greatest = fmax(greatest, out[m]);
            if (row < row_count)
                rows[(uint64_t)row * s->mels + m] = (float)out[m];
        }
    }
    if (levels && result == RESULT_OK)
        rows_level(rows, (uint64_t)row_count * s->mels, greatest);
    free(frame);
    free(spectrum);
    return result == RESULT_OK ? RESULT_OK
                               : error_set(error, RESULT_OUT_OF_MEMORY, "no memory for mels");
}
