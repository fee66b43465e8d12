/*
 * One image of a request, the frames of one temporal patch of a video, or a sound, as the frontend passes
 * it to a worker: decoded and resized u8 pixels, or log-mel rows of f32, the place of its placeholder tokens in the prompt, and the
 * scale from bytes to floats. A video is as many records as it has temporal patches.
 *
 * Byte map of struct image_record, 128 bytes. Written by the frontend.
 *
 *   offset  size  field          rule
 *   0       16    content_hash   I1: not zero. Hash of the pixels and of all fields below that
 *                                    change the image's features; the key of feature caches
 *   16      4     width          I2: of one tile, 1..LIMIT_IMAGE_SIDE pixels
 *   20      4     height         I2: likewise
 *   24      4     tiles          I2: 1..LIMIT_IMAGE_TILES images of that size, in prompt order; all
 *                                    pixels together <= LIMIT_IMAGE_PIXELS. The family's rules give
 *                                    patches and features from these (worker/plan/model_vision.h)
 *   28      4     first_token    I3: prompt index of the first placeholder, not before the end of
 *                                    the previous image
 *   32      4     span_tokens    I3: from the first placeholder to the last, both included; inside
 *                                    the prompt without generated tokens
 *   36      4     token_count    I3: placeholders, 1..span_tokens, a multiple of tiles x lines,
 *                                    <= LIMIT_IMAGE_TOKENS
 *   40      12    scale          I4: red, green, blue: a pixel's value is byte * scale + bias.
 *                                    Finite, absolute value <= IMAGE_SCALE_MAX, scale not 0
 *   52      12    bias           I4: likewise
 *   64      8     pixels_offset  I5: from the start of the image section of the payload: the next
 *                                    multiple of 64 after the records and the previous pixels
 *   72      8     pixels_bytes   I5: tiles * frames * height * width * 3; of a sound height * width * 4
 *   80      4     tile_lines     I3: runs of equal length that each tile's placeholders form, with
 *                                    other tokens between; 0 and 1: one
 *   84      24    mosaic         I7: the tiles after the first one, as in worker/plan/model_vision.h:
 *                                    rows, columns, kept_height, kept_width, height, width. All
 *                                    zero, or all <= LIMIT_IMAGE_SIDE and rows * columns + 1 tiles, or
 *                                    rows * columns of a record that has no first tile. The model
 *                                    checks the rest
 *   108     4     frames         I8: 0 and 1: an image. 2..LIMIT_PATCH_FRAMES, with one tile: a
 *                                    temporal patch of a video
 *   112     4     time           I8: of a part of a video: its position in time after the video's
 *                                    first one, <= LIMIT_VIDEO_TIME; 0 unless joined
 *   116     4     joined         I8: 1: the next part of the previous record's video, without tokens
 *                                    between: a temporal patch of the same sizes as the one before, not
 *                                    earlier than it, or a piece of the video's sound; else 0
 *   120     4     sound          I9: 1: log-mel rows instead of pixels, `height` rows of `width` mels,
 *                                    one tile without frames, mosaic or lines; 0: pixels
 *   124     4     twins          I6: IMAGE_TWINS_BEFORE, of an image that is not joined: the token before
 *                                    the first placeholder has the position of the token before it.
 *                                    IMAGE_TWINS_AFTER, if no joined record follows: the second token
 *                                    after the span has the position of the first. These tokens are in
 *                                    the prompt and outside of other spans; one run
 *
 * Pixels are u8 [tiles, frames, height, width, 3], red first. Those of a sound are f32 [height, width]; they
 * may be any numbers.
 *
 * The model's features replace the embeddings of the placeholders, or, in models whose rows attend to features
 * (worker/plan/model_vision.h, crossed_layers), the first placeholder is the only one and keeps its embedding. All placeholders of a span have
 * the id of prompt[first_token]; other ids in the span (a row's end, a tile's name) are text. Each
 * tile's token_count / tiles placeholders are contiguous, or each of its lines is; those of an image with
 * a mosaic are contiguous. The worker checks this against the ids while it copies them.
 */
#ifndef SHOAL_PROTO_IMAGE_RECORD_H
#define SHOAL_PROTO_IMAGE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/result.h"

#define IMAGE_PIXEL_BYTES  3u
#define IMAGE_HASH_BYTES   16u
#define IMAGE_MOSAIC_SIZES 6u
#define SOUND_VALUE_BYTES  4u
#define IMAGE_ALIGN_BYTES  64u     /* of each image's pixels in the payload */
#define IMAGE_SCALE_MAX    1000.0f /* published ones stay below 3 */
#define IMAGE_TWINS_BEFORE 1u
#define IMAGE_TWINS_AFTER  2u
#define IMAGE_TWINS_TOKENS 2u /* on each side */

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
    uint32_t tile_lines;
    uint32_t mosaic[IMAGE_MOSAIC_SIZES];
    uint32_t frames;
    uint32_t time;
    uint32_t joined;
    uint32_t sound;
    uint32_t twins;
};
_Static_assert(sizeof(struct image_record) == 128, "a multiple of 64, so that pixels can follow");
_Static_assert(offsetof(struct image_record, scale) == 40, "byte map");
_Static_assert(offsetof(struct image_record, pixels_offset) == 64, "byte map");
_Static_assert(offsetof(struct image_record, frames) == 108, "byte map");

/* Runs of consecutive placeholders of an image. */
uint32_t image_record_runs(const struct image_record *record);

/* For the writer: sets pixels_offset and pixels_bytes of `count` records whose sizes are set and in
 * bounds (I2), and returns the image_bytes of the submit record (0 for no records). Bytes between
 * images are unused. Offsets do not depend on other sections of the payload, so a replay writes the
 * same records again. */
uint64_t image_record_place(struct image_record *records, uint32_t count);

/*
 * Checks rules I1-I9 of a request's records, which are in the order of their spans. RESULT_CORRUPT,
 * and the error text begins with the rule's name. `prompt_tokens` excludes generated tokens;
 * `image_bytes` is that of the submit record and must equal the end of the last pixels. Pure.
 */
enum result image_record_check(const struct image_record *records, uint32_t count,
                               uint32_t prompt_tokens, uint64_t image_bytes,
                               struct error_text *error) RESULT_CHECKED;

#endif
