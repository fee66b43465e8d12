/*
 * Random requests for tests of the engine: text, images from a catalog, all sampling parameters, and
 * conversations that continue, branch and share prefixes.
 */
#ifndef SHOAL_TESTS_SUPPORT_DRAWN_REQUEST_H
#define SHOAL_TESTS_SUPPORT_DRAWN_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/test_frontend.h"
#include "tests/support/test_random.h"
#include "worker/backend/host/encode_batch.h"

#define DRAWN_TOKENS_MAX 512u
#define DRAWN_IMAGES_MAX 8u

/* An image of the catalog: content, sizes and numbers as in its record. Each request sets the
 * position. */
struct drawn_image {
    struct image_record record;
    uint8_t *pixels; /* [tiles, height, width, 3] */
    uint32_t tile_tokens;
};

struct drawn_catalog {
    struct drawn_image *images; /* [count], owned */
    uint32_t count;
    uint32_t placeholder; /* the id that stands where features go; below the vocabulary's size */
};

/* Images of random sizes, every fourth of three tiles, for a model that merges `side` pixels into
 * a token. */
void drawn_catalog_make(struct drawn_catalog *catalog, uint32_t count, uint32_t side,
                        uint32_t placeholder);
/* The images of a scene (tower_scene.h) for the model `vision`. */
void drawn_catalog_copy(struct drawn_catalog *catalog, const struct encode_image *encoded,
                        uint32_t count, const struct model_vision *vision, uint32_t placeholder);
void drawn_catalog_fini(struct drawn_catalog *catalog);

struct drawn_request {
    struct test_request request; /* its pointers lead into this struct and its part */
    uint32_t prompt[DRAWN_TOKENS_MAX];
    uint32_t stop_ids[2];
    struct logit_bias_entry bias[2];
    struct image_record records[DRAWN_IMAGES_MAX];
    const struct drawn_image *images[DRAWN_IMAGES_MAX];
    uint8_t *part; /* owned; made by drawn_request_end() */
    uint32_t conversation;
    bool used;
    bool cancelled;
};

/* Empties the request, frees its arrays and sets greedy sampling. */
void drawn_request_begin(struct drawn_request *drawn);
void drawn_request_add_token(struct drawn_request *drawn, uint32_t token);
/* Appends `count` random ids below `below`. */
void drawn_request_add_text(struct drawn_request *drawn, struct test_random *random, uint32_t count,
                            uint32_t below);
/* Appends an image, with up to one id of text before each tile but the first. */
void drawn_request_add_image(struct drawn_request *drawn, const struct drawn_catalog *catalog,
                             uint32_t image, struct test_random *random);
/* Copies the first `tokens` tokens of another request, or fewer so that no image is cut. */
void drawn_request_share(struct drawn_request *drawn, const struct drawn_request *from,
                         uint32_t tokens);
/* Draws seed, penalties, stop ids, biases and flags; `below`: size of the vocabulary. */
void drawn_request_sample(struct drawn_request *drawn, struct test_random *random, uint32_t below);
/* Lays out the images; afterwards the request can be submitted. */
void drawn_request_end(struct drawn_request *drawn);
void drawn_request_fini(struct drawn_request *drawn);

#endif
