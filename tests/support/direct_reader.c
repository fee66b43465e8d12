#include "tests/support/direct_reader.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/audio/audio_decoder.h"
#include "frontend/image/image_decoder.h"
#include "frontend/image/video_decoder.h"
#include "proto/must.h"

static enum result probe(void *context, const struct image_input *input,
                         struct image_header *header, struct error_text *error)
{
    (void)context;
    return image_decoder_probe(input->bytes, input->byte_count, header, error);
}

static enum result decode(void *context, const struct image_input *input,
                          const struct image_header *header, uint32_t wanted_width,
                          uint32_t wanted_height, struct image_pixels *pixels,
                          struct error_text *error)
{
    (void)context;
    return image_decoder_run(input->bytes, input->byte_count, header, wanted_width, wanted_height,
                             pixels, error);
}

static enum result probe_video(void *context, const struct image_input *input,
                               struct video_header *header, struct error_text *error)
{
    (void)context;
    return video_decoder_probe(input->bytes, input->byte_count, header, error);
}

static enum result decode_video(void *context, const struct image_input *input,
                                const struct video_header *header, const struct video_order *order,
                                uint8_t *const *places, struct error_text *error)
{
    (void)context;
    size_t bytes = video_order_frame_bytes(order);
    uint8_t *out = must_alloc(order->count, bytes);
    enum result result =
        video_decoder_run(input->bytes, input->byte_count, header, order, out, error);
    for (uint32_t i = 0; i < order->count && result == RESULT_OK; i++)
        memcpy(places[i], out + i * bytes, bytes);
    free(out);
    return result;
}

static enum result probe_audio(void *context, const struct image_input *input, uint32_t rate,
                               struct audio_header *header, struct error_text *error)
{
    (void)context;
    return audio_decoder_probe(input->bytes, input->byte_count, rate, header, error);
}

static enum result decode_audio(void *context, const struct image_input *input,
                                const struct audio_header *header, float *samples,
                                struct error_text *error)
{
    (void)context;
    return audio_decoder_run(input->bytes, input->byte_count, header->rate, header->samples,
                             samples, error);
}

const struct image_reader direct_reader = {.probe = probe,
                                           .decode = decode,
                                           .probe_video = probe_video,
                                           .decode_video = decode_video,
                                           .probe_audio = probe_audio,
                                           .decode_audio = decode_audio};
