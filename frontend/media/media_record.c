/*
 * A media process that was taken over by an image can send any bytes. Its reply is read into the
 * frontend's own memory and checked there as a whole before anything in it is used.
 */
#include "frontend/media/media_record.h"

#include <stdbool.h>
#include <string.h>

#include "proto/limits.h"

static enum result broken(struct error_text *error, const char *rule, const char *what)
{
    return error_set(error, RESULT_CORRUPT, "%s: %s", rule, what);
}

static bool result_is_known(uint32_t result)
{
    return result == RESULT_OK || result == RESULT_INVALID || result == RESULT_UNSUPPORTED ||
           result == RESULT_TOO_LARGE || result == RESULT_OUT_OF_MEMORY;
}

static bool text_is_valid(const char text[MEDIA_TEXT_BYTES], bool wanted)
{
    size_t length = strnlen(text, MEDIA_TEXT_BYTES);
    if (length == MEDIA_TEXT_BYTES || (length > 0) != wanted)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    }
    return true;
}

static bool header_is_zero(const struct media_reply *reply)
{
    return reply->kind == 0 && reply->width == 0 && reply->height == 0 && reply->orientation == 0 &&
           reply->scans == 0;
}

static bool video_is_zero(const struct media_reply *reply)
{
    return reply->frames == 0 && reply->duration_us == 0 && reply->work_pixels == 0;
}

struct audio_header media_reply_audio(const struct media_reply *reply, uint32_t rate)
{
    return (struct audio_header){
        .kind = (enum audio_kind)reply->kind, .rate = rate, .samples = reply->samples};
}

static bool audio_is_valid(const struct media_reply *reply)
{
    const struct audio_header header = media_reply_audio(reply, LIMIT_AUDIO_RATE_LEAST);
    return reply->kind < AUDIO_KINDS && reply->width == 0 && reply->height == 0 &&
           reply->orientation == 0 && reply->scans == 0 && video_is_zero(reply) &&
           audio_header_is_valid(&header);
}

struct video_header media_reply_video(const struct media_reply *reply)
{
    return (struct video_header){.kind = (enum video_kind)reply->kind,
                                 .width = reply->width,
                                 .height = reply->height,
                                 .frames = reply->frames,
                                 .duration_us = reply->duration_us,
                                 .work_pixels = reply->work_pixels};
}

static bool video_is_valid(const struct media_reply *reply)
{
    const struct video_header header = media_reply_video(reply);
    return reply->kind < VIDEO_KINDS && reply->orientation == 0 && reply->scans == 0 &&
           reply->samples == 0 && video_header_is_valid(&header);
}

struct image_header media_reply_header(const struct media_reply *reply)
{
    return (struct image_header){.kind = (enum image_kind)reply->kind,
                                 .width = reply->width,
                                 .height = reply->height,
                                 .orientation = (uint8_t)reply->orientation,
                                 .scans = reply->scans};
}

static bool header_is_valid(const struct media_reply *reply)
{
    const struct image_header header = media_reply_header(reply);
    return reply->kind < IMAGE_KINDS && reply->orientation <= 8 && video_is_zero(reply) &&
           reply->samples == 0 && image_header_is_valid(&header);
}

/* The rules that hold for every message. */
static enum result message_check(const struct media_reply *reply, size_t bytes, uint64_t id,
                                 struct error_text *error)
{
    if (bytes != sizeof *reply)
        return broken(error, "R0", "a message of another size");
    if (reply->id != id)
        return broken(error, "R1", "an answer to another request");
    if (!result_is_known(reply->result))
        return broken(error, "R2", "a result that no decoder has");
    if (reply->reserved != 0)
        return broken(error, "R5", "reserved bytes are set");
    if (!text_is_valid(reply->text, reply->result != RESULT_OK))
        return broken(error, "R6", "a text that is missing, unexpected, endless or not printable");
    return RESULT_OK;
}

enum result media_reply_check(const struct media_reply *reply, size_t bytes, uint64_t id,
                              enum media_action action, struct error_text *error)
{
    enum result result = message_check(reply, bytes, id, error);
    if (result != RESULT_OK)
        return result;
    if (reply->sandbox != 0)
        return broken(error, "R3", "a greeting for an answer");
    bool good = header_is_zero(reply) && video_is_zero(reply) && reply->samples == 0;
    if (reply->result == RESULT_OK && action == MEDIA_PROBE)
        good = header_is_valid(reply);
    else if (reply->result == RESULT_OK && action == MEDIA_VIDEO_PROBE)
        good = video_is_valid(reply);
    else if (reply->result == RESULT_OK && action == MEDIA_AUDIO_PROBE)
        good = audio_is_valid(reply);
    return good ? RESULT_OK : broken(error, "R4", "an invalid header");
}

enum result media_greeting_check(const struct media_reply *reply, size_t bytes,
                                 struct error_text *error)
{
    enum result result = message_check(reply, bytes, 0, error);
    if (result != RESULT_OK)
        return result;
    if (reply->result != RESULT_OK)
        return broken(error, "R2", "a greeting that failed");
    if (reply->sandbox > MEDIA_SANDBOX_ALL)
        return broken(error, "R3", "unknown parts of a sandbox");
    return header_is_zero(reply) && video_is_zero(reply) && reply->samples == 0
               ? RESULT_OK
               : broken(error, "R4", "a greeting with a header");
}

static bool size_is_valid(uint32_t width, uint32_t height)
{
    return width >= 1 && width <= LIMIT_SOURCE_IMAGE_SIDE && height >= 1 &&
           height <= LIMIT_SOURCE_IMAGE_SIDE &&
           (uint64_t)width * height <= LIMIT_SOURCE_IMAGE_PIXELS;
}

static bool frames_are_valid(const struct media_request *request)
{
    return size_is_valid(request->width, request->height) && request->frame_count >= 1 &&
           request->frame_count <= LIMIT_VIDEO_FRAMES && request->filter < IMAGE_FILTERS &&
           request->arithmetic <= IMAGE_ARITHMETIC_TORCH &&
           (uint64_t)request->width * request->height * request->frame_count <= LIMIT_VIDEO_PIXELS;
}

static bool audio_is_asked(const struct media_request *request)
{
    bool decodes = request->action == MEDIA_AUDIO_DECODE;
    if (request->action != MEDIA_AUDIO_PROBE && !decodes)
        return request->rate == 0 && request->samples == 0;
    return audio_rate_is_valid(request->rate) && request->samples <= LIMIT_AUDIO_SAMPLES &&
           decodes == (request->samples > 0);
}

enum result media_request_check(const struct media_request *request, size_t bytes,
                                struct error_text *error)
{
    if (bytes != sizeof *request || request->id == 0)
        return error_set(error, RESULT_CORRUPT, "a request of another version");
    if (request->action != MEDIA_VIDEO_DECODE &&
        (request->frame_count != 0 || request->filter != 0 || request->arithmetic != 0))
        return error_set(error, RESULT_CORRUPT, "frames of an image");
    if (request->byte_count == 0 || request->byte_count > LIMIT_SOURCE_IMAGE_BYTES)
        return error_set(error, RESULT_CORRUPT, "a file of %u bytes", request->byte_count);
    if (!audio_is_asked(request))
        return error_set(error, RESULT_CORRUPT, "%u samples at a rate of %u", request->samples,
                         request->rate);
    switch (request->action) {
    case MEDIA_PROBE:
    case MEDIA_VIDEO_PROBE:
    case MEDIA_AUDIO_PROBE:
    case MEDIA_AUDIO_DECODE:
        if (request->width != 0 || request->height != 0)
            return error_set(error, RESULT_CORRUPT, "a size of pixels that are not asked for");
        return RESULT_OK;
    case MEDIA_DECODE:
        if (!size_is_valid(request->width, request->height))
            return error_set(error, RESULT_CORRUPT, "pixels of another size");
        return RESULT_OK;
    case MEDIA_VIDEO_DECODE:
        if (!frames_are_valid(request))
            return error_set(error, RESULT_CORRUPT, "frames of another size");
        return RESULT_OK;
    default: return error_set(error, RESULT_CORRUPT, "an unknown action %u", request->action);
    }
}
