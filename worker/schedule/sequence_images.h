/*
 * The images of one sequence: their pixels, their tokens, and the features that it holds.
 *
 * Pixels are kept as long as the sequence, because a preempted sequence may find its features
 * evicted when it resumes. Features are held from when they are first needed (cached or being
 * encoded) until the rows that read them are launched or the sequence gives its memory back. If rows
 * attend to features (model_vision.crossed_layers), every row reads them, so they are held until the
 * sequence gives its memory back.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_IMAGES_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/cache/feature_cache.h"
#include "worker/plan/model_vision.h"
#include "worker/schedule/image_tiles.h"

struct sequence_image {
    struct feature_key key; /* this and the next one are set by sequence_images_fit() */
    struct image_mosaic mosaic;
    uint32_t patch_rows;
    uint32_t end_token; /* after its last placeholder */
    uint32_t features;  /* held image of the feature cache, or FEATURE_IMAGE_NONE */
    uint32_t first_row; /* its first pool row, while held */
    uint32_t seen_rows; /* of crossed images: those that rows after it attend to */
    bool looked_up;     /* its first look-up has been counted */
};

struct sequence_images {
    uint32_t count;
    uint32_t tile_count;
    uint64_t part_bytes;
    uint8_t *part;                      /* the payload's image part, copied; owned */
    const struct image_record *records; /* [count] within `part` */
    struct image_tile *tiles;           /* [tile_count] owned */
    struct sequence_image *images;      /* [count] owned */
    uint32_t held;                      /* images whose features are held */
    bool crossed;                       /* rows attend to features; set by sequence_images_fit() */
    bool sees_ahead; /* so do those before the first image (model_vision.canvas_tiles) */
    /* Images not encoded for this sequence: in the feature cache at the first look-up, or in the
     * cached prefix. */
    uint32_t hits;
};

/* Copies the image part of a payload, then checks the copy's records and the placeholders in
 * `prompt`, [prompt_tokens] without generated ones. RESULT_CORRUPT (a record's rule), INVALID
 * (placeholders) or OUT_OF_MEMORY; *images is then empty. */
enum result sequence_images_copy(struct sequence_images *images, const uint8_t *part,
                                 uint64_t part_bytes, uint32_t count, const uint32_t *prompt,
                                 uint32_t prompt_tokens, struct error_text *error) RESULT_CHECKED;
/* Frees the owned memory; no features may be held. Safe on a zeroed struct. */
void sequence_images_fini(struct sequence_images *images);

struct image_limits {
    const struct model_vision *vision; /* NULL: the model takes no images */
    uint32_t patch_rows;               /* maximum of one image: one batch of the backend */
    uint32_t feature_rows;             /* size of the pool */
    uint32_t whole_tokens;             /* maximum of a span that must not be cut */
};
/* Checks the images against the model and the memory, and sets the fields that follow from their
 * sizes; `salt`: the tenant's. RESULT_UNSUPPORTED: the model takes no images. INVALID or TOO_LARGE
 * with the numbers. */
enum result sequence_images_fit(struct sequence_images *images, const uint32_t salt[4],
                                const struct image_limits *limits,
                                struct error_text *error) RESULT_CHECKED;

const uint8_t *sequence_images_pixels(const struct sequence_images *images, uint32_t image);

/* Skips `computed` tokens of a cached prefix: images that end within it count as hits and need no
 * features. */
void sequence_images_skip(struct sequence_images *images, uint32_t computed);
/* The first image with placeholders at or after `computed`, or of crossed ones any, whose features are not
 * held; count: none. */
uint32_t sequence_images_wanted(const struct sequence_images *images, uint32_t computed);
/* Stores a reference to `features`, which the sequence now owns. */
void sequence_images_hold(struct sequence_images *images, uint32_t image,
                          const struct feature_cache *cache, uint32_t features);
/* Number of tokens from `computed` on before the first one whose features are not READY, or that sees them. */
uint32_t sequence_images_ready_tokens(const struct sequence_images *images,
                                      const struct feature_cache *cache, uint32_t computed);
/* Gives back the features of images that end at or before `computed` and are not crossed; UINT32_MAX:
 * of all images. */
void sequence_images_release(struct sequence_images *images, struct feature_cache *cache,
                             uint32_t computed);
/* The feature pool row of a token whose image's features are held; for other tokens
 * ROW_FEATURE_NONE. */
uint32_t sequence_images_feature_row(const struct sequence_images *images, uint32_t token);

/* Of crossed images, which are held: the pool rows of each that rows after it attend to, and then all of each, as far
 * as rows before the first image attend to them. Returns their number, 0 if the images are not crossed. */
uint32_t sequence_images_ranges(const struct sequence_images *images, struct feature_range *ranges);
/* The most of them. */
#define SEQUENCE_RANGES_MAX (2u * LIMIT_REQUEST_IMAGES)
/* Which of these, from number `first_range` of a batch on, the row of this token attends to: those of the last image
 * at or before it, and of images before that without tokens between; or, blindly, those of all of each. */
struct row_crossing sequence_images_crossing(const struct sequence_images *images, uint32_t token,
                                             uint32_t first_range);

/* Identifies the image content of tokens [first, end): equal for the same parts of the same images
 * at the same places, zero without images. If tokens before the first image see all images, those are content of
 * token 0. Part of the names of cached prefixes. */
void sequence_images_mark(const struct sequence_images *images, uint32_t first, uint32_t end,
                          uint64_t mark[2]);

#endif
