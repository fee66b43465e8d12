/*
 * What a model that sees says of pictures: into how many patches its tower cuts one, how many
 * features come out, and how the text model takes them.
 *
 * A picture is `tiles` images of one size, already resized, as 8-bit RGB. A patch is a square of
 * pixels, a row of the tower; `merge_side` x `merge_side` patches become one feature, which stands
 * in the place of one placeholder token. Features of a tile come line by line, tiles one after the
 * other. Each tile is encoded by itself.
 */
#ifndef SHOAL_WORKER_PLAN_MODEL_VISION_H
#define SHOAL_WORKER_PLAN_MODEL_VISION_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"

struct picture_shape {
    uint32_t tiles;
    uint32_t width; /* of a tile, pixels */
    uint32_t height;
};

struct model_vision {
    uint32_t patch_side;  /* pixels */
    uint32_t merge_side;  /* patches */
    uint32_t fixed_side;  /* patches: a tile is a square of just so many a side; 0: any size */
    uint32_t most_side;   /* patches: of the longer side, where positions end; 0: no such end */
    uint32_t window_side; /* features: layers of the tower may see squares of so many; 0: none */
    uint32_t hidden;      /* columns of the tower's residual */
    uint32_t text_hidden; /* columns of a feature, the text model's hidden size */
    /* Layers of the text model, the first ones, behind each of which a further part of the feature
     * is added to its row (deepstack); a row of the feature pool has text_hidden columns for the
     * token's place and as many for each of these. */
    uint32_t deepstack_layers;
    /* The tower is walked in so many stages, none much longer than others, so that steps can come
     * between. */
    uint32_t stages;
    /* Rows of a tile's span see all of the span, so a span may not be cut between steps. */
    bool spans_whole;
    /* Tokens have positions in time, height and width: a tile's are those of its features' grid,
     * and text goes on behind the largest. */
    bool grid_positions;
};

/* Columns of a row of the feature pool. */
uint32_t model_vision_feature_columns(const struct model_vision *vision);

/* RESULT_INVALID, with the numbers, for pictures that the tower does not take: sides that are no
 * multiple of a merged square or beyond its positions, or more patches than LIMIT_PATCH_ROWS. What
 * is below is defined for other shapes alone. */
enum result model_vision_check(const struct model_vision *vision, struct picture_shape shape,
                               struct error_text *error) RESULT_CHECKED;

/* Rows of the tower: what encoding costs, and what backend_options.max_patch_rows bounds. */
uint32_t model_vision_patch_rows(const struct model_vision *vision, struct picture_shape shape);

/* Features, all tiles together: placeholder tokens in the prompt, rows of the feature pool. */
uint32_t model_vision_feature_rows(const struct model_vision *vision, struct picture_shape shape);

/* Of one tile's features. */
struct feature_grid {
    uint32_t height;
    uint32_t width;
};
struct feature_grid model_vision_grid(const struct model_vision *vision,
                                      struct picture_shape shape);

#endif
