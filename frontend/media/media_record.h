/*
 * What the frontend and a media process say to each other: one request and one reply at a time, as
 * messages of a SOCK_SEQPACKET socket.
 *
 * The bytes of files and pixels are in an area of MEDIA_AREA_BYTES of shared memory that the frontend
 * makes for each process, sealed against resizing: the file at its start, the pixels at
 * MEDIA_PIXELS_OFFSET, and at MEDIA_LIST_OFFSET the numbers of the frames that are wanted of a video, as
 * u32. The process has it mapped, file and list for reading only. The frontend does not
 * map it: it writes the file and copies the pixels out with system calls, so they cannot change
 * under a reader. Samples of audio are where pixels are, as f32. Pages stay in use from image to image up to MEDIA_KEPT_BYTES, because fresh pages
 * cost more than decoding a small image.
 *
 * Byte map of struct media_request, 48 bytes. Written by the frontend.
 *
 *   offset  size  field          rule
 *   0       8     id             not 0; grows with each request to a process
 *   8       4     action         enum media_action
 *   12      4     byte_count     of the file, 1..LIMIT_SOURCE_IMAGE_BYTES
 *   16      4     wanted_width   of image_header_reduction(); 0 but for MEDIA_DECODE
 *   20      4     wanted_height  likewise
 *   24      4     width          of the pixels: image_header_decoded_size(), or of a resized frame; 0
 *                                for the probes
 *   28      4     height         likewise
 *   32      4     frame_count    MEDIA_VIDEO_DECODE: 1..LIMIT_VIDEO_FRAMES; otherwise 0
 *   36      2     filter         MEDIA_VIDEO_DECODE: enum image_filter; otherwise 0
 *   38      2     arithmetic     likewise: enum image_arithmetic
 *   40      4     rate           MEDIA_AUDIO_*: LIMIT_AUDIO_RATE_LEAST to _MOST; otherwise 0
 *   44      4     samples        MEDIA_AUDIO_DECODE: 1..LIMIT_AUDIO_SAMPLES; otherwise 0
 *
 * Byte map of struct media_reply, 320 bytes. Written by the media process.
 *
 *   offset  size  field          rule
 *   0       8     id             R1: the request's; 0 in the greeting
 *   8       4     result         R2: RESULT_OK, _INVALID, _UNSUPPORTED, _TOO_LARGE or _OUT_OF_MEMORY
 *   12      4     sandbox        R3: greeting: bits of enum media_sandbox_part; otherwise zero
 *   16      4     kind           R4: after a successful MEDIA_PROBE a header for which
 *                                    image_header_is_valid() is true, after a successful
 *                                    MEDIA_VIDEO_PROBE one for which video_header_is_valid() is,
 *                                    after a successful MEDIA_AUDIO_PROBE one for which
 *                                    audio_header_is_valid() is; otherwise all zero
 *   20      4     width          R4
 *   24      4     height         R4
 *   28      4     orientation    R4
 *   32      4     scans          R4
 *   36      4     frames         R4: of a video, like the next two
 *   40      8     duration_us    R4
 *   48      8     work_pixels    R4
 *   56      4     samples        R4: of audio
 *   60      4     reserved       R5: zero
 *   64      256   text           R6: why, in printable ASCII with a NUL; empty if and only if
 *                                    RESULT_OK
 */
#ifndef SHOAL_FRONTEND_MEDIA_MEDIA_RECORD_H
#define SHOAL_FRONTEND_MEDIA_MEDIA_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/audio/audio_header.h"
#include "frontend/image/image_header.h"
#include "frontend/image/image_pixels.h"
#include "frontend/image/video_header.h"
#include "proto/limits.h"
#include "proto/result.h"

#define MEDIA_PIXELS_OFFSET ((size_t)LIMIT_SOURCE_IMAGE_BYTES)
#define MEDIA_PIXELS_BYTES  ((size_t)LIMIT_VIDEO_PIXELS * IMAGE_CHANNELS)
#define MEDIA_LIST_OFFSET   (MEDIA_PIXELS_OFFSET + MEDIA_PIXELS_BYTES)
#define MEDIA_LIST_BYTES    ((size_t)4096)
#define MEDIA_AREA_BYTES    (MEDIA_LIST_OFFSET + MEDIA_LIST_BYTES)
_Static_assert(LIMIT_SOURCE_IMAGE_PIXELS <= LIMIT_VIDEO_PIXELS, "the pixels of an image fit too");
_Static_assert(LIMIT_VIDEO_FRAMES * sizeof(uint32_t) <= MEDIA_LIST_BYTES, "a list fits");
_Static_assert(LIMIT_AUDIO_SAMPLES * sizeof(float) <= MEDIA_PIXELS_BYTES, "samples fit too");
/* of the file and of the pixels; what is beyond is given back after an image. Holds an image of 4
 * million pixels */
#define MEDIA_KEPT_BYTES ((size_t)12 << 20)

enum media_action {
    MEDIA_PROBE = 1, /* read the headers */
    MEDIA_DECODE,    /* write the pixels */
    MEDIA_VIDEO_PROBE,
    MEDIA_VIDEO_DECODE, /* write the resized frames of the list */
    MEDIA_AUDIO_PROBE,  /* count the samples */
    MEDIA_AUDIO_DECODE  /* write the samples */
};

/* What confines a media process. */
enum media_sandbox_part {
    MEDIA_SANDBOX_SECCOMP = 1,
    MEDIA_SANDBOX_LANDLOCK = 2,
    MEDIA_SANDBOX_LIMITS = 4, /* resource limits */
    MEDIA_SANDBOX_ALL = 7
};

struct media_request {
    uint64_t id;
    uint32_t action;
    uint32_t byte_count;
    uint32_t wanted_width;
    uint32_t wanted_height;
    uint32_t width;
    uint32_t height;
    uint32_t frame_count;
    uint16_t filter;
    uint16_t arithmetic;
    uint32_t rate;
    uint32_t samples;
};
_Static_assert(sizeof(struct media_request) == 48, "byte map");

#define MEDIA_TEXT_BYTES 256u

struct media_reply {
    uint64_t id;
    uint32_t result;
    uint32_t sandbox;
    uint32_t kind;
    uint32_t width;
    uint32_t height;
    uint32_t orientation;
    uint32_t scans;
    uint32_t frames;
    uint64_t duration_us;
    uint64_t work_pixels;
    uint32_t samples;
    uint32_t reserved;
    char text[256];
};
_Static_assert(sizeof(struct media_reply) == 320, "byte map");
_Static_assert(offsetof(struct media_reply, duration_us) == 40, "byte map");
_Static_assert(offsetof(struct media_reply, text) == 64, "byte map");

/*
 * Checks rules R1-R6 of a message of `bytes` bytes in *reply that answers a request with this id and
 * action. RESULT_CORRUPT, and the error text begins with the rule's name: the process is then not to
 * be trusted any longer. After RESULT_OK every field can be used as it is. Pure.
 */
enum result media_reply_check(const struct media_reply *reply, size_t bytes, uint64_t id,
                              enum media_action action, struct error_text *error) RESULT_CHECKED;
/* The same for a process's first message; the reply's sandbox says what confines it. */
enum result media_greeting_check(const struct media_reply *reply, size_t bytes,
                                 struct error_text *error) RESULT_CHECKED;
/* The header of a checked reply to MEDIA_PROBE. */
struct image_header media_reply_header(const struct media_reply *reply);
/* Likewise of MEDIA_VIDEO_PROBE. */
struct video_header media_reply_video(const struct media_reply *reply);
/* Likewise of MEDIA_AUDIO_PROBE for samples of this rate. */
struct audio_header media_reply_audio(const struct media_reply *reply, uint32_t rate);

/* For the media process: RESULT_CORRUPT for a request that no frontend sends. */
enum result media_request_check(const struct media_request *request, size_t bytes,
                                struct error_text *error) RESULT_CHECKED;

#endif
