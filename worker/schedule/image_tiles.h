/*
 * The tokens of a prompt's images and their rotary positions. A tile's placeholders are consecutive
 * tokens, each of which takes one row of the image's features. If other tokens stand between the
 * lines of a tile (image_record.tile_lines), each line counts as a tile here.
 *
 * Models with MRoPE rotate by time, height and width. The rule is Qwen2-VL's (Hugging Face,
 * get_rope_index): text advances all three together; all features of a tile have the time of its
 * start and advance in height and width from there; the next token follows the largest of the
 * three, so positions advance less than tokens. Positions are a function of the tiles alone.
 *
 * The temporal patches of a video are tiles of their own. Those that are joined (image_record.joined)
 * begin at the height and width of the video's first one, at a time of their own after its.
 *
 * A sound's tokens advance like text. As a part of a video they begin at a time of their own after the
 * video's; the next token follows the largest position of the part before it (get_rope_index of
 * Qwen2.5-Omni's thinker, which also gives the two tokens before such a video one position, and the two
 * after it: image_record.twins).
 *
 * In models with frames (model_vision.framed) positions advance with tokens. Those of an image's lines are its number,
 * line and column, where a line has one column more than features; those around it are of text
 * (Hugging Face, HunYuanVLModel.get_rope_index).
 */
#ifndef SHOAL_WORKER_SCHEDULE_IMAGE_TILES_H
#define SHOAL_WORKER_SCHEDULE_IMAGE_TILES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/image_record.h"
#include "proto/result.h"
#include "worker/backend/host/step_batch.h"
#include "worker/plan/model_vision.h"

struct image_tile {
    uint32_t first_token;
    uint32_t token_count;
    uint32_t image;           /* index of the image's record */
    uint32_t first_feature;   /* within the image */
    struct feature_grid grid; /* set by the caller before image_tiles_place() */
    uint32_t time;            /* after first_position; set by the caller, like `joined` */
    bool joined;              /* begins where the previous tile begins */
    bool sound;               /* its positions advance with tokens */
    uint32_t twins;           /* image_record.twins */
    uint32_t framed_columns;  /* of a framed image's lines; else 0. Its grid is one line */
    uint32_t first_position;  /* height = width = time without `time`; set by image_tiles_place() */
};

/* Finds the tiles of checked records among the ids of their prompt (proto/image_record.h defines
 * the placeholders). tiles: image_record_runs() of all records. RESULT_INVALID, with the image's number,
 * if placeholders are not where they should be. */
enum result image_tiles_find(const struct image_record *records, uint32_t record_count,
                             const uint32_t *prompt, struct image_tile *tiles,
                             struct error_text *error) RESULT_CHECKED;

/* Sets first_position of tiles whose grids, times and joins are set. */
void image_tiles_place(struct image_tile *tiles, uint32_t tile_count);
/* The position of any token of the sequence, including tokens that are not generated yet. */
struct rope_position image_tiles_position(const struct image_tile *tiles, uint32_t tile_count,
                                          uint32_t token);

/* The first tile that ends after `token` and so contains it or follows it; tile_count: none. */
uint32_t image_tiles_after(const struct image_tile *tiles, uint32_t tile_count, uint32_t token);

#endif
