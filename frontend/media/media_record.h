/*
 * What the frontend and a media process say to each other: one request and one reply at a time, as
 * messages of a SOCK_SEQPACKET socket.
 *
 * The bytes of files and pixels are in an area of MEDIA_AREA_BYTES of shared memory that the frontend
 * makes for each process, sealed against resizing: the file at its start, the pixels at
 * MEDIA_PIXELS_OFFSET. The process has it mapped, the file for reading only. The frontend does not
 * map it: it writes the file and copies the pixels out with system calls, so they cannot change
 * under a reader. Pages stay in use from image to image up to MEDIA_KEPT_BYTES, because fresh pages
 * cost more than decoding a small image.
 *
 * Byte map of struct media_request, 40 bytes. Written by the frontend.
 *
 *   offset  size  field          rule
 *   0       8     id             not 0; grows with each request to a process
 *   8       4     action         enum media_action
 *   12      4     byte_count     of the file, 1..LIMIT_SOURCE_IMAGE_BYTES
 *   16      4     wanted_width   of image_header_reduction(); 0 for MEDIA_PROBE, like the next three
 *   20      4     wanted_height  likewise
 *   24      4     width          of the pixels: image_header_decoded_size()
 *   28      4     height         likewise
 *   32      8     reserved       zero
 *
 * Byte map of struct media_reply, 320 bytes. Written by the media process.
 *
 *   offset  size  field          rule
 *   0       8     id             R1: the request's; 0 in the greeting
 *   8       4     result         R2: RESULT_OK, _INVALID, _UNSUPPORTED, _TOO_LARGE or _OUT_OF_MEMORY
 *   12      4     sandbox        R3: greeting: bits of enum media_sandbox_part; otherwise zero
 *   16      4     kind           R4: after a successful MEDIA_PROBE a header for which
 *                                    image_header_is_valid() is true; otherwise all zero
 *   20      4     width          R4
 *   24      4     height         R4
 *   28      4     orientation    R4
 *   32      4     scans          R4
 *   36      28    reserved       R5: zero
 *   64      256   text           R6: why, in printable ASCII with a NUL; empty if and only if
 *                                    RESULT_OK
 */
#ifndef SHOAL_FRONTEND_MEDIA_MEDIA_RECORD_H
#define SHOAL_FRONTEND_MEDIA_MEDIA_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/image/image_header.h"
#include "frontend/image/image_pixels.h"
#include "proto/limits.h"
#include "proto/result.h"

#define MEDIA_PIXELS_OFFSET ((size_t)LIMIT_SOURCE_IMAGE_BYTES)
#define MEDIA_PIXELS_BYTES  ((size_t)LIMIT_SOURCE_IMAGE_PIXELS * IMAGE_CHANNELS)
#define MEDIA_AREA_BYTES    (MEDIA_PIXELS_OFFSET + MEDIA_PIXELS_BYTES)
/* of the file and of the pixels; what is beyond is given back after an image. Holds an image of 4
 * million pixels */
#define MEDIA_KEPT_BYTES ((size_t)12 << 20)

enum media_action {
    MEDIA_PROBE = 1, /* read the headers */
    MEDIA_DECODE     /* write the pixels */
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
    uint64_t reserved;
};
_Static_assert(sizeof(struct media_request) == 40, "byte map");

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
    uint32_t reserved[7];
    char text[256];
};
_Static_assert(sizeof(struct media_reply) == 320, "byte map");
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

/* For the media process: RESULT_CORRUPT for a request that no frontend sends. */
enum result media_request_check(const struct media_request *request, size_t bytes,
                                struct error_text *error) RESULT_CHECKED;

#endif
