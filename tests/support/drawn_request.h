/*
 * Requests drawn at random, for tests of the engine: text, pictures from a catalog, all that can be
 * said of sampling, and conversations that go on, branch and share their beginnings.
 */
#ifndef SHOAL_TESTS_SUPPORT_DRAWN_REQUEST_H
#define SHOAL_TESTS_SUPPORT_DRAWN_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/test_frontend.h"
#include "tests/support/test_random.h"
#include "worker/backend/host/backend.h"

#define DRAWN_TOKENS_MAX 512u
#define DRAWN_IMAGES_MAX 8u

/* A picture that requests may show: content, sizes and numbers as its record has them; where it
 * stands is the request's. */
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

/* Pictures of random sizes, every fourth of three tiles, for a vision that merges `side` pixels to
 * a token. */
void drawn_catalog_make(struct drawn_catalog *catalog, uint32_t count, uint32_t side,
                        uint32_t placeholder);
/* Those of a scene (tower_scene.h), which `vision` takes. */
void drawn_catalog_copy(struct drawn_catalog *catalog, const struct encode_picture *pictures,
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

/* Empty, of greedy sampling; what it owned goes. */
void drawn_request_begin(struct drawn_request *drawn);
void drawn_request_add_token(struct drawn_request *drawn, uint32_t token);
/* `count` ids below `below`. */
void drawn_request_add_text(struct drawn_request *drawn, struct test_random *random, uint32_t count,
                            uint32_t below);
/* With up to one id of text before each further tile. */
void drawn_request_add_image(struct drawn_request *drawn, const struct drawn_catalog *catalog,
                             uint32_t image, struct test_random *random);
/* The first `tokens` of another one, or fewer so that no picture is cut. */
void drawn_request_share(struct drawn_request *drawn, const struct drawn_request *from,
                         uint32_t tokens);
/* Seed, penalties, stop ids, biases and flags; `below`: the vocabulary's size. */
void drawn_request_sample(struct drawn_request *drawn, struct test_random *random, uint32_t below);
/* Lays the pictures out; the request can be submitted. */
void drawn_request_end(struct drawn_request *drawn);
void drawn_request_fini(struct drawn_request *drawn);

#endif
