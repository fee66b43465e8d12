/*
 * A picture of a request, as the frontend hands it to a worker: pixels that are decoded and resized
 * and still bytes, where its placeholders stand in the prompt, and how bytes become numbers. Every
 * field is written by the frontend and read by the worker.
 *
 *   offset field           rule
 *   0      content_hash    I1: not zero. Of the pixels and of everything below that changes what
 *                              the tower makes of them: what a feature cache knows a picture by
 *   16     width           I2: of one tile, 1..LIMIT_IMAGE_SIDE pixels
 *   20     height          I2: likewise
 *   24     tiles           I2: 1..LIMIT_IMAGE_TILES frames of that size, in prompt order; all
 *                              pixels together <= LIMIT_IMAGE_PIXELS. Patches and features follow
 *                              from these by the family's rules (worker/plan/model_vision.h)
 *   28     first_token     I3: index in the prompt of its first placeholder, not before the end of
 *                              the picture before it
 *   32     span_tokens     I3: up to and with its last placeholder; inside the prompt without what
 *                              was generated
 *   36     token_count     I3: placeholders, 1..span_tokens, a multiple of tiles,
 *                              <= LIMIT_IMAGE_TOKENS
 *   40     scale[3]        I4: red, green, blue: a pixel's number is byte * scale + bias. Finite,
 *                              no more than IMAGE_SCALE_MAX from 0, scale not 0
 *   52     bias[3]         I4: likewise
 *   64     pixels_offset   I5: from the beginning of the image part of the payload: behind the
 *                              records and the pixels before, on the next multiple of 64
 *   72     pixels_bytes    I5: tiles * height * width * 3
 *   80     reserved        I6: zero
 *
 * Pixels are u8 [tiles, height, width, 3], red first.
 *
 * Placeholders are the tokens that features take the place of. All of a span are the same id, that
 * of prompt[first_token]; other ids between (a row's end, a tile's name) are text. Each tile's
 * token_count / tiles placeholders stand in one piece. The worker holds both against the ids while
 * it copies them.
 */
#ifndef SHOAL_PROTO_IMAGE_RECORD_H
#define SHOAL_PROTO_IMAGE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/result.h"

#define IMAGE_PIXEL_BYTES 3u
#define IMAGE_HASH_BYTES  16u
#define IMAGE_ALIGN_BYTES 64u     /* of every picture's pixels in the payload */
#define IMAGE_SCALE_MAX   1000.0f /* published ones stay below 3 */

struct image_record {
    uint8_t content_hash[IMAGE_HASH_BYTES];
    uint32_t width;
    uint32_t height;
    uint32_t tiles;
    uint32_t first_token;
    uint32_t span_tokens;
    uint32_t token_count;
    float scale[3];
    float bias[3];
    uint64_t pixels_offset;
    uint64_t pixels_bytes;
    uint32_t reserved[12];
};
_Static_assert(sizeof(struct image_record) == 128, "a multiple of 64, so that pixels can follow");
_Static_assert(offsetof(struct image_record, scale) == 40, "byte map");
_Static_assert(offsetof(struct image_record, pixels_offset) == 64, "byte map");

/* For the writer: fills in pixels_offset and pixels_bytes of `count` records whose sizes are set
 * and in bounds (I2), and returns the image_bytes of the submit record. Pixels go to the image part
 * + pixels_offset; bytes between pictures are nobody's. They do not depend on what else is in the
 * payload, so a replay writes the same records again. 0 for none. */
uint64_t image_record_place(struct image_record *records, uint32_t count);

/*
 * Rules I1-I6 of a request's records, which are in the order of their spans; RESULT_CORRUPT, and
 * the words begin with the rule's name. `prompt_tokens`: without those that were generated;
 * `image_bytes`: of the submit record, held against where the last pixels end. Pure.
 */
enum result image_record_check(const struct image_record *records, uint32_t count,
                               uint32_t prompt_tokens, uint64_t image_bytes,
                               struct error_text *error) RESULT_CHECKED;

#endif
