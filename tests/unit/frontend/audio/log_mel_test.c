/*
 * Rows of ten clips equal those of transformers' feature extractors (scripts/golden/log_mels.py), and
 * the transform equals its definition.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontend/audio/log_mel.h"
#include "proto/limits.h"
#include "proto/must.h"
#include "tests/support/whole_file.h"

#define FOLDER "tests/golden/audio/mels/"
#define CLIPS  10
#define NEAR   1e-4

static float *read_clip(uint32_t clip, uint32_t *count)
{
    char path[128];
    size_t bytes;
    snprintf(path, sizeof path, FOLDER "%u.s16", clip);
    int16_t *stored = (int16_t *)(void *)whole_file_read(path, &bytes);
    *count = (uint32_t)(bytes / sizeof *stored);
    float *samples = must_alloc(*count, sizeof *samples);
    for (uint32_t i = 0; i < *count; i++)
        samples[i] = (float)stored[i] / 32768.0f;
    free(stored);
    return samples;
}

/* Returns the greatest difference. */
static double check_clip(const struct log_mel *mel, const char *name, uint32_t clip)
{
    char path[128];
    size_t bytes;
    uint32_t count;
    struct error_text error;
    double greatest = 0.0;
    float *samples = read_clip(clip, &count);
    snprintf(path, sizeof path, FOLDER "%u.%s.f32", clip, name);
    float *expected = (float *)(void *)whole_file_read(path, &bytes);
    uint32_t rows = log_mel_rows(&mel->settings, count), mels = mel->settings.mels;
    if (rows * mels * sizeof(float) != bytes)
        fail_msg("%s: %u rows, not %zu", path, rows, bytes / sizeof(float) / mels);
    float *made = must_alloc(rows * mels + 1, sizeof *made);
    assert_int_equal(log_mel_run(mel, samples, count, made, rows, &error), RESULT_OK);
    for (uint32_t i = 0; i < rows * mels; i++)
        greatest = fmax(greatest, fabs((double)made[i] - (double)expected[i]));
    if (!(greatest <= NEAR))
        fail_msg("%s differs by %g", path, greatest);
    free(samples);
    free(expected);
    free(made);
    return greatest;
}

static void rows_equal_transformers(void **state)
{
    (void)state;
    const struct {
        const char *name;
        struct log_mel_settings settings;
    } forms[] = {{"whisper", log_mel_whisper(80, 30)},
                 {"qwen", log_mel_whisper(128, 300)},
                 {"gemma3n", log_mel_gemma3n()},
                 {"gemma4", log_mel_gemma4()}};
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        struct log_mel mel;
        struct error_text error;
        double greatest = 0.0;
        assert_int_equal(log_mel_init(&mel, &forms[f].settings, &error), RESULT_OK);
        for (uint32_t clip = 0; clip < CLIPS; clip++)
            greatest = fmax(greatest, check_clip(&mel, forms[f].name, clip));
        print_message("%s: greatest difference %.2g\n", forms[f].name, greatest);
        log_mel_fini(&mel);
    }
}

/* An audio as long as the longest is mirrored at its end too, and every sample is heard. */
static void the_longest_audio_is_mirrored(void **state)
{
    (void)state;
    struct log_mel mel;
    struct error_text error;
    struct log_mel_settings settings = log_mel_whisper(80, 1);
    assert_int_equal(log_mel_init(&mel, &settings, &error), RESULT_OK);
    assert_int_equal(log_mel_rows(&settings, 16000), 100);
    float *samples = must_alloc(16000, sizeof *samples), *rows = must_alloc(100 * 80, sizeof *rows);
    for (uint32_t i = 0; i < 16000; i++)
        samples[i] = (float)sin(0.05 * i) + (i == 15999 ? 0.5f : 0.0f);
    assert_int_equal(log_mel_run(&mel, samples, 16000, rows, 100, &error), RESULT_OK);
    float with = rows[99 * 80 + 79];
    samples[15999] -= 0.5f;
    assert_int_equal(log_mel_run(&mel, samples, 16000, rows, 100, &error), RESULT_OK);
    assert_true(isfinite(with) && with > rows[99 * 80 + 79]);
    log_mel_fini(&mel);
    free(samples);
    free(rows);
}

static void settings_out_of_range_are_refused(void **state)
{
    (void)state;
    struct log_mel mel;
    struct log_mel_settings rows[10];
    for (size_t i = 0; i < 10; i++)
        rows[i] = i < 5 ? log_mel_gemma3n() : log_mel_whisper(80, 30);
    rows[0].rate = 100;
    rows[1].mels = LIMIT_AUDIO_MELS + 1;
    rows[2].floor = 0.0;
    rows[3].preemphasis = NAN;
    rows[4].least_hz = 7600.0;
    rows[5].hop = 0;
    rows[6].window = 1;
    rows[7].fourier = 399;
    rows[8].most_hz = 8001.0;
    rows[9].most_samples = UINT32_MAX;
    for (size_t i = 0; i < 10; i++) {
        struct error_text error = {""};
        assert_int_equal(log_mel_init(&mel, &rows[i], &error), RESULT_INVALID);
        assert_true(error.text[0] != '\0');
    }
}

static void transforms_equal_their_definition(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 2, 3, 17, 34, 60, 97, 128, 243, 400, 1000, 1024};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        struct fourier fourier;
        struct error_text error;
        uint32_t n = lengths[l];
        double frame[1024];
        struct fourier_value out[1024];
        assert_int_equal(fourier_init(&fourier, n, &error), RESULT_OK);
        for (uint32_t i = 0; i < n; i++)
            frame[i] = sin(i * 1.7) + (double)(i * 7919u % 31u) / 31.0;
        fourier_run(&fourier, frame, out);
        for (uint32_t k = 0; k < n; k += 1 + n / 40) {
            double re = 0.0, im = 0.0;
            for (uint32_t j = 0; j < n; j++) {
                double angle = -2.0 * M_PI * (double)((uint64_t)j * k % n) / n;
                re += frame[j] * cos(angle);
                im += frame[j] * sin(angle);
            }
            if (!(fabs(re - out[k].re) < 1e-9 * n && fabs(im - out[k].im) < 1e-9 * n))
                fail_msg("length %u, value %u", n, k);
        }
        fourier_fini(&fourier);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_equal_transformers),
        cmocka_unit_test(the_longest_audio_is_mirrored),
        cmocka_unit_test(settings_out_of_range_are_refused),
        cmocka_unit_test(transforms_equal_their_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
