/*
 * Audio by FFmpeg's libraries (av_file.h): decoded frame by frame, mixed to the mean of its channels and
 * resampled by libswresample as it goes, so that no more than a frame is held.
 *
 * Samples that an encoder put before or behind the audio (MP3, AAC, Opus) are cut by what the container
 * says of them. A damaged packet is left out as players do, but a file with more than one in
 * DAMAGED_SHARE is refused. What is decoded is bounded by LIMIT_AUDIO_*, not by what headers say.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <libavutil/opt.h>
#include <libswresample/swresample.h>

#include "frontend/audio/audio_container.h"
#include "frontend/media/libav/av_file.h"
#include "proto/limits.h"
#include "proto/must.h"

#define CHANNELS_MOST 8
#define DAMAGED_SHARE 16u
#define PIECE_SAMPLES 4096 /* resampled at once */

#define PCM_CODECS                                                                                 \
    "pcm_u8,pcm_s16le,pcm_s24le,pcm_s32le,pcm_f32le,pcm_f64le,pcm_alaw,pcm_mulaw,pcm_s16be"
#define CODECS PCM_CODECS ",flac,mp3float,mp3,opus,libopus,vorbis,aac,alac"

static const struct av_lists lists[AUDIO_KINDS] = {
    [AUDIO_WAV] = {"audio", AVMEDIA_TYPE_AUDIO, "wav", CODECS},
    [AUDIO_FLAC] = {"audio", AVMEDIA_TYPE_AUDIO, "flac", CODECS},
    [AUDIO_MP3] = {"audio", AVMEDIA_TYPE_AUDIO, "mp3", CODECS},
    [AUDIO_OGG] = {"audio", AVMEDIA_TYPE_AUDIO, "ogg", CODECS},
    [AUDIO_AAC] = {"audio", AVMEDIA_TYPE_AUDIO, "aac", CODECS},
    [AUDIO_MP4] = {"audio", AVMEDIA_TYPE_AUDIO, "mov", CODECS},
    [AUDIO_MATROSKA] = {"audio", AVMEDIA_TYPE_AUDIO, "matroska", CODECS},
};

struct decoding {
    struct av_file file;
    SwrContext *resampler; /* once the first frame came, whose form all others have: */
    int format;
    int rate;
    int channels;
    uint64_t values; /* decoded, of all channels */
    uint32_t packets;
    uint32_t damaged;
    uint32_t wanted_rate;
    float *out; /* [most] */
    uint32_t most;
    uint32_t samples;
};

/* --- samples ---------------------------------------------------------------------------------- */

static enum result resampler_open(struct decoding *d, struct error_text *error)
{
    const AVFrame *frame = d->file.frame;
    AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO, layout = {0};
    double mean[CHANNELS_MOST];
    d->format = frame->format;
    d->rate = frame->sample_rate;
    d->channels = frame->ch_layout.nb_channels;
    if (d->channels < 1 || d->channels > CHANNELS_MOST || d->rate < 1 ||
        d->rate > (int)LIMIT_AUDIO_SOURCE_RATE)
        return error_set(error, RESULT_INVALID,
                         "audio of %d channels with %d samples a second; the most is %d with %u",
                         d->channels, d->rate, CHANNELS_MOST, LIMIT_AUDIO_SOURCE_RATE);
    av_channel_layout_default(&layout, d->channels);
    int code = swr_alloc_set_opts2(&d->resampler, &mono, AV_SAMPLE_FMT_FLT, (int)d->wanted_rate,
                                   &layout, d->format, d->rate, 0, NULL);
    for (int i = 0; i < CHANNELS_MOST; i++)
        mean[i] = 1.0 / d->channels;
    if (code >= 0)
        code = swr_set_matrix(d->resampler, mean, CHANNELS_MOST);
    if (code >= 0)
        code = swr_init(d->resampler);
    av_channel_layout_uninit(&layout);
    return code < 0 ? av_file_broken(&d->file, code, error) : RESULT_OK;
}

static enum result samples_take(struct decoding *d, const float *piece, int count,
                                struct error_text *error)
{
    if ((uint64_t)d->samples + (uint32_t)count > LIMIT_AUDIO_SAMPLES)
        return error_set(error, RESULT_TOO_LARGE, "the audio lasts longer than %u seconds",
                         LIMIT_AUDIO_SAMPLES / d->wanted_rate);
    for (int i = 0; i < count; i++) {
        if (!(fabsf(piece[i]) <= AUDIO_SAMPLE_MAX))
            return error_set(error, RESULT_INVALID, "sample %u is %g times full scale",
                             d->samples + (uint32_t)i, (double)piece[i]);
        if (d->samples + (uint32_t)i < d->most)
            d->out[d->samples + (uint32_t)i] = piece[i];
    }
    d->samples += (uint32_t)count;
    return RESULT_OK;
}

/* Resamples `count` samples of each channel; count 0 and data NULL: what the resampler still holds. */
static enum result resample(struct decoding *d, const uint8_t **data, int count,
                            struct error_text *error)
{
    float piece[PIECE_SAMPLES];
    for (;;) {
        uint8_t *planes[] = {(uint8_t *)piece};
        int made = swr_convert(d->resampler, planes, PIECE_SAMPLES, data, count);
        if (made < 0)
            return av_file_broken(&d->file, made, error);
        enum result result = samples_take(d, piece, made, error);
        if (result != RESULT_OK || made < PIECE_SAMPLES)
            return result;
        if (data) { /* taken; the rest is buffered inside */
            static const uint8_t *none[AV_NUM_DATA_POINTERS];
            data = none;
            count = 0;
        }
    }
}

static enum result frame_take(struct decoding *d, struct error_text *error)
{
    const AVFrame *frame = d->file.frame;
    if (!d->resampler) {
        enum result result = resampler_open(d, error);
        if (result != RESULT_OK)
            return result;
    }
    if (frame->format != d->format || frame->sample_rate != d->rate ||
        frame->ch_layout.nb_channels != d->channels)
        return error_set(error, RESULT_INVALID,
                         "the audio changes its rate, its channels or its format");
    d->values += (uint64_t)frame->nb_samples * (uint32_t)d->channels;
    if (d->values > LIMIT_AUDIO_SOURCE_VALUES)
        return error_set(error, RESULT_TOO_LARGE,
                         "the audio has more than %u samples of all channels",
                         LIMIT_AUDIO_SOURCE_VALUES);
    return resample(d, (const uint8_t **)(void *)frame->extended_data, frame->nb_samples, error);
}

/* --- packets ---------------------------------------------------------------------------------- */

/* Takes the frames that the decoder has ready. */
static enum result frames_take(struct decoding *d, struct error_text *error)
{
    for (;;) {
        int code = avcodec_receive_frame(d->file.codec, d->file.frame);
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF)
            return RESULT_OK;
        if (code == AVERROR_INVALIDDATA) {
            d->damaged++;
            return RESULT_OK;
        }
        if (code < 0)
            return av_file_broken(&d->file, code, error);
        enum result result = frame_take(d, error);
        if (result != RESULT_OK)
            return result;
    }
}

/* Gives the decoder a packet, or at the end none. */
static enum result packet_decode(struct decoding *d, bool ended, struct error_text *error)
{
    int code = avcodec_send_packet(d->file.codec, ended ? NULL : d->file.packet);
    d->packets += !ended;
    if (code == AVERROR_INVALIDDATA) {
        d->damaged++;
        return RESULT_OK;
    }
    if (code < 0 && code != AVERROR_EOF)
        return av_file_broken(&d->file, code, error);
    return frames_take(d, error);
}

static enum result run_open(struct decoding *d, struct error_text *error)
{
    bool ended = false;
    enum result result = av_file_open_decoder(&d->file, error);
    while (result == RESULT_OK && !ended) {
        result = av_file_next(&d->file, error);
        ended = result == RESULT_EMPTY;
        if (result == RESULT_OK || ended)
            result = packet_decode(d, ended, error);
    }
    if (result == RESULT_OK && d->resampler)
        result = resample(d, NULL, 0, error);
    if (result == RESULT_OK && d->damaged > d->packets / DAMAGED_SHARE)
        result = error_set(error, RESULT_INVALID, "broken audio: %u of %u packets are damaged",
                           d->damaged, d->packets);
    return result;
}

enum result audio_container_run(const uint8_t *bytes, size_t byte_count, enum audio_kind kind,
                                uint32_t rate, float *out, uint32_t most, uint32_t *samples,
                                struct error_text *error)
{
    struct decoding d = {.wanted_rate = rate, .out = out, .most = most};
    must(kind < AUDIO_KINDS && audio_rate_is_valid(rate));
    enum result result = av_file_open(&d.file, &lists[kind], bytes, byte_count, error);
    if (result == RESULT_OK)
        result = run_open(&d, error);
    swr_free(&d.resampler);
    av_file_close(&d.file);
    *samples = d.samples;
    return result;
}
