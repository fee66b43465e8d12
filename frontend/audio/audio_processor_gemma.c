/*
 * The extractor's settings may stand in processor_config.json or in preprocessor_config.json, which also has those of images. Lengths
 * are stated in milliseconds.
 *
 * Source: transformers, feature_extraction_gemma4.py, feature_extraction_gemma3n.py and their processors, and configuration_gemma4.py for the mels, which only
 * follow from the channels of the tower's first map.
 */
#include <math.h>
#include <string.h>

#include "frontend/audio/audio_processor.h"
#include "proto/limits.h"

#define GEMMA_ROWS            750u /* of the tower, of 30 s */
#define GEMMA4_FIRST_CHANNELS 128u
#define GEMMA3N_TOKENS        188u
#define GEMMA3N_JOIN          4u

/* A number of the extractor, or what *value is. */
static enum result read_number(struct json_value extractor, const char *name, double *value,
                               struct error_text *error)
{
    float number;
    enum result result = json_value_f32(json_value_member(extractor, name), &number);
    if (result == RESULT_OK)
        *value = (double)number;
    return result == RESULT_INVALID ? error_set(error, result, "its %s is no number", name)
                                    : RESULT_OK;
}

/* Samples of so many milliseconds. */
static enum result read_length(struct json_value extractor, const char *name, uint32_t rate,
                               uint32_t *samples, struct error_text *error)
{
    double milliseconds = 1000.0 * *samples / rate;
    enum result result = read_number(extractor, name, &milliseconds, error);
    double count = nearbyint(rate * milliseconds / 1000.0);
    if (result == RESULT_OK && !(count >= 2.0 && count <= FOURIER_LENGTH_MOST / 2.0))
        return error_set(error, RESULT_INVALID, "its %s of %g is out of range", name, milliseconds);
    *samples = (uint32_t)count;
    return result;
}

/* The next power of two, twice that if the extractor says so. */
static uint32_t transform_of(struct json_value extractor, const struct log_mel_settings *mel,
                             bool overdrive)
{
    uint32_t length = 1;
    while (length < mel->window)
        length *= 2;
    (void)json_value_bool(json_value_member(extractor, "fft_overdrive"), &overdrive);
    return overdrive ? 2 * length : length;
}

/* Settings that the rules of log_mel.h do not have. */
static enum result check_plain(struct json_value extractor, struct error_text *error)
{
    double dither = 0.0, factor = 1.0;
    bool htk = true;
    enum result result = read_number(extractor, "dither", &dither, error);
    if (result == RESULT_OK)
        result = read_number(extractor, "input_scale_factor", &factor, error);
    (void)json_value_bool(json_value_member(extractor, "preemphasis_htk_flavor"), &htk);
    if (result != RESULT_OK)
        return result;
    bool plain = json_value_type(json_value_member(extractor, "per_bin_mean")) == JSON_ABSENT &&
                 json_value_type(json_value_member(extractor, "per_bin_stddev")) == JSON_ABSENT;
    if (dither == 0.0 && factor == 1.0 && htk && plain)
        return RESULT_OK;
    return error_set(error, RESULT_UNSUPPORTED,
                     "its dither, input_scale_factor, preemphasis_htk_flavor or per_bin statistics "
                     "are not supported");
}

static enum result read_extractor(struct json_value extractor, bool overdrive,
                                  struct log_mel_settings *mel, struct error_text *error)
{
    const struct {
        const char *name;
        double *value;
    } numbers[] = {{"min_frequency", &mel->least_hz},
                   {"max_frequency", &mel->most_hz},
                   {"preemphasis", &mel->preemphasis},
                   {"mel_floor", &mel->floor}};
    enum result result = json_value_member_u32(extractor, "feature_size", LIMIT_AUDIO_MELS,
                                               mel->mels, &mel->mels, error);
    if (result == RESULT_OK)
        result = json_value_member_u32(extractor, "sampling_rate", LIMIT_AUDIO_RATE_MOST, mel->rate,
                                       &mel->rate, error);
    if (result == RESULT_OK)
        result = read_length(extractor, "frame_length_ms", mel->rate, &mel->window, error);
    if (result == RESULT_OK)
        result = read_length(extractor, "hop_length_ms", mel->rate, &mel->hop, error);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && result == RESULT_OK; i++)
        result = read_number(extractor, numbers[i].name, numbers[i].value, error);
    if (result == RESULT_OK)
        result = check_plain(extractor, error);
    if (result != RESULT_OK)
        return result;
    mel->fourier = transform_of(extractor, mel, overdrive);
    struct log_mel tried;
    result = log_mel_init(&tried, mel, error);
    if (result == RESULT_OK)
        log_mel_fini(&tried);
    return result;
}

enum result audio_processor_open_gemma4(const struct audio_processor_files *files,
                                        struct audio_processor *p, struct error_text *error)
{
    struct json_value audio = json_value_member(files->config, "audio_config"), element;
    struct json_value channels = json_value_member(audio, "subsampling_conv_channels");
    uint32_t first = GEMMA4_FIRST_CHANNELS;
    struct json_reader at = json_value_elements(channels);
    if (json_value_next(&at, &element) && json_value_u32(element, &first) != RESULT_OK)
        return error_set(error, RESULT_INVALID, "its subsampling_conv_channels are no numbers");
    p->mel = log_mel_gemma4();
    p->tower_rows = GEMMA_ROWS;
    enum result result = read_extractor(audio_processor_extractor(files), false, &p->mel, error);
    if (result == RESULT_OK && p->mel.mels != first)
        return error_set(
            error, RESULT_INVALID,
            "its feature_size %u contradicts the first of subsampling_conv_channels, %u",
            p->mel.mels, first);
    strcpy(p->marker, "<|audio|>");
    strcpy(p->soft, "<|audio|>");
    strcpy(p->before, "<|audio>");
    strcpy(p->after, "<audio|>");
    return result;
}

enum result audio_processor_open_gemma3n(const struct audio_processor_files *files,
                                         struct audio_processor *p, struct error_text *error)
{
    struct json_value audio = json_value_member(files->config, "audio_config");
    uint32_t mels = 0, join = 0, stated = 0;
    p->mel = log_mel_gemma3n();
    enum result result = json_value_member_u32(audio, "input_feat_size", LIMIT_AUDIO_MELS,
                                               p->mel.mels, &mels, error);
    if (result == RESULT_OK)
        result = json_value_member_u32(audio, "conf_reduction_factor", GEMMA_ROWS, GEMMA3N_JOIN,
                                       &join, error);
    if (result == RESULT_OK)
        result = json_value_member_u32(files->config, "audio_soft_tokens_per_image", GEMMA_ROWS,
                                       GEMMA3N_TOKENS, &p->fixed_tokens, error);
    if (result == RESULT_OK)
        result = json_value_member_u32(files->processor, "audio_seq_length", GEMMA_ROWS,
                                       p->fixed_tokens, &stated, error);
    if (result == RESULT_OK)
        result = read_extractor(audio_processor_extractor(files), true, &p->mel, error);
    if (result != RESULT_OK)
        return result;
    if (stated != p->fixed_tokens)
        return error_set(error, RESULT_INVALID,
                         "its audio_seq_length %u contradicts audio_soft_tokens_per_image %u",
                         stated, p->fixed_tokens);
    if (p->mel.mels != mels)
        return error_set(error, RESULT_INVALID,
                         "its feature_size %u contradicts input_feat_size %u", p->mel.mels, mels);
    p->tower_rows = p->fixed_tokens * join;
    strcpy(p->marker, "<audio_soft_token>");
    strcpy(p->soft, "<audio_soft_token>");
    strcpy(p->before, "\n\n<start_of_audio>");
    strcpy(p->after, "<end_of_audio>\n\n");
    return RESULT_OK;
}
