/*
 * Containers and codecs are checked twice: the libraries get the lists, and the decoder that they find
 * is looked up in them again.
 */
#include "frontend/media/libav/av_file.h"

#include <stdbool.h>
#include <string.h>

#include <libavutil/avstring.h>

#include "proto/limits.h"

#define BUFFER_BYTES   32768
#define ANALYZED_US    5000000
#define ANALYZED_BYTES (1 << 20)

static int read_bytes(void *context, uint8_t *out, int count)
{
    struct av_file *file = context;
    int64_t left = file->byte_count - file->at;
    if (left <= 0)
        return AVERROR_EOF;
    int taken = count < left ? count : (int)left;
    memcpy(out, file->bytes + file->at, (size_t)taken);
    file->at += taken;
    return taken;
}

static int64_t seek_bytes(void *context, int64_t offset, int whence)
{
    struct av_file *file = context;
    if (whence & AVSEEK_SIZE)
        return file->byte_count;
    switch (whence & ~AVSEEK_FORCE) {
    case SEEK_SET: break;
    case SEEK_CUR: offset += file->at; break;
    case SEEK_END: offset += file->byte_count; break;
    default: return AVERROR(EINVAL);
    }
    if (offset < 0 || offset > file->byte_count)
        return AVERROR(EINVAL);
    return file->at = offset;
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

enum result av_file_broken(const struct av_file *file, int code, struct error_text *error)
{
    char words[AV_ERROR_MAX_STRING_SIZE] = "";
    if (code == AVERROR(ENOMEM))
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for %s", file->lists->what);
    (void)av_strerror(code, words, sizeof words);
    return error_set(error, RESULT_INVALID, "broken %s: %s", file->lists->what, words);
}

void av_file_close(struct av_file *file)
{
    av_frame_free(&file->frame);
    av_packet_free(&file->packet);
    avcodec_free_context(&file->codec);
    AVIOContext *io = file->format ? file->format->pb : NULL;
    avformat_close_input(&file->format);
    if (io)
        av_freep(&io->buffer);
    avio_context_free(&io);
}

/* Everything that opening needs; false: no memory. The input is in file->format then. */
static bool contexts_create(struct av_file *file)
{
    uint8_t *buffer = av_malloc(BUFFER_BYTES);
    file->format = avformat_alloc_context();
    AVIOContext *io =
        buffer ? avio_alloc_context(buffer, BUFFER_BYTES, 0, file, read_bytes, NULL, seek_bytes)
               : NULL;
    file->packet = av_packet_alloc();
    file->frame = av_frame_alloc();
    if (file->format && io && file->packet && file->frame) {
        file->format->pb = io;
        return true;
    }
    if (io)
        av_freep(&io->buffer);
    else
        av_free(buffer);
    avio_context_free(&io);
    return false;
}

enum result av_file_open(struct av_file *file, const struct av_lists *lists, const uint8_t *bytes,
                         size_t byte_count, struct error_text *error)
{
    *file = (struct av_file){.lists = lists, .bytes = bytes, .byte_count = (int64_t)byte_count};
    av_log_set_level(AV_LOG_QUIET); /* no system call writes here */
    if (!contexts_create(file))
        return av_file_broken(file, AVERROR(ENOMEM), error);
    AVIOContext *io = file->format->pb;
    file->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    file->format->io_open = refuse_file;
    file->format->format_whitelist = av_strdup(lists->formats);
    file->format->codec_whitelist = av_strdup(lists->codecs);
    file->format->max_analyze_duration = ANALYZED_US;
    file->format->probesize = ANALYZED_BYTES;
    int code = avformat_open_input(&file->format, "", NULL, NULL);
    if (code < 0) { /* the context is freed, the input is not */
        av_freep(&io->buffer);
        avio_context_free(&io);
        return av_file_broken(file, code, error);
    }
    code = avformat_find_stream_info(file->format, NULL);
    if (code >= 0)
        code = file->stream = av_find_best_stream(file->format, lists->type, -1, -1, NULL, 0);
    if (code == AVERROR_STREAM_NOT_FOUND)
        return error_set(error, RESULT_INVALID, "the file has no %s", lists->what);
    return code < 0 ? av_file_broken(file, code, error) : RESULT_OK;
}

enum result av_file_open_decoder(struct av_file *file, struct error_text *error)
{
    const AVCodecParameters *parameters = file->format->streams[file->stream]->codecpar;
    const AVCodec *decoder = avcodec_find_decoder(parameters->codec_id);
    if (!decoder || av_match_list(decoder->name, file->lists->codecs, ',') <= 0)
        return error_set(error, RESULT_UNSUPPORTED, "%s of the codec %s is not supported",
                         file->lists->what, avcodec_get_name(parameters->codec_id));
    file->codec = avcodec_alloc_context3(decoder);
    int code =
        file->codec ? avcodec_parameters_to_context(file->codec, parameters) : AVERROR(ENOMEM);
    if (code >= 0) {
        file->codec->thread_count = 1;
        file->codec->max_pixels = LIMIT_VIDEO_FRAME_PIXELS;
        file->codec->pkt_timebase = file->format->streams[file->stream]->time_base;
        code = avcodec_open2(file->codec, decoder, NULL);
    }
    return code < 0 ? av_file_broken(file, code, error) : RESULT_OK;
}

enum result av_file_next(struct av_file *file, struct error_text *error)
{
    for (;;) {
        av_packet_unref(file->packet);
        int code = av_read_frame(file->format, file->packet);
        if (code == AVERROR_EOF)
            return RESULT_EMPTY;
        if (code < 0)
            return av_file_broken(file, code, error);
        if (file->packet->stream_index == file->stream)
            return RESULT_OK;
    }
}
