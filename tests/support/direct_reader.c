#include "tests/support/direct_reader.h"

#include "frontend/image/image_decoder.h"

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

const struct image_reader direct_reader = {.probe = probe, .decode = decode};
