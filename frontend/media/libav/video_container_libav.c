/*
 * MP4, MOV, WebM and Matroska by FFmpeg's libraries (av_file.h).
 *
 * Frames are counted by walking the packets, because headers lie; those that an edit list leaves out
 * do not count. They are decoded from the first to the last one that is wanted, in the order in which
 * they are shown, and turned upright. Colours are converted by the file's own matrix and range.
 */
#include <stdbool.h>
#include <string.h>

#include <libavutil/display.h>
#include <libswscale/swscale.h>

#include "frontend/image/video_container.h"
#include "frontend/media/libav/av_file.h"
#include "proto/limits.h"
#include "proto/must.h"

static const struct av_lists lists = {
    .what = "video",
    .type = AVMEDIA_TYPE_VIDEO,
    .formats = "mov,matroska",
    .codecs = "h264,hevc,vp8,vp9,libdav1d,av1,mpeg4,mjpeg",
};

struct container {
    struct av_file file;
    struct SwsContext *scaler;
    uint8_t orientation;
};

static void container_close(struct container *c)
{
    sws_freeContext(c->scaler);
    av_file_close(&c->file);
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
    *c = (struct container){.orientation = 1};
    enum result result = av_file_open(&c->file, &lists, source->bytes, source->byte_count, error);
    if (result == RESULT_OK)
        c->orientation = orientation_of(c->file.format->streams[c->file.stream]);
    return result;
}

static enum result count_frames(struct container *c, struct video_header *header,
                                struct error_text *error)
{
    enum result result = RESULT_OK;
    while (header->frames <= LIMIT_VIDEO_SOURCE_FRAMES) {
        result = av_file_next(&c->file, error);
        if (result != RESULT_OK)
            break;
        header->frames += !(c->file.packet->flags & AV_PKT_FLAG_DISCARD);
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
        const AVStream *stream = c.file.format->streams[c.file.stream];
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

/* The frame in c->file.frame as upright RGB. */
static enum result convert(struct container *c, const struct video_header *header,
                           struct image_pixels *pixels, struct error_text *error)
{
    const AVFrame *frame = c->file.frame;
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
        int code = avcodec_receive_frame(c->file.codec, c->file.frame);
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF)
            return RESULT_EMPTY;
        if (code < 0)
            return av_file_broken(&c->file, code, error);
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
    enum result result = av_file_open_decoder(&c->file, error);
    while (result == RESULT_OK && !ended && !video_taker_is_done(taker)) {
        result = av_file_next(&c->file, error);
        ended = result == RESULT_EMPTY;
        if (result != RESULT_OK && !ended)
            return result;
        int code = avcodec_send_packet(c->file.codec, ended ? NULL : c->file.packet);
        if (code < 0 && code != AVERROR_EOF)
            return av_file_broken(&c->file, code, error);
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
