/*
 * Any bytes as a message of a media process: refused under a rule's name, or a reply whose every
 * field is in its range. The first byte says what is expected: 'p' an answer to MEDIA_PROBE, 'd' to
 * MEDIA_DECODE, 'v' to MEDIA_VIDEO_PROBE, 'a' to MEDIA_AUDIO_PROBE, 'g' a greeting, 'r' a request as the media process reads it; the next eight are the
 * id of the request.
 */
#include <stdint.h>
#include <string.h>

#include "frontend/media/media_budget_policy.h"
#include "frontend/media/media_record.h"
#include "proto/limits.h"
#include "proto/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const struct media_reply *reply)
{
    size_t length = strnlen(reply->text, sizeof reply->text);
    must(length < sizeof reply->text);
    must((length == 0) == (reply->result == RESULT_OK));
    for (size_t i = 0; i < length; i++)
        must(reply->text[i] >= ' ' && reply->text[i] <= '~');
}

static void check_header(const struct media_reply *reply)
{
    const struct image_header header = media_reply_header(reply);
    static const uint32_t wanted[] = {0, 1, 28, 448, LIMIT_IMAGE_SIDE, UINT32_MAX};
    must(header.kind < IMAGE_KINDS && header.width == reply->width);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        uint32_t width, height;
        image_header_decoded_size(&header, wanted[i], wanted[i], &width, &height);
        must(width >= 1 && width <= header.width && height >= 1 && height <= header.height);
        must((uint64_t)width * height <= LIMIT_SOURCE_IMAGE_PIXELS);
    }
    int64_t cpu_us = media_budget_cpu_us(LIMIT_SOURCE_IMAGE_BYTES, &header);
    must(cpu_us > media_budget_cpu_us(1, NULL) && media_budget_wall_us(cpu_us) > cpu_us);
}

static void try_reply(char kind, uint64_t id, const uint8_t *data, size_t size)
{
    struct media_reply reply = {0};
    struct error_text error = {""};
    enum media_action action = kind == 'p'   ? MEDIA_PROBE
                               : kind == 'v' ? MEDIA_VIDEO_PROBE
                               : kind == 'a' ? MEDIA_AUDIO_PROBE
                                             : MEDIA_DECODE;
    memcpy(&reply, data, size < sizeof reply ? size : sizeof reply);
    enum result result = kind == 'g' ? media_greeting_check(&reply, size, &error)
                                     : media_reply_check(&reply, size, id, action, &error);
    if (result != RESULT_OK) {
        must(result == RESULT_CORRUPT && error.text[0] == 'R');
        return;
    }
    must(size == sizeof reply && reply.id == (kind == 'g' ? 0 : id));
    must(kind != 'g' || reply.sandbox <= MEDIA_SANDBOX_ALL);
    check_text(&reply);
    if (kind == 'p' && reply.result == RESULT_OK)
        check_header(&reply);
    const struct video_header video = media_reply_video(&reply);
    must(kind != 'v' || reply.result != RESULT_OK || video_header_is_valid(&video));
    const struct audio_header audio = media_reply_audio(&reply, LIMIT_AUDIO_RATE_MOST);
    must(kind != 'a' || reply.result != RESULT_OK || audio_header_is_valid(&audio));
}

static void try_request(const uint8_t *data, size_t size)
{
    struct media_request request = {0};
    struct error_text error = {""};
    memcpy(&request, data, size < sizeof request ? size : sizeof request);
    if (media_request_check(&request, size, &error) != RESULT_OK) {
        must(error.text[0] != '\0');
        return;
    }
    must(size == sizeof request && request.byte_count >= 1);
    must(request.byte_count <= LIMIT_SOURCE_IMAGE_BYTES);
    must(request.samples <= LIMIT_AUDIO_SAMPLES);
    must(image_pixels_bytes(request.width, request.height) <= MEDIA_PIXELS_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t id;
    if (size < 1 + sizeof id)
        return 0;
    memcpy(&id, data + 1, sizeof id);
    if (data[0] == 'r')
        try_request(data + 1 + sizeof id, size - 1 - sizeof id);
    else
        try_reply((char)data[0], id, data + 1 + sizeof id, size - 1 - sizeof id);
    return 0;
}
