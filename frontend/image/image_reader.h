/*
 * The seam between preparation, which has a file's bytes, and the place where foreign bytes are
 * parsed. The server decodes in media processes (frontend/media/media_pool.h), unit tests and fuzz
 * targets in their own process (tests/support/direct_reader.h).
 */
#ifndef SHOAL_FRONTEND_IMAGE_IMAGE_READER_H
#define SHOAL_FRONTEND_IMAGE_IMAGE_READER_H

#include <stdatomic.h>
#include <stddef.h>

#include "frontend/audio/audio_header.h"
#include "frontend/image/image_header.h"
#include "frontend/image/image_pixels.h"
#include "frontend/image/video_header.h"

struct image_input {
    const uint8_t *bytes;
    size_t byte_count;
    const atomic_bool *cancelled; /* NULL, or true once the result is not wanted */
};

/* Called on any thread. Results are those of image_decoder.h; also RESULT_TOO_LARGE if decoding
 * takes more time or memory than an image may, RESULT_PEER_GONE if there is no process to decode in,
 * and RESULT_CANCELLED soon after *cancelled became true. */
struct image_reader {
    void *context;
    enum result (*probe)(void *context, const struct image_input *input,
                         struct image_header *header, struct error_text *error);
    /* `header` is probe's of the same bytes, `wanted_width` and `wanted_height` are those of
     * image_decoder_run(). On success the caller releases `pixels`. */
    enum result (*decode)(void *context, const struct image_input *input,
                          const struct image_header *header, uint32_t wanted_width,
                          uint32_t wanted_height, struct image_pixels *pixels,
                          struct error_text *error);
    /* The same for files of videos (video_decoder.h): `order` is valid for the header, and frame i of
     * it is written to places[i], of video_order_frame_bytes(). */
    enum result (*probe_video)(void *context, const struct image_input *input,
                               struct video_header *header, struct error_text *error);
    enum result (*decode_video)(void *context, const struct image_input *input,
                                const struct video_header *header, const struct video_order *order,
                                uint8_t *const *places, struct error_text *error);
    /* The same for audio (audio_decoder.h): `rate` is valid, and samples[header->samples] are written,
     * each finite and at most AUDIO_SAMPLE_MAX. */
    enum result (*probe_audio)(void *context, const struct image_input *input, uint32_t rate,
                               struct audio_header *header, struct error_text *error);
    enum result (*decode_audio)(void *context, const struct image_input *input,
                                const struct audio_header *header, float *samples,
                                struct error_text *error);
};

#endif
