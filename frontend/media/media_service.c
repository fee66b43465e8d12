/*
 * Each request is handled from its beginning: headers are read again before an image is decoded, so
 * nothing that an earlier image left behind is relied on.
 */
#include "frontend/media/media_service.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "frontend/audio/audio_decoder.h"
#include "frontend/image/image_decoder.h"
#include "frontend/image/video_decoder.h"
#include "frontend/media/media_record.h"

bool media_service_open(struct media_service *service)
{
    void *file = mmap(NULL, LIMIT_SOURCE_IMAGE_BYTES, PROT_READ, MAP_SHARED, MEDIA_AREA_FD, 0);
    void *pixels = mmap(NULL, MEDIA_PIXELS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, MEDIA_AREA_FD,
                        (off_t)MEDIA_PIXELS_OFFSET);
    void *list = mmap(NULL, MEDIA_LIST_BYTES, PROT_READ, MAP_SHARED, MEDIA_AREA_FD,
                      (off_t)MEDIA_LIST_OFFSET);
    *service = (struct media_service){MEDIA_SOCKET_FD, file, pixels, list};
    return file != MAP_FAILED && pixels != MAP_FAILED && list != MAP_FAILED;
}

/* RESULT_EMPTY: the frontend closed the socket. */
static enum result request_receive(int socket, struct media_request *request,
                                   struct error_text *error)
{
    ssize_t bytes;
    do
        bytes = recv(socket, request, sizeof *request, MSG_TRUNC);
    while (bytes < 0 && errno == EINTR);
    if (bytes == 0 || (bytes < 0 && errno == ECONNRESET))
        return RESULT_EMPTY;
    if (bytes < 0)
        return error_set(error, RESULT_IO, "recv: %s", strerror(errno));
    return media_request_check(request, (size_t)bytes, error);
}

static enum result image_run(const struct media_service *service,
                             const struct media_request *request, struct media_reply *reply,
                             struct error_text *error)
{
    uint32_t width, height;
    struct image_header header;
    enum result result = image_decoder_probe(service->file, request->byte_count, &header, error);
    if (result != RESULT_OK)
        return result;
    if (request->action == MEDIA_PROBE) {
        reply->kind = header.kind;
        reply->width = header.width;
        reply->height = header.height;
        reply->orientation = header.orientation;
        reply->scans = header.scans;
        return RESULT_OK;
    }
    image_header_decoded_size(&header, request->wanted_width, request->wanted_height, &width,
                              &height);
    if (width != request->width || height != request->height)
        return error_set(error, RESULT_INVALID, "its headers changed");
    return image_decoder_run_into(service->file, request->byte_count, &header,
                                  request->wanted_width, request->wanted_height, service->pixels,
                                  error);
}

static enum result video_run(const struct media_service *service,
                             const struct media_request *request, struct media_reply *reply,
                             struct error_text *error)
{
    struct video_header header;
    enum result result = video_decoder_probe(service->file, request->byte_count, &header, error);
    if (result != RESULT_OK)
        return result;
    if (request->action == MEDIA_VIDEO_PROBE) {
        reply->kind = header.kind;
        reply->width = header.width;
        reply->height = header.height;
        reply->frames = header.frames;
        reply->duration_us = header.duration_us;
        reply->work_pixels = header.work_pixels;
        return RESULT_OK;
    }
    const struct video_order order = {.indices = service->list,
                                      .count = request->frame_count,
                                      .width = request->width,
                                      .height = request->height,
                                      .filter = (enum image_filter)request->filter,
                                      .arithmetic = (enum image_arithmetic)request->arithmetic};
    if (!video_order_is_valid(&order, &header))
        return error_set(error, RESULT_INVALID, "its headers changed");
    return video_decoder_run(service->file, request->byte_count, &header, &order, service->pixels,
                             error);
}

static enum result audio_run(const struct media_service *service,
                             const struct media_request *request, struct media_reply *reply,
                             struct error_text *error)
{
    struct audio_header header;
    if (request->action == MEDIA_AUDIO_PROBE) {
        enum result result =
            audio_decoder_probe(service->file, request->byte_count, request->rate, &header, error);
        reply->kind = result == RESULT_OK ? header.kind : 0;
        reply->samples = result == RESULT_OK ? header.samples : 0;
        return result;
    }
    return audio_decoder_run(service->file, request->byte_count, request->rate, request->samples,
                             (float *)(void *)service->pixels, error);
}

/* Words of a decoder may quote bytes of the file. */
static void text_write(const struct error_text *error, char text[MEDIA_TEXT_BYTES])
{
    (void)snprintf(text, MEDIA_TEXT_BYTES, "%s", error->text[0] ? error->text : "broken image");
    for (size_t i = 0; text[i]; i++) {
        if (text[i] < 0x20 || text[i] > 0x7e)
            text[i] = '?';
    }
}

static enum result reply_send(int socket, const struct media_reply *reply)
{
    ssize_t bytes;
    do
        bytes = send(socket, reply, sizeof *reply, MSG_NOSIGNAL);
    while (bytes < 0 && errno == EINTR);
    return bytes == (ssize_t)sizeof *reply ? RESULT_OK : RESULT_IO;
}

static enum result request_answer(const struct media_service *service,
                                  const struct media_request *request)
{
    struct error_text error = {""};
    struct media_reply reply = {.id = request->id};
    enum result result = RESULT_INVALID;
    switch (request->action) {
    case MEDIA_VIDEO_PROBE:
    case MEDIA_VIDEO_DECODE: result = video_run(service, request, &reply, &error); break;
    case MEDIA_AUDIO_PROBE:
    case MEDIA_AUDIO_DECODE: result = audio_run(service, request, &reply, &error); break;
    default: result = image_run(service, request, &reply, &error); break;
    }
    reply.result = (uint32_t)result;
    if (result != RESULT_OK)
        text_write(&error, reply.text);
    return reply_send(service->socket, &reply);
}

int media_service_run(const struct media_service *service, uint32_t sandbox)
{
    const struct media_reply greeting = {.result = RESULT_OK, .sandbox = sandbox};
    enum result result = reply_send(service->socket, &greeting);
    struct media_request request;
    struct error_text error;
    while (result == RESULT_OK) {
        result = request_receive(service->socket, &request, &error);
        if (result == RESULT_OK)
            result = request_answer(service, &request);
    }
    return result == RESULT_EMPTY ? 0 : 1;
}
