/*
 * The pictures of one sequence: their pixels, where they stand, and which of their features it
 * holds.
 *
 * Pixels stay as long as the sequence does, because whoever is preempted may find its features
 * evicted when it comes back. Features are held from when they are first needed (found, or being
 * encoded) until the rows that read them are launched, or the sequence gives its memory back.
 */
#ifndef SHOAL_WORKER_SCHEDULE_SEQUENCE_IMAGES_H
#define SHOAL_WORKER_SCHEDULE_SEQUENCE_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/cache/feature_cache.h"
#include "worker/plan/model_vision.h"
#include "worker/schedule/image_tiles.h"

struct sequence_image {
    struct feature_key key; /* the next two: sequence_images_fit() */
    uint32_t patch_rows;
    uint32_t end_token; /* behind its last placeholder */
    uint32_t features;  /* the feature cache's image that is held, or FEATURE_IMAGE_NONE */
    uint32_t first_row; /* of it, where held */
    bool looked_up;     /* whether it was a hit is known */
};

struct sequence_images {
    uint32_t count;
    uint32_t tile_count;
    uint64_t part_bytes;
    uint8_t *part;                      /* the payload's image part, copied; owned */
    const struct image_record *records; /* [count] in it */
    struct image_tile *tiles;           /* [tile_count] owned */
    struct sequence_image *images;      /* [count] owned */
    uint32_t held;                      /* images whose features are held */
    uint32_t hits; /* not encoded for it: found when first looked up, or in the cached prefix */
};

/* Copies the image part of a payload, then checks the copy's records and the placeholders among
 * `prompt`, [prompt_tokens] without generated ones. RESULT_CORRUPT (a record's rule), INVALID
 * (placeholders) or OUT_OF_MEMORY; *images is then empty. */
enum result sequence_images_copy(struct sequence_images *images, const uint8_t *part,
                                 uint64_t part_bytes, uint32_t count, const uint32_t *prompt,
                                 uint32_t prompt_tokens, struct error_text *error) RESULT_CHECKED;
/* Frees what it owns; nothing may be held. Safe on a zeroed struct. */
void sequence_images_fini(struct sequence_images *images);

struct image_limits {
    const struct model_vision *vision; /* NULL: the model sees nothing */
    uint32_t patch_rows;               /* of a picture at most: of one batch of the backend */
    uint32_t feature_rows;             /* of the pool */
    uint32_t whole_tokens;             /* of a span that may not be cut */
};
/* Holds the pictures against the model and the memory, and works out what follows from their
 * sizes; `salt`: whose they are. RESULT_UNSUPPORTED: the model sees nothing. INVALID, TOO_LARGE
 * with the numbers. */
enum result sequence_images_fit(struct sequence_images *images, const uint32_t salt[4],
                                const struct image_limits *limits,
                                struct error_text *error) RESULT_CHECKED;

const uint8_t *sequence_images_pixels(const struct sequence_images *images, uint32_t image);

/* The sequence begins behind `computed` tokens of a cached prefix: pictures that end in it are hits
 * of which no features are needed. */
void sequence_images_skip(struct sequence_images *images, uint32_t computed);
/* The first picture with placeholders from `computed` on whose features are not held; count: none.
 */
uint32_t sequence_images_wanted(const struct sequence_images *images, uint32_t computed);
/* The sequence takes over a reference. */
void sequence_images_hold(struct sequence_images *images, uint32_t image,
                          const struct feature_cache *cache, uint32_t features);
/* Tokens from `computed` on that need no features which are not ready. */
uint32_t sequence_images_ready_tokens(const struct sequence_images *images,
                                      const struct feature_cache *cache, uint32_t computed);
/* Gives back the features of pictures that end by `computed`; UINT32_MAX: of all. */
void sequence_images_release(struct sequence_images *images, struct feature_cache *cache,
                             uint32_t computed);
/* Of the feature pool, for a token of a picture whose features are held; else ROW_FEATURE_NONE. */
uint32_t sequence_images_feature_row(const struct sequence_images *images, uint32_t token);

/* What of pictures is in tokens [first, end): the same for the same parts of the same pictures at
 * the same places, and zero for none. Beside the ids it makes up what a cached prefix is of. */
void sequence_images_mark(const struct sequence_images *images, uint32_t first, uint32_t end,
                          uint64_t mark[2]);

#endif
