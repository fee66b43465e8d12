/*
 * Where a prompt's pictures stand: a tile's placeholders are consecutive tokens, each of which
 * takes one row of the picture's features.
 *
 * And where their tokens are in time, height and width, for models that rotate by these (MRoPE).
 * The rule is Qwen2-VL's (Hugging Face, get_rope_index): text counts on in all three at once; the
 * features of a tile share the time at which it begins and count down and across from there; what
 * follows begins behind the largest of the three, so it is not as far on as there were tokens.
 * Positions are a function of the tiles alone and the same whenever they are asked for.
 */
#ifndef SHOAL_WORKER_SCHEDULE_IMAGE_TILES_H
#define SHOAL_WORKER_SCHEDULE_IMAGE_TILES_H

#include <stdint.h>

#include "proto/image_record.h"
#include "proto/result.h"
#include "worker/backend/host/backend.h"

struct image_tile {
    uint32_t first_token;
    uint32_t token_count;
    uint32_t image;           /* whose: index of the record */
    uint32_t first_feature;   /* of that picture's */
    struct feature_grid grid; /* the next two: image_tiles_place() */
    uint32_t first_position;  /* in time, height and width */
};

/* Finds the tiles of checked records among the ids of their prompt (proto/image_record.h says what
 * must stand where). tiles: [the records' tiles together]. RESULT_INVALID, with the image's number,
 * when placeholders are not where they should be. */
enum result image_tiles_find(const struct image_record *records, uint32_t record_count,
                             const uint32_t *prompt, struct image_tile *tiles,
                             struct error_text *error) RESULT_CHECKED;

/* Sets first_position of tiles whose grids are set. */
void image_tiles_place(struct image_tile *tiles, uint32_t tile_count);
/* Of any token of the sequence, also one that is yet to be generated. */
struct rope_position image_tiles_position(const struct image_tile *tiles, uint32_t tile_count,
                                          uint32_t token);

/* The first tile that ends behind `token`; tile_count: none. It contains the token or comes later.
 */
uint32_t image_tiles_after(const struct image_tile *tiles, uint32_t tile_count, uint32_t token);

#endif
