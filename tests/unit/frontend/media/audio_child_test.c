/*
 * Audio files, decoded in a process of shoal-av: the samples are those of PyAV
 * (scripts/golden/audio_files.py), tones keep their form at other rates, and damaged, lying and endless
 * files are refused or bounded while the process goes on.
 *
 * Tests are skipped where the build has no FFmpeg's libraries.
 */
// tags: no-sanitizers
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/base/program_spawn.h"
#include "frontend/media/media_child.h"
#include "proto/limits.h"
#include "proto/must.h"
#include "tests/support/test_random.h"
#include "tests/support/whole_file.h"

#define FOLDER     "tests/golden/audio/files/"
#define PROGRAM    "../../../../shoal-av" /* from the folder of this one */
#define FUZZED     300
#define NEAR_LOSSY 2e-3 /* decoders of other versions round otherwise */
#define NEAR_TONE  2e-3
#define TAPS       200 /* samples at either end that a resampler's filter may change */
#define MPEG_BYTES 36  /* a frame of MPEG 2 layer 3, 8 kbit/s, 36 ms */

static char program[PROGRAM_PATH_BYTES];
static struct media_child child;

static int setup(void **state)
{
    struct error_text error;
    (void)state;
    return program_path(PROGRAM, program, &error) == RESULT_OK ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    media_child_close(&child, NULL);
    return 0;
}

static void child_ready(void)
{
    struct error_text error = {""};
    if (access(program, X_OK) != 0)
        skip();
    if (child.pid == 0 && media_child_open(&child, program, &error) != RESULT_OK)
        fail_msg("%s", error.text);
}

/* Decodes a file. Returns the samples, NULL after an error; a process that does not answer fails the
 * test. */
static float *decode(const uint8_t *bytes, size_t count, uint32_t rate, uint32_t *samples,
                     struct error_text *error)
{
    struct media_reply reply;
    struct image_pixels unused;
    const struct image_input input = {bytes, count, NULL};
    struct media_question question = {.action = MEDIA_AUDIO_PROBE, .input = &input, .rate = rate};
    child_ready();
    if (media_child_ask(&child, &question, &reply, &unused, error) != MEDIA_ANSWERED)
        fail_msg("%s", error->text);
    if (reply.result != RESULT_OK) {
        (void)error_set(error, (enum result)reply.result, "%s", reply.text);
        return NULL;
    }
    struct audio_header header = media_reply_audio(&reply, rate);
    assert_true(audio_header_is_valid(&header));
    float *made = must_alloc(header.samples, sizeof *made);
    question.action = MEDIA_AUDIO_DECODE;
    question.samples_wanted = *samples = header.samples;
    question.samples = made;
    if (media_child_ask(&child, &question, &reply, &unused, error) != MEDIA_ANSWERED)
        fail_msg("%s", error->text);
    assert_int_equal(reply.result, RESULT_OK);
    for (uint32_t i = 0; i < header.samples; i++)
        assert_true(fabsf(made[i]) <= AUDIO_SAMPLE_MAX);
    return made;
}

struct golden {
    char name[32];
    uint32_t rate;
    uint32_t samples;
};

static uint32_t each_file(void (*check)(const struct golden *golden))
{
    FILE *list = fopen(FOLDER "files.txt", "r");
    struct golden golden;
    uint32_t count = 0;
    assert_non_null(list);
    for (; fscanf(list, "%31s %u %u", golden.name, &golden.rate, &golden.samples) == 3; count++)
        check(&golden);
    (void)fclose(list);
    return count;
}

static uint8_t *read_file(const char *name, const char *suffix, size_t *bytes)
{
    char path[128];
    snprintf(path, sizeof path, FOLDER "%s%s", name, suffix);
    return whole_file_read(path, bytes);
}

/* --- samples ---------------------------------------------------------------------------------- */

/* PyAV leaves out the last packet of a Vorbis file, and neither cuts the end of an MP4's last frame
 * everywhere, so as many samples are compared as both have. */
static void check_file(const struct golden *golden)
{
    size_t bytes, expected_bytes;
    uint32_t samples = 0;
    struct error_text error = {""};
    bool exact = strstr(golden->name, ".wav") || strstr(golden->name, ".flac");
    uint8_t *file = read_file(golden->name, "", &bytes);
    float *expected = (float *)(void *)read_file(golden->name, ".f32", &expected_bytes);
    float *made = decode(file, bytes, golden->rate, &samples, &error);
    double greatest = 0.0;
    if (!made)
        fail_msg("%s: %s", golden->name, error.text);
    assert_int_equal(expected_bytes, golden->samples * sizeof(float));
    if (exact)
        assert_int_equal(samples, golden->samples);
    assert_in_range(samples, golden->rate / 4, golden->rate / 4 + 1024);
    for (uint32_t i = 0; i < samples && i < golden->samples; i++)
        greatest = fmax(greatest, fabs((double)made[i] - (double)expected[i]));
    if (!(greatest <= (exact ? 1e-6 : NEAR_LOSSY)))
        fail_msg("%s differs by %g", golden->name, greatest);
    print_message("%s: %u samples, greatest difference %.2g\n", golden->name, samples, greatest);
    free(file);
    free(expected);
    free(made);
}

static void samples_equal_those_of_pyav(void **state)
{
    (void)state;
    assert_int_equal(each_file(check_file), 10);
}

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *at, uint32_t value)
{
    put16(at, value);
    put16(at + 2, value >> 16);
}

#define WAV_HEAD 44u

/* The header of a WAV of `bytes` bytes of samples. */
static void wav_head(uint8_t *file, uint32_t channels, uint32_t rate, uint32_t bits, uint32_t bytes)
{
    memcpy(file, "RIFF\0\0\0\0WAVEfmt \20\0\0\0\1\0", 22);
    put32(file + 4, bytes + 36);
    put16(file + 22, channels);
    put32(file + 24, rate);
    put32(file + 28, rate * channels * bits / 8);
    put16(file + 32, channels * bits / 8);
    put16(file + 34, bits);
    memcpy(file + 36, "data", 4);
    put32(file + 40, bytes);
}

/* A tone in every channel at another rate than the model's: what is resampled is the tone. */
static void check_tone(uint32_t rate, uint32_t wanted, uint32_t channels)
{
    uint32_t count = rate / 4, samples = 0;
    uint32_t bytes = count * channels * 2;
    struct error_text error = {""};
    uint8_t *file = must_alloc(WAV_HEAD + bytes, 1);
    wav_head(file, channels, rate, 16, bytes);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t c = 0; c < channels; c++)
            put16(file + WAV_HEAD + 2 * (i * channels + c),
                  (uint32_t)(int32_t)lrint(32767 * 0.2 * (c + 1) * sin(2 * M_PI * 440 * i / rate)));
    float *made = decode(file, WAV_HEAD + bytes, wanted, &samples, &error);
    if (!made)
        fail_msg("%u to %u: %s", rate, wanted, error.text);
    assert_in_range(samples, wanted / 4 - 2, wanted / 4 + 2);
    for (uint32_t i = TAPS; i + TAPS < samples; i++) {
        double tone = 0.2 * (channels + 1) / 2 * sin(2 * M_PI * 440 * i / wanted);
        if (!(fabs((double)made[i] - tone) < NEAR_TONE))
            fail_msg("%u to %u, sample %u: %g, not %g", rate, wanted, i, (double)made[i], tone);
    }
    free(file);
    free(made);
}

static void tones_are_resampled_and_mixed(void **state)
{
    (void)state;
    static const uint32_t rates[] = {8000, 11025, 16000, 22050, 24000, 44100, 48000, 96000, 192000};
    for (size_t r = 0; r < sizeof rates / sizeof rates[0]; r++)
        for (uint32_t channels = 1; channels <= 3; channels++)
            check_tone(rates[r], 16000, channels);
    check_tone(16000, 24000, 2);
}

/* --- hostile files ---------------------------------------------------------------------------- */

static void refused(const uint8_t *file, size_t bytes, const char *words)
{
    uint32_t samples;
    struct error_text error = {""};
    float *made = decode(file, bytes, 16000, &samples, &error);
    assert_null(made);
    if (!strstr(error.text, words))
        fail_msg("'%s' instead of '%s'", error.text, words);
}

static void headers_that_lie_are_refused_or_bounded(void **state)
{
    (void)state;
    uint32_t bytes = 3200, samples;
    struct error_text error = {""};
    uint8_t file[WAV_HEAD + 3200] = {0};
    refused((const uint8_t *)"this is not audio", 17, "no audio that is supported");
    refused((const uint8_t *)"OggS", 4, "no audio that is supported");
    wav_head(file, 1, 16000, 16, UINT32_MAX); /* far more than there is */
    float *made = decode(file, sizeof file, 16000, &samples, &error);
    assert_non_null(made);
    assert_int_equal(samples, bytes / 2);
    free(made);
    wav_head(file, 0, 16000, 16, bytes);
    refused(file, sizeof file, "");
    wav_head(file, 64, 16000, 16, bytes);
    refused(file, sizeof file, "64 channels");
    wav_head(file, 1, 0, 16, bytes);
    refused(file, sizeof file, "");
    wav_head(file, 1, 2000000, 16, bytes);
    refused(file, sizeof file, "2000000 samples a second");
    wav_head(file, 1, 16000, 16, bytes);
    put16(file + 20, 0x2000); /* AC-3 */
    refused(file, sizeof file, "not supported");
    wav_head(file, 1, 16000, 32, bytes);
    put16(file + 20, 3); /* floats */
    put32(file + WAV_HEAD + 40, 0x7fc00000);
    refused(file, sizeof file, "times full scale");
    put32(file + WAV_HEAD + 40, 0x7f7fffff);
    refused(file, sizeof file, "times full scale");
    refused(file, WAV_HEAD, "");
}

/* Two hours of silence in frames of an MP3, and more than an hour of 8-bit samples. */
static void hours_of_silence_are_refused(void **state)
{
    (void)state;
    static const uint8_t head[] = {0xff, 0xf3, 0x18, 0xc4};
    uint32_t frames = 2 * 3600 * 1000 / 36;
    uint8_t *file = must_alloc(frames, MPEG_BYTES);
    for (uint32_t i = 0; i < frames; i++)
        memcpy(file + (size_t)i * MPEG_BYTES, head, sizeof head);
    refused(file, (size_t)frames * MPEG_BYTES, "longer than 1800 seconds");
    free(file);
    uint32_t bytes = LIMIT_SOURCE_IMAGE_BYTES - WAV_HEAD;
    file = must_alloc(LIMIT_SOURCE_IMAGE_BYTES, 1);
    wav_head(file, 1, 8000, 8, bytes);
    refused(file, LIMIT_SOURCE_IMAGE_BYTES, "longer than 1800 seconds");
    free(file);
}

static uint32_t answers, refusals;

static void fuzz_file(const struct golden *golden)
{
    size_t bytes;
    uint8_t *file = read_file(golden->name, "", &bytes), *changed = must_alloc(bytes, 1);
    struct test_random random = {golden->samples * 31 + golden->rate};
    for (uint32_t i = 0; i < FUZZED / 10; i++) {
        size_t length = i % 3 ? bytes : 1 + test_random_below(&random, (uint32_t)bytes);
        uint32_t samples, changes = i % 4 ? 1 + test_random_below(&random, 12) : 0;
        struct error_text error = {""};
        memcpy(changed, file, bytes);
        for (uint32_t c = 0; c < changes; c++) {
            uint32_t most = c % 2 ? 64 : (uint32_t)length; /* half of them in the headers */
            size_t at = test_random_below(&random, most < length ? most : (uint32_t)length);
            changed[at] = (uint8_t)test_random_next(&random);
        }
        pid_t pid = child.pid;
        float *made = decode(changed, length, 16000, &samples, &error);
        answers += made != NULL;
        refusals += made == NULL;
        assert_true(made || error.text[0] != '\0');
        assert_true(child.pid == pid);
        free(made);
    }
    free(changed);
    free(file);
}

static void damaged_files_are_refused_or_give_samples(void **state)
{
    (void)state;
    child_ready();
    assert_int_equal(each_file(fuzz_file), 10);
    print_message("%u files decoded, %u refused\n", answers, refusals);
    assert_int_equal(answers + refusals, FUZZED);
    assert_true(answers > 0 && refusals > 0);
    samples_equal_those_of_pyav(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_equal_those_of_pyav),
        cmocka_unit_test(tones_are_resampled_and_mixed),
        cmocka_unit_test(headers_that_lie_are_refused_or_bounded),
        cmocka_unit_test(hours_of_silence_are_refused),
        cmocka_unit_test(damaged_files_are_refused_or_give_samples),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
