/*
 * A batch of images as rows of a vision tower: the place of each patch in its tile, the rows that
 * form a tile or a window, and the feature that each square of patches becomes.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_IMAGE_PATCHES_H
#define SHOAL_WORKER_BACKEND_HOST_IMAGE_PATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/backend/host/encode_batch.h"
#include "worker/backend/host/lazy_memory.h"
#include "worker/plan/plan.h"

#define PATCH_FEATURE_NONE UINT32_MAX /* the feature is dropped */

struct patch_place {
    uint32_t tile; /* of the batch */
    uint32_t y;    /* in patches */
    uint32_t x;
    bool lead; /* no patch, at 0, 0: model_vision.lead_row, or no pixels of a canvas */
    /* Of a row of a canvas: its aspect times the squares of a canvas, plus its square, and its place in that:
     * 0 the class row, then patches, CANVAS_PADDING. */
    uint32_t square;
    uint32_t place;
};
#define CANVAS_PADDING UINT32_MAX

struct patch_tile {
    struct encode_image image; /* the tile's pixels, only read while the batch is taken in */
    uint32_t height;           /* in patches */
    uint32_t width;
    uint32_t first_row; /* of its patches */
};

/* Consecutive rows that attend to the same rows: the first `keys` of those whose keys and values are in the
 * blocks from first_block on. These are the span's own rows, of which there may be fewer or more. */
struct patch_span {
    uint32_t first_row;
    uint32_t rows;
    uint32_t first_block;
    uint32_t first_key; /* row */
    uint32_t keys;
};

struct patch_block {
    uint32_t first_row;
    uint32_t rows; /* 1..KV_BLOCK_TOKENS */
};

/* The spans of one kind. */
struct patch_spans {
    uint32_t count;
    uint32_t block_count;
    struct patch_span *spans;
    struct patch_block *blocks;
};

#define FEATURE_MIX_ROWS 4u

/* A row of a mosaic: the sum of features, each times its weight; PATCH_FEATURE_NONE as the first: the
 * learned row after a line. Features with weight 0 are not read. Or a row of a frame, of its kind's
 * tensor. */
struct feature_mix {
    uint32_t pool_row;
    uint32_t kind;                       /* enum feature_kind */
    uint32_t features[FEATURE_MIX_ROWS]; /* rows of the batch's features */
    float weights[FEATURE_MIX_ROWS];
};
_Static_assert(sizeof(struct feature_mix) == 40, "kernels read ten words");

struct image_patches {
    const struct model_vision *vision;
    uint32_t max_rows;
    uint32_t rows;
    uint32_t features;
    uint32_t tile_count;
    struct patch_place *places; /* [rows] */
    struct patch_tile *tiles;   /* [tile_count] */
    uint32_t *feature_rows;     /* [features] rows of the pool, or PATCH_FEATURE_NONE */
    uint32_t mix_count;
    uint32_t max_mixes;         /* 0 in models without mosaics and frames */
    struct feature_mix *mixes;  /* [mix_count] */
    struct patch_spans whole;   /* tiles */
    struct patch_spans windows; /* none in towers without */
    struct lazy_memory attention;
    float *keys_values;    /* [blocks][heads][keys, values][head_dim * KV_BLOCK_TOKENS] */
    uint32_t *block_table; /* block b is the b-th */
};

/* For batches of up to `max_rows` rows of this plan, which outlives the patches. */
enum result image_patches_init(struct image_patches *patches, const struct plan *plan,
                               uint32_t max_rows, struct error_text *error) RESULT_CHECKED;
void image_patches_fini(struct image_patches *patches);

void image_patches_arrange(struct image_patches *patches, const struct encode_batch *batch);

/* Maximum of rows of mosaics and frames of so many features. */
uint32_t image_patches_mixes_most(const struct model_vision *vision, uint32_t squares);
/* Rows of mosaics that belong to features [begin, end) of the batch: an equal share for each. */
struct mix_share {
    uint32_t begin;
    uint32_t end;
};
struct mix_share image_patches_mixes(const struct image_patches *patches, uint32_t begin,
                                     uint32_t end);

/* The row of a patch of a tile, in towers without windows. */
uint32_t image_patches_row(const struct image_patches *patches, const struct patch_tile *tile,
                           uint32_t y, uint32_t x);

/* Patches that become one feature. */
uint32_t image_patches_square(const struct image_patches *patches);

#endif
