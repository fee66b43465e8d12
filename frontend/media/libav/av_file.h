/*
 * A file in memory, opened by FFmpeg's libraries: in one thread, with the containers and decoders of a
 * list, and nothing opened that the file refers to.
 *
 * Errors are RESULT_INVALID with words about the `what` of the lists ("broken video: ..."),
 * RESULT_UNSUPPORTED for a codec that is on no list, and RESULT_OUT_OF_MEMORY.
 */
#ifndef SHOAL_FRONTEND_MEDIA_LIBAV_AV_FILE_H
#define SHOAL_FRONTEND_MEDIA_LIBAV_AV_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>

#include "proto/result.h"

/* What is admitted; names are separated by commas, a container has the first of its names. */
struct av_lists {
    const char *what; /* "video", "audio" */
    enum AVMediaType type;
    const char *formats;
    const char *codecs;
};

struct av_file {
    const struct av_lists *lists;
    const uint8_t *bytes;
    int64_t byte_count;
    int64_t at;
    AVFormatContext *format;
    AVCodecContext *codec; /* once av_file_open_decoder() succeeded */
    AVPacket *packet;
    AVFrame *frame;
    int stream; /* the best of the lists' type */
};

/* Opens the file and finds its stream. `bytes` and `lists` outlive it; the caller calls
 * av_file_close() also after a failure. */
enum result av_file_open(struct av_file *file, const struct av_lists *lists, const uint8_t *bytes,
                         size_t byte_count, struct error_text *error) RESULT_CHECKED;
void av_file_close(struct av_file *file);

enum result av_file_open_decoder(struct av_file *file, struct error_text *error) RESULT_CHECKED;

/* Reads the stream's next packet into file->packet; RESULT_EMPTY at the end of the file. */
enum result av_file_next(struct av_file *file, struct error_text *error) RESULT_CHECKED;

/* The error of a negative return value of the libraries. */
enum result av_file_broken(const struct av_file *file, int code, struct error_text *error);

#endif
