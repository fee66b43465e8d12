/*
 * MP4, MOV, WebM and Matroska by FFmpeg's libraries, in one thread, from memory. Only these
 * containers and a few decoders are admitted, and nothing that a file refers to is opened.
 *
 * Frames are counted by walking the packets, because headers lie; those that an edit list leaves out
 * do not count. They are decoded from the first to the last one that is wanted, in the order in which
 * they are shown, and turned upright. Colours are converted by the file's own matrix and range.
 */
#include <stdbool.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avstring.h>
#include <libavutil/display.h>
#include <libswscale/swscale.h>

#include "frontend/image/video_container.h"
#include "proto/limits.h"
#include "proto/must.h"

#define BUFFER_BYTES   32768
#define FORMATS        "mov,matroska" /* the first of each one's names */
#define CODECS         "h264,hevc,vp8,vp9,libdav1d,av1,mpeg4,mjpeg"
#define ANALYZED_US    5000000
#define ANALYZED_BYTES (1 << 20)

struct container {
    const struct image_source *source;
    int64_t at;
    AVFormatContext *format;
    AVCodecContext *codec;
    struct SwsContext *scaler;
    AVPacket *packet;
    AVFrame *frame;
    int stream; /* of the video */
    uint8_t orientation;
};

static int read_bytes(void *context, uint8_t *out, int count)
{
    struct container *c = context;
    int64_t left = (int64_t)c->source->byte_count - c->at;
    if (left <= 0)
        return AVERROR_EOF;
    int taken = count < left ? count : (int)left;
    memcpy(out, c->source->bytes + c->at, (size_t)taken);
    c->at += taken;
    return taken;
}

static int64_t seek_bytes(void *context, int64_t offset, int whence)
{
    struct container *c = context;
    int64_t all = (int64_t)c->source->byte_count;
    if (whence & AVSEEK_SIZE)
        return all;
    switch (whence & ~AVSEEK_FORCE) {
    case SEEK_SET: break;
    case SEEK_CUR: offset += c->at; break;
    case SEEK_END: offset += all; break;
    default: return AVERROR(EINVAL);
    }
    if (offset < 0 || offset > all)
        return AVERROR(EINVAL);
    return c->at = offset;
}

static int refuse_file(AVFormatContext *format, AVIOContext **io, const char *url, int flags,
                       AVDictionary **options)
{
    (void)format;
    (void)io;
    (void)url;
    (void)flags;
    (void)options;
    return AVERROR(EPERM);
}

static enum result broken(int code, struct error_text *error)
{
    char words[AV_ERROR_MAX_STRING_SIZE] = "";
    if (code == AVERROR(ENOMEM))
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for a video");
    (void)av_strerror(code, words, sizeof words);
    return error_set(error, RESULT_INVALID, "broken video: %s", words);
}

static void container_close(struct container *c)
{
    sws_freeContext(c->scaler);
    av_frame_free(&c->frame);
    av_packet_free(&c->packet);
    avcodec_free_context(&c->codec);
    AVIOContext *io = c->format ? c->format->pb : NULL;
    avformat_close_input(&c->format);
    if (io)
        av_freep(&io->buffer);
    avio_context_free(&io);
}

/* EXIF's number of the turn that the display matrix asks for. */
static uint8_t orientation_of(const AVStream *stream)
{
    const uint8_t *matrix = NULL;
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 100)
    const AVPacketSideData *data =
        av_packet_side_data_get(stream->codecpar->coded_side_data,
                                stream->codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    matrix = data && data->size >= 9 * sizeof(int32_t) ? data->data : NULL;
#else
    size_t size = 0;
    matrix = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
    matrix = size >= 9 * sizeof(int32_t) ? matrix : NULL;
#endif
    if (!matrix)
        return 1;
    double degrees = -av_display_rotation_get((const int32_t *)(const void *)matrix);
    int quarters = degrees > -1000 && degrees < 1000 ? (int)(degrees / 90 + 4.5) % 4 : 0;
    static const uint8_t turned[] = {1, 6, 3, 8};
    return turned[quarters];
}

/* Opens the file and finds its video. */
static enum result container_open(struct container *c, const struct image_source *source,
                                  struct error_text *error)
{
    *c = (struct container){.source = source, .orientation = 1};
    av_log_set_level(AV_LOG_QUIET); /* no system call writes here */
    uint8_t *buffer = av_malloc(BUFFER_BYTES);
    c->format = avformat_alloc_context();
    AVIOContext *io =
        buffer ? avio_alloc_context(buffer, BUFFER_BYTES, 0, c, read_bytes, NULL, seek_bytes)
               : NULL;
    c->packet = av_packet_alloc();
    c->frame = av_frame_alloc();
    if (!c->format || !io || !c->packet || !c->frame) {
        if (io)
            av_freep(&io->buffer);
        else
            av_free(buffer);
        avio_context_free(&io);
        return broken(AVERROR(ENOMEM), error);
    }
    c->format->pb = io;
    c->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    c->format->io_open = refuse_file;
    c->format->format_whitelist = av_strdup(FORMATS);
    c->format->codec_whitelist = av_strdup(CODECS);
    c->format->max_analyze_duration = ANALYZED_US;
    c->format->probesize = ANALYZED_BYTES;
    int code = avformat_open_input(&c->format, "", NULL, NULL);
    if (code < 0) { /* the context is freed, the input is not */
        av_freep(&io->buffer);
        avio_context_free(&io);
        return broken(code, error);
    }
    code = avformat_find_stream_info(c->format, NULL);
    if (code >= 0)
        code = c->stream = av_find_best_stream(c->format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    if (code == AVERROR_STREAM_NOT_FOUND)
        return error_set(error, RESULT_INVALID, "the file has no video");
    if (code < 0)
        return broken(code, error);
    c->orientation = orientation_of(c->format->streams[c->stream]);
    return RESULT_OK;
}

/* The next packet of the video; RESULT_EMPTY at the end of the file. */
static enum result packet_next(struct container *c, struct error_text *error)
{
    for (;;) {
        av_packet_unref(c->packet);
        int code = av_read_frame(c->format, c->packet);
        if (code == AVERROR_EOF)
            return RESULT_EMPTY;
        if (code < 0)
            return broken(code, error);
        if (c->packet->stream_index == c->stream)
            return RESULT_OK;
    }
}

static enum result count_frames(struct container *c, struct video_header *header,
                                struct error_text *error)
{
    enum result result = RESULT_OK;
    while (header->frames <= LIMIT_VIDEO_SOURCE_FRAMES) {
        result = packet_next(c, error);
        if (result != RESULT_OK)
            break;
        header->frames += !(c->packet->flags & AV_PKT_FLAG_DISCARD);
    }
    return result == RESULT_EMPTY ? RESULT_OK : result;
}

enum result video_container_probe(const struct image_source *source, struct video_header *header,
                                  struct error_text *error)
{
    struct container c;
    enum result result = container_open(&c, source, error);
    if (result == RESULT_OK)
        result = count_frames(&c, header, error);
    if (result == RESULT_OK) {
        const AVStream *stream = c.format->streams[c.stream];
        const AVCodecParameters *codec = stream->codecpar;
        bool turned = c.orientation > 4;
        double rate = av_q2d(stream->avg_frame_rate.num > 0 && stream->avg_frame_rate.den > 0
                                 ? stream->avg_frame_rate
                                 : (AVRational){10, 1});
        double us = header->frames * 1e6 / rate + 0.5;
        header->width = (uint32_t)(turned ? codec->height : codec->width);
        header->height = (uint32_t)(turned ? codec->width : codec->height);
        header->duration_us = us < (double)LIMIT_VIDEO_US ? (uint64_t)us : LIMIT_VIDEO_US + 1;
        header->work_pixels = (uint64_t)header->width * header->height * header->frames;
        if (codec->width < 1 || codec->height < 1 || codec->width > (int)LIMIT_SOURCE_IMAGE_SIDE ||
            codec->height > (int)LIMIT_SOURCE_IMAGE_SIDE)
            result = error_set(error, RESULT_INVALID, "a video of %d x %d pixels", codec->width,
                               codec->height);
    }
    container_close(&c);
    return result;
}

/* --- frames ----------------------------------------------------------------------------------- */

static enum result decoder_open(struct container *c, struct error_text *error)
{
    const AVCodecParameters *parameters = c->format->streams[c->stream]->codecpar;
    const AVCodec *decoder = avcodec_find_decoder(parameters->codec_id);
    if (!decoder || av_match_list(decoder->name, CODECS, ',') <= 0)
        return error_set(error, RESULT_UNSUPPORTED, "a video of the codec %s is not supported",
                         avcodec_get_name(parameters->codec_id));
    c->codec = avcodec_alloc_context3(decoder);
    int code = c->codec ? avcodec_parameters_to_context(c->codec, parameters) : AVERROR(ENOMEM);
    if (code >= 0) {
        c->codec->thread_count = 1;
        c->codec->max_pixels = LIMIT_VIDEO_FRAME_PIXELS;
        code = avcodec_open2(c->codec, decoder, NULL);
    }
    return code < 0 ? broken(code, error) : RESULT_OK;
}

/* The number of libswscale's matrix. */
static int matrix_of(const AVFrame *frame)
{
    switch (frame->colorspace) {
    case AVCOL_SPC_BT709: return SWS_CS_ITU709;
    case AVCOL_SPC_FCC: return SWS_CS_FCC;
    case AVCOL_SPC_SMPTE240M: return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL: return SWS_CS_BT2020;
    default: return SWS_CS_DEFAULT;
    }
}

/* The frame in c->frame as upright RGB. */
static enum result convert(struct container *c, const struct video_header *header,
                           struct image_pixels *pixels, struct error_text *error)
{
    const AVFrame *frame = c->frame;
    bool turned = c->orientation > 4;
    uint32_t width = turned ? header->height : header->width;
    uint32_t height = turned ? header->width : header->height;
    if (frame->width != (int)width || frame->height != (int)height)
        return error_set(error, RESULT_INVALID, "the video changes its size");
    c->scaler =
        sws_getCachedContext(c->scaler, frame->width, frame->height, frame->format, frame->width,
                             frame->height, AV_PIX_FMT_RGB24, SWS_BILINEAR, NULL, NULL, NULL);
    if (!c->scaler)
        return error_set(error, RESULT_INVALID, "the colours of the video are not supported");
    const int *matrix = sws_getCoefficients(matrix_of(frame));
    (void)sws_setColorspaceDetails(c->scaler, matrix, frame->color_range == AVCOL_RANGE_JPEG,
                                   sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    enum result result = image_pixels_init(pixels, width, height, error);
    if (result != RESULT_OK)
        return result;
    uint8_t *const planes[4] = {pixels->rgb};
    const int strides[4] = {(int)image_pixels_bytes(width, 1)};
    (void)sws_scale(c->scaler, (const uint8_t *const *)frame->data, frame->linesize, 0,
                    frame->height, planes, strides);
    result = image_pixels_orient(pixels, c->orientation, error);
    if (result != RESULT_OK)
        image_pixels_fini(pixels);
    return result;
}

/* Takes the frames that the decoder has ready. RESULT_EMPTY: it needs the next packet. */
static enum result frames_take(struct container *c, const struct video_header *header,
                               struct video_taker *taker, uint32_t *index, struct error_text *error)
{
    enum result result = RESULT_OK;
    while (result == RESULT_OK && !video_taker_is_done(taker)) {
        int code = avcodec_receive_frame(c->codec, c->frame);
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF)
            return RESULT_EMPTY;
        if (code < 0)
            return broken(code, error);
        if (video_taker_wants(taker, *index)) {
            struct image_pixels pixels = {0};
            result = convert(c, header, &pixels, error);
            if (result == RESULT_OK)
                result = video_taker_take(taker, *index, &pixels, error);
            image_pixels_fini(&pixels);
        }
        ++*index;
    }
    return result;
}

static enum result run_open(struct container *c, const struct video_header *header,
                            struct video_taker *taker, struct error_text *error)
{
    uint32_t index = 0;
    bool ended = false;
    enum result result = decoder_open(c, error);
    while (result == RESULT_OK && !ended && !video_taker_is_done(taker)) {
        result = packet_next(c, error);
        ended = result == RESULT_EMPTY;
        if (result != RESULT_OK && !ended)
            return result;
        int code = avcodec_send_packet(c->codec, ended ? NULL : c->packet);
        if (code < 0 && code != AVERROR_EOF)
            return broken(code, error);
        result = frames_take(c, header, taker, &index, error);
        if (result == RESULT_EMPTY)
            result = RESULT_OK;
    }
    return result;
}

enum result video_container_run(const struct image_source *source,
                                const struct video_header *header, struct video_taker *taker,
                                struct error_text *error)
{
    struct container c;
    enum result result = container_open(&c, source, error);
    if (result == RESULT_OK)
        result = run_open(&c, header, taker, error);
    container_close(&c);
    return result;
}
