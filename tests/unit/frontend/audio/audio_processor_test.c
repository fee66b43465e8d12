/*
 * Settings of an audio processor, the plan of a sound (token counts as in processing_qwen2_audio.py),
 * and what is sent of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/audio/audio_processor.h"
#include "proto/must.h"

#define CONFIG(members)                                                                            \
    "{\"model_type\": \"qwen2_audio\", \"audio_config\": {\"num_mel_bins\": 128" members "}}"

static struct json_value json_of(const char *text)
{
    struct json_value value = {0};
    struct error_text error;
    if (text)
        must(json_value_open(text, strlen(text), strlen(text), &value, &error) == RESULT_OK);
    return value;
}

static enum result open(const char *config, const char *extractor, struct audio_processor *p,
                        struct error_text *error)
{
    const struct audio_processor_files files = {.config = json_of(config),
                                                .preprocessor = json_of(extractor)};
    return audio_processor_open(&files, p, error);
}

static void published_settings_are_the_default(void **state)
{
    (void)state;
    struct audio_processor p;
    struct error_text error;
    static const char *const extractors[] = {
        NULL, "{\"feature_size\": 128, \"chunk_length\": 30, \"n_fft\": 400, \"hop_length\": 160}"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(open(CONFIG(""), extractors[i], &p, &error), RESULT_OK);
        assert_int_equal(p.family, AUDIO_FAMILY_QWEN2_AUDIO);
        assert_true(p.mel.mels == 128 && p.mel.rate == 16000 && p.mel.most_samples == 480000);
        assert_int_equal(p.tower_rows, 1500);
    }
    assert_int_equal(open("{\"model_type\": \"qwen2\"}", NULL, &p, &error), RESULT_OK);
    assert_int_equal(p.family, AUDIO_FAMILY_NONE);
}

static void settings_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *extractor, *words;
    } rows[] = {
        {CONFIG(""), "{\"feature_size\": 80}", "feature_size 80 contradicts num_mel_bins 128"},
        {CONFIG(""), "{\"chunk_length\": 300}", "30000 mel rows"},
        {CONFIG(", \"max_source_positions\": 1000"), NULL, "its tower 1000 rows"},
        {CONFIG(", \"max_source_positions\": 0"), NULL, "max_source_positions"},
        {CONFIG(""), "{\"hop_length\": 0}", "hop_length"},
        {CONFIG(""), "{\"hop_length\": 401}", "hop"},
        {CONFIG(""), "{\"n_fft\": 100000}", "n_fft"},
        {CONFIG(""), "{\"sampling_rate\": 1}", "rate"},
        {CONFIG(""), "{\"feature_size\": \"many\"}", "feature_size"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct audio_processor p;
        struct error_text error = {""};
        assert_int_equal(open(rows[i].config, rows[i].extractor, &p, &error), RESULT_INVALID);
        assert_int_equal(p.family, AUDIO_FAMILY_NONE);
        if (!strstr(error.text, rows[i].words))
            fail_msg("\"%s\" does not say \"%s\"", error.text, rows[i].words);
    }
}

/* The publisher counts ((rows - 1) / 2 + 1 - 2) / 2 + 1 tokens for mel rows of begun hops. */
static void tokens_are_counted_as_published(void **state)
{
    (void)state;
    struct audio_processor p;
    struct audio_plan plan;
    struct error_text error = {""};
    must(open(CONFIG(""), NULL, &p, &error) == RESULT_OK);
    for (uint32_t samples = 321; samples <= 480000; samples += 997) {
        int rows = (int)(samples + 159) / 160;
        must(audio_processor_plan(&p, samples, &plan, &error) == RESULT_OK);
        assert_int_equal(plan.tokens, ((rows - 1) / 2 + 1 - 2) / 2 + 1);
        assert_int_equal(plan.rows, 2 * ((rows - 1) / 2 + 1) + 1);
    }
    must(audio_processor_plan(&p, 480000, &plan, &error) == RESULT_OK);
    assert_true(plan.tokens == 750 && plan.rows == 3001);
    assert_int_equal(audio_processor_plan(&p, 320, &plan, &error), RESULT_INVALID);
    assert_int_equal(audio_processor_plan(&p, 480001, &plan, &error), RESULT_TOO_LARGE);
    assert_non_null(strstr(error.text, "at most 30"));
}

#define OMNI(audio, more)                                                                          \
    "{\"model_type\": \"qwen2_5_omni\", \"thinker_config\": {\"model_type\": "                     \
    "\"qwen2_5_omni_thinker\", "                                                                   \
    "\"audio_config\": {\"num_mel_bins\": 128" audio "}" more "}}"

static void omni_settings(void **state)
{
    (void)state;
    struct audio_processor p;
    struct error_text error = {""};
    must(open(OMNI("", ""), "{\"chunk_length\": 300}", &p, &error) == RESULT_OK);
    assert_int_equal(p.family, AUDIO_FAMILY_QWEN2_5_OMNI);
    assert_true(p.tower_rows == 100 && p.time_scale == 25 && p.piece_time == 50);
    assert_int_equal(p.mel.most_samples, 300 * 16000);
    static const struct {
        const char *config;
        uint32_t piece_time; /* 0: videos are not heard */
    } rows[] = {{OMNI(", \"n_window\": 50", ""), 0},
                {OMNI(", \"n_window\": 50", ", \"seconds_per_chunk\": 1"), 25},
                {OMNI("", ", \"position_id_per_seconds\": 10, \"seconds_per_chunk\": 5"), 50}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        must(open(rows[i].config, NULL, &p, &error) == RESULT_OK);
        assert_int_equal(p.piece_time, rows[i].piece_time);
    }
    assert_int_equal(open(OMNI(", \"n_window\": 51", ""), NULL, &p, &error), RESULT_UNSUPPORTED);
    assert_int_equal(open(OMNI(", \"n_window\": 0", ""), NULL, &p, &error), RESULT_INVALID);
    assert_int_equal(open(OMNI("", ", \"seconds_per_chunk\": 0"), NULL, &p, &error),
                     RESULT_INVALID);
    assert_int_equal(p.family, AUDIO_FAMILY_NONE);
}

/* Pieces of 200 mel rows, whose tokens are those that the publisher counts for the whole. */
static void omni_pieces(void **state)
{
    (void)state;
    struct audio_processor p;
    struct audio_plan plan;
    struct error_text error = {""};
    must(open(OMNI("", ""), "{\"chunk_length\": 300}", &p, &error) == RESULT_OK);
    for (uint32_t samples = 321; samples <= 4800000; samples += 997) {
        int rows = (int)(samples + 159) / 160;
        uint32_t sum = 0, tokens = 0;
        must(audio_processor_plan(&p, samples, &plan, &error) == RESULT_OK);
        assert_int_equal(plan.tokens, ((rows - 1) / 2 + 1 - 2) / 2 + 1);
        for (uint32_t piece = 0; piece < plan.pieces; piece++) {
            uint32_t here = audio_plan_piece_rows(&plan, piece);
            assert_true(here >= 3 && here <= 200 && (here == 200 || piece + 1 == plan.pieces));
            assert_int_equal(audio_plan_piece_tokens(&plan, piece), (here + 1) / 2 / 2);
            sum += here;
            tokens += audio_plan_piece_tokens(&plan, piece);
        }
        assert_true(sum == plan.rows && tokens == plan.tokens);
        assert_true(rows - (int)sum == 0 || (rows - (int)sum <= 2 && sum % 200 == 0));
    }
    must(audio_processor_plan(&p, 4800000, &plan, &error) == RESULT_OK);
    assert_int_equal(plan.pieces, 150);
    assert_int_equal(audio_processor_plan(&p, 320, &plan, &error), RESULT_INVALID);
    assert_int_equal(audio_processor_plan(&p, 4800001, &plan, &error), RESULT_TOO_LARGE);
}

#define GEMMA4(audio) "{\"model_type\": \"gemma4\", \"audio_config\": {" audio "}}"

/* Tokens as processing_gemma4.py counts them. */
static void gemma4_sounds(void **state)
{
    (void)state;
    struct audio_processor p;
    struct audio_plan plan;
    struct error_text error = {""};
    must(open("{\"model_type\": \"gemma4\", \"audio_config\": null}", NULL, &p, &error) ==
         RESULT_OK);
    assert_int_equal(p.family, AUDIO_FAMILY_NONE);
    must(open(GEMMA4(""), "{\"frame_length_ms\": 20.0, \"dither\": 0.0}", &p, &error) == RESULT_OK);
    assert_int_equal(p.family, AUDIO_FAMILY_GEMMA4);
    assert_true(p.mel.window == 320 && p.mel.hop == 160 && p.mel.fourier == 512);
    for (uint32_t samples = 161; samples <= 480000; samples += 997) {
        int rows = ((int)samples + 160 - 321) / 160 + 1, tokens = rows;
        for (int i = 0; i < 2; i++)
            tokens = (tokens + 2 - 3) / 2 + 1;
        must(audio_processor_plan(&p, samples, &plan, &error) == RESULT_OK);
        assert_true((int)plan.rows == rows && (int)plan.tokens == tokens && plan.pieces == 1);
    }
    assert_int_equal(audio_processor_plan(&p, 160, &plan, &error), RESULT_INVALID);
    assert_int_equal(audio_processor_plan(&p, 480001, &plan, &error), RESULT_TOO_LARGE);
    must(open(GEMMA4(""), "{\"hop_length_ms\": 2}", &p, &error) == RESULT_OK);
    assert_int_equal(audio_processor_plan(&p, 480000, &plan, &error), RESULT_TOO_LARGE);
}

#define GEMMA3N(more, audio) "{\"model_type\": \"gemma3n\"" more ", \"audio_config\": {" audio "}}"

/* Every sound has as many tokens. Rows of 30 s are fewer than the tower's. */
static void gemma3n_sounds(void **state)
{
    (void)state;
    struct audio_processor p;
    struct audio_plan plan;
    struct error_text error = {""};
    must(open(GEMMA3N("", ""), "{\"frame_length_ms\": 32.0}", &p, &error) == RESULT_OK);
    assert_int_equal(p.family, AUDIO_FAMILY_GEMMA3N);
    assert_true(p.mel.window == 512 && p.mel.hop == 160 && p.mel.fourier == 1024);
    for (uint32_t samples = 513; samples <= 480000; samples += 997) {
        uint32_t padded = (samples + 127) / 128 * 128;
        must(audio_processor_plan(&p, samples, &plan, &error) == RESULT_OK);
        assert_int_equal(plan.tokens, 188);
        assert_int_equal(plan.rows, (padded - 513) / 160 + 1);
    }
    assert_int_equal(audio_processor_plan(&p, 512, &plan, &error), RESULT_INVALID);
    assert_int_equal(audio_processor_plan(&p, 480001, &plan, &error), RESULT_TOO_LARGE);
    must(open(GEMMA3N(", \"audio_soft_tokens_per_image\": 12", ""), NULL, &p, &error) == RESULT_OK);
    must(audio_processor_plan(&p, 31073, &plan, &error) == RESULT_OK);
    assert_true(plan.tokens == 12 && plan.rows == 192);
    assert_int_equal(audio_processor_plan(&p, 31233, &plan, &error), RESULT_TOO_LARGE);
    assert_int_equal(open(GEMMA3N("", "\"input_feat_size\": 80"), NULL, &p, &error),
                     RESULT_INVALID);
    assert_int_equal(open(GEMMA3N("", "\"conf_reduction_factor\": 0"), NULL, &p, &error),
                     RESULT_INVALID);
    assert_int_equal(p.family, AUDIO_FAMILY_NONE);
}

static void gemma4_settings_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *extractor, *words;
    } rows[] = {
        {GEMMA4(""), "{\"feature_size\": 80}", "feature_size 80 contradicts"},
        {GEMMA4("\"subsampling_conv_channels\": [\"a\"]"), NULL, "no numbers"},
        {GEMMA4(""), "{\"frame_length_ms\": 0}", "frame_length_ms of 0"},
        {GEMMA4(""), "{\"frame_length_ms\": 9e9}", "frame_length_ms of"},
        {GEMMA4(""), "{\"hop_length_ms\": 21}", "hop"},
        {GEMMA4(""), "{\"max_frequency\": 8001}", "highest frequency"},
        {GEMMA4(""), "{\"mel_floor\": \"a\"}", "mel_floor is no number"},
        {GEMMA4(""), "{\"dither\": 0.5}", "dither"},
        {GEMMA4(""), "{\"input_scale_factor\": 2}", "input_scale_factor"},
        {GEMMA4(""), "{\"per_bin_mean\": [1]}", "per_bin"},
        {GEMMA4(""), "{\"sampling_rate\": 1}", "rate"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct audio_processor p;
        struct error_text error = {""};
        assert_int_not_equal(open(rows[i].config, rows[i].extractor, &p, &error), RESULT_OK);
        assert_int_equal(p.family, AUDIO_FAMILY_NONE);
        if (!strstr(error.text, rows[i].words))
            fail_msg("\"%s\" does not say \"%s\"", error.text, rows[i].words);
    }
}

/* Rows after the sound are of silence, the one after the longest sound is zeros, and hashes know the
 * samples. */
static void rows_after_the_sound(void **state)
{
    (void)state;
    struct audio_processor p;
    struct error_text error;
    must(open(CONFIG(""), NULL, &p, &error) == RESULT_OK);
    static const uint32_t lengths[] = {1000, 480000};
    float *samples = must_alloc(480000, sizeof *samples);
    for (uint32_t i = 0; i < 480000; i++)
        samples[i] = (float)sin(0.3 * i) * 0.5f;
    for (size_t l = 0; l < 2; l++) {
        struct audio_plan plan;
        uint8_t hash[2][IMAGE_HASH_BYTES];
        must(audio_processor_plan(&p, lengths[l], &plan, &error) == RESULT_OK);
        float *rows = must_alloc((size_t)plan.rows * 128, sizeof *rows);
        must(audio_processor_run(&p, &plan, samples, rows, &error) == RESULT_OK);
        audio_processor_hash(&p, rows, plan.rows, hash[0]);
        const float *last = rows + (size_t)(plan.rows - 1) * 128;
        for (uint32_t m = 1; m < 128; m++)
            assert_true(last[m] == last[0]);
        assert_true(l == 0 ? last[0] < rows[10] : last[0] == 0.0f);
        samples[500] += 0.01f;
        must(audio_processor_run(&p, &plan, samples, rows, &error) == RESULT_OK);
        audio_processor_hash(&p, rows, plan.rows, hash[1]);
        assert_memory_not_equal(hash[0], hash[1], IMAGE_HASH_BYTES);
        free(rows);
    }
    free(samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_settings_are_the_default),
        cmocka_unit_test(settings_that_do_not_fit_are_refused),
        cmocka_unit_test(tokens_are_counted_as_published),
        cmocka_unit_test(rows_after_the_sound),
        cmocka_unit_test(omni_settings),
        cmocka_unit_test(omni_pieces),
        cmocka_unit_test(gemma3n_sounds),
        cmocka_unit_test(gemma4_sounds),
        cmocka_unit_test(gemma4_settings_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
