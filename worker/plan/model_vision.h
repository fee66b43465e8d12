/*
 * How a vision model takes images, or an audio model sounds: the number of patches that its tower cuts an image into, the
 * number of features that come out, and how the text model uses them.
 *
 * An image is `tiles` tiles of one size, already resized, as 8-bit RGB. A patch is a square of
 * pixels and one row of the tower; `merge_side` x `merge_side` patches become one feature, which
 * takes the place of one placeholder token. Features come line by line of a tile, tile after tile.
 * Each tile is encoded independently. A temporal patch of a video is a tile whose patches have
 * several frames; in towers for videos a still image is all frames of its patches.
 *
 * In towers with canvases an image is one "tile" whose sides are those of several squares: it is cut into these, and
 * as many further ones as the largest canvas has are empty. Each has a class row, its patches, and padding up to a
 * multiple of eight rows. All rows of an image attend to each other, but those of empty squares and of padding only to
 * the others. Rows are in the order of squares, class row first, and padding after the last one; each but padding is a
 * feature.
 *
 * A sound is one tile of log-mel rows, and "pixels" are these. A row of the tower stands for two of them, or for sound_step;
 * of two it hears three from one before them on. Two rows become one feature (an odd last row has none), or each does.
 * The mel rows are an odd number: the last one only follows those that are stood for. If sounds end
 * (sound_ends), all of them are stood for.
 */
#ifndef SHOAL_WORKER_PLAN_MODEL_VISION_H
#define SHOAL_WORKER_PLAN_MODEL_VISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/result.h"

struct image_shape {
    uint32_t tiles;
    uint32_t width; /* of a tile, pixels */
    uint32_t height;
    uint32_t frames; /* of a tile: those of a temporal patch of a video; 0 and 1: a still image */
    uint32_t sound;  /* 1: width mels, height mel rows; 0: an image */
};

/* The tiles after the first one, put together line by line, in models with model_vision.mosaic.
 * Zeroed: the image has one tile. */
struct image_mosaic {
    uint32_t rows; /* of tiles */
    uint32_t columns;
    /* In features: the middle of all tiles, without the image's padding, and what it is resized to
     * (bilinear). */
    uint32_t kept_height;
    uint32_t kept_width;
    uint32_t height;
    uint32_t width;
};

struct model_vision {
    /* Of a tower of images: that of sounds beside it; NULL: none, or this is one. */
    const struct model_vision *sounds;
    uint32_t mels;       /* of a mel row; 0: the tower takes images */
    uint32_t sound_rows; /* maximum of the tower's rows for a sound; 0 without mels */
    uint32_t sound_step; /* mel rows that a row of the tower stands for; 0: two */
    /* Rows of a feature, of which the last one of a sound may have fewer; 0: two, or one with row_features. */
    uint32_t sound_join;
    /* Features of every sound: after those of the tower a learned row stands for the others; 0: only those. */
    uint32_t sound_tokens;
    bool
        sound_ends; /* nothing is heard after a sound, whose last row may stand for fewer mel rows */
    uint32_t patch_side;  /* pixels */
    uint32_t merge_side;  /* patches */
    uint32_t fixed_side;  /* patches: every tile is a square of this side; 0: any size */
    uint32_t max_side;    /* patches: maximum of the longer side; 0: no maximum */
    uint32_t frames;      /* of a patch; 0 and 1: the tower takes no videos */
    uint32_t window_side; /* features: side of the windows of windowed layers; 0: no windows */
    /* A tile's rows begin with those of one more feature, which is dropped: the last of them is a
     * learned row (CLIP's class row) that attends like a patch, the others are unused. Needs
     * no windows, no rope, and fixed_side unless only features have that row (op tile_attention). */
    bool lead_row;
    /* An image's first tile is the whole image; after its features come those of its mosaic, with a
     * learned row after each line, or without one that row alone. */
    bool mosaic;
    /* With mosaic: the first tile's lines have a learned row after each too, and another learned row is between
     * them and the mosaic, which every image has, as large as its tiles. */
    bool lined;
    /* With mosaic: the two views of an image are records of their own. All tiles of one form the mosaic, with a
     * learned row after each line; the other is one tile without a mosaic, with that row after each line and
     * another learned row at its end. */
    bool split_views;
    /* Squares of so many patches each way become one feature, with zeros for patches beyond a tile, and merge_side
     * is 1; 0: merged squares do. Needs `lined`, so that features are placed, and fixed_side. */
    uint32_t join_side;
    /* An image has one tile, and more rows than features: one before them, one after each line, one after
     * them. With grid_positions, those of features and lines have the image's number, line and
     * column, and all others that of their row. */
    bool framed;
    /* Of a tower for sounds: every row becomes a feature, instead of two. */
    bool row_features;
    /* Features do not replace tokens: rows of the text attend to them (op cross_attention) in so many
     * layers, for each of which a feature has a key and a value of key_columns. An image has one
     * placeholder, and the rows from there to the next image's see its features; if nothing is between two
     * images, those of both. */
    uint32_t crossed_layers;
    uint32_t key_columns; /* of such a key, and of a value; 0: text_hidden */
    /* Canvases: squares of so many patches a side, of which an image has at most canvas_tiles. 0: none. */
    uint32_t canvas_side;
    uint32_t canvas_tiles;
    uint32_t hidden;      /* columns of the tower's residual */
    uint32_t text_hidden; /* columns of a feature, the text model's hidden size */
    /* After each of the first deepstack_layers layers of the text model a further part of the
     * feature is added to its row. A row of the feature pool has text_hidden columns for the
     * token's embedding and as many for each of these layers. */
    uint32_t deepstack_layers;
    /* The tower runs in this many stages of about equal length, so that steps can run in between.
     */
    uint32_t stages;
    /* Rows of a tile's span see the whole span, so a span must not be divided between steps. Those of a
     * sound see no later rows. */
    bool spans_whole;
    /* Tokens have positions in time, height and width: those of a tile follow its grid of features,
     * and the text after it continues from the largest. */
    bool grid_positions;
};

/* Columns of a part of a feature, and of a row of the feature pool. */
uint32_t model_vision_part_columns(const struct model_vision *vision);
uint32_t model_vision_feature_columns(const struct model_vision *vision);

/* Of the tower that takes images of this kind, which may be that of sounds. */
const struct model_vision *model_vision_of(const struct model_vision *vision,
                                           struct image_shape shape);

/* RESULT_INVALID, with the numbers, if the tower does not take the image: a side is no multiple of
 * a merged square or beyond the tower's positions, it has several frames but not those of a patch, or
 * there are more than LIMIT_PATCH_ROWS patches.
 * The functions below are defined only for shapes that pass. */
enum result model_vision_check(const struct model_vision *vision, struct image_shape shape,
                               struct error_text *error) RESULT_CHECKED;

/* Patches that become one feature. */
uint32_t model_vision_square(const struct model_vision *vision);
/* Bytes of pixels for each row of a batch, at most. */
size_t model_vision_row_bytes(const struct model_vision *vision);

/* Pixels of a tile, all frames, in bytes. */
size_t model_vision_tile_bytes(struct image_shape shape);

/* Mel rows that a row of a tower of sounds stands for. */
uint32_t model_vision_sound_step(const struct model_vision *vision);
/* Rows of the tower for a checked sound. */
uint32_t model_vision_sound_rows(const struct model_vision *vision, struct image_shape shape);

/* Rows of the tower: the cost of encoding, bounded by backend_options.max_patch_rows. */
uint32_t model_vision_patch_rows(const struct model_vision *vision, struct image_shape shape);

/* Rows of the tower's features, of all tiles; with join_side some are unused. */
uint32_t model_vision_feature_rows(const struct model_vision *vision, struct image_shape shape);

/* RESULT_INVALID, with the numbers, if the mosaic is not one of this checked shape. In models
 * without mosaics only a zeroed one passes. */
enum result model_vision_check_mosaic(const struct model_vision *vision, struct image_shape shape,
                                      const struct image_mosaic *mosaic,
                                      struct error_text *error) RESULT_CHECKED;
/* Rows that a mosaic adds to the first tile's. */
uint32_t model_vision_mosaic_rows(const struct image_mosaic *mosaic);
/* The number of rows of the feature pool, and of placeholder tokens in the prompt: features of all
 * tiles, or of the first and the mosaic's, or the frame's too. If the model is crossed, there is one placeholder. */
uint32_t model_vision_image_rows(const struct model_vision *vision, struct image_shape shape,
                                 const struct image_mosaic *mosaic);

/* The squares of a checked shape's canvas, in a tower with canvases. */
struct vision_canvas {
    uint32_t rows;
    uint32_t columns;
    /* 1 + its number among all canvases of so many squares, by rows and then columns. */
    uint32_t aspect;
    uint32_t tile_rows; /* of a square: its class row and patches */
    uint32_t pad_rows;  /* of a square */
};
struct vision_canvas model_vision_canvas(const struct model_vision *vision,
                                         struct image_shape shape);
/* Of a crossed model: the first rows of an image's features that the rows after it attend to. */
uint32_t model_vision_seen_rows(const struct model_vision *vision, struct image_shape shape);
/* Number of canvases of at most so many squares. */
uint32_t model_vision_canvas_count(uint32_t tiles);

/* Of one tile's features as they are placed; those of a sound are a line. */
struct feature_grid {
    uint32_t height;
    uint32_t width;
};
struct feature_grid model_vision_grid(const struct model_vision *vision, struct image_shape shape);

#endif
