/*
 * A request is built piece by piece and laid out at the end, because the position of an image's
 * pixels follows from all images before it. The caller passes the random state, so every run of a
 * test is the same.
 */
#include "tests/support/drawn_request.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

void drawn_catalog_make(struct drawn_catalog *catalog, uint32_t count, uint32_t side,
                        uint32_t placeholder)
{
    *catalog = (struct drawn_catalog){.count = count, .placeholder = placeholder};
    catalog->images = must_alloc(count, sizeof *catalog->images);
    for (uint32_t i = 0; i < count; i++) {
        struct test_random random = {.state = 1000 + i};
        struct drawn_image *image = &catalog->images[i];
        uint32_t columns = 1 + test_random_below(&random, 5);
        uint32_t rows = 1 + test_random_below(&random, 3);
        image->tile_tokens = columns * rows;
        image->record = (struct image_record){
            .width = side * columns, .height = side * rows, .tiles = i % 4 == 0 ? 3 : 1};
        test_random_fill(&random, image->record.content_hash, sizeof image->record.content_hash);
        for (uint32_t channel = 0; channel < 3; channel++) {
            image->record.scale[channel] = 0.01f * (float)(1 + channel);
            image->record.bias[channel] = -1.0f;
        }
        size_t bytes = (size_t)image->record.tiles * image->record.width * image->record.height *
                       IMAGE_PIXEL_BYTES;
        image->pixels = must_alloc(bytes, 1);
        test_random_fill(&random, image->pixels, bytes);
    }
}

void drawn_catalog_copy(struct drawn_catalog *catalog, const struct encode_image *encoded,
                        uint32_t count, const struct model_vision *vision, uint32_t placeholder)
{
    *catalog = (struct drawn_catalog){.count = count, .placeholder = placeholder};
    catalog->images = must_alloc(count, sizeof *catalog->images);
    for (uint32_t i = 0; i < count; i++) {
        const struct encode_image *from = &encoded[i];
        struct drawn_image *image = &catalog->images[i];
        image->record = (struct image_record){.content_hash = {(uint8_t)(i + 1)},
                                              .width = from->shape.width,
                                              .height = from->shape.height,
                                              .tiles = from->shape.tiles,
                                              .frames = from->shape.frames};
        _Static_assert(sizeof from->mosaic == sizeof image->record.mosaic, "in the same order");
        memcpy(image->record.mosaic, &from->mosaic, sizeof from->mosaic);
        image->tile_tokens = model_vision_image_rows(vision, from->shape, &from->mosaic) /
                             image_record_runs(&image->record);
        memcpy(image->record.scale, from->scale, sizeof from->scale);
        memcpy(image->record.bias, from->bias, sizeof from->bias);
        size_t bytes = from->shape.tiles * model_vision_tile_bytes(from->shape);
        image->pixels = must_alloc(bytes, 1);
        memcpy(image->pixels, from->pixels, bytes);
    }
}

void drawn_catalog_fini(struct drawn_catalog *catalog)
{
    for (uint32_t i = 0; i < catalog->count; i++)
        free(catalog->images[i].pixels);
    free(catalog->images);
    *catalog = (struct drawn_catalog){0};
}

void drawn_request_fini(struct drawn_request *drawn)
{
    free(drawn->part);
    drawn->part = NULL;
}

void drawn_request_begin(struct drawn_request *drawn)
{
    drawn_request_fini(drawn);
    drawn->used = true;
    drawn->cancelled = false;
    drawn->request =
        (struct test_request){.prompt = drawn->prompt, .sampling = sampling_params_default()};
    drawn->request.sampling.temperature = 0.0f;
}

void drawn_request_add_token(struct drawn_request *drawn, uint32_t token)
{
    must(drawn->request.prompt_tokens < DRAWN_TOKENS_MAX);
    drawn->prompt[drawn->request.prompt_tokens++] = token;
}

void drawn_request_add_text(struct drawn_request *drawn, struct test_random *random, uint32_t count,
                            uint32_t below)
{
    while (count-- > 0)
        drawn_request_add_token(drawn, test_random_below(random, below));
}

void drawn_request_add_image(struct drawn_request *drawn, const struct drawn_catalog *catalog,
                             uint32_t image, struct test_random *random)
{
    struct test_request *request = &drawn->request;
    must(image < catalog->count && request->image_count < DRAWN_IMAGES_MAX);
    const struct drawn_image *shown = &catalog->images[image];
    struct image_record *record = &drawn->records[request->image_count];
    drawn->images[request->image_count++] = shown;
    *record = shown->record;
    record->first_token = request->prompt_tokens;
    uint32_t runs = image_record_runs(record);
    record->token_count = shown->tile_tokens * runs;
    for (uint32_t tile = 0; tile < runs; tile++) {
        if (tile > 0)
            drawn_request_add_text(drawn, random, test_random_below(random, 2), 3);
        for (uint32_t i = 0; i < shown->tile_tokens; i++)
            drawn_request_add_token(drawn, catalog->placeholder);
    }
    record->span_tokens = request->prompt_tokens - record->first_token;
}

void drawn_request_share(struct drawn_request *drawn, const struct drawn_request *from,
                         uint32_t tokens)
{
    struct test_request *request = &drawn->request;
    must(request->prompt_tokens == 0 && tokens <= from->request.prompt_tokens);
    for (uint32_t i = 0; i < from->request.image_count; i++) {
        const struct image_record *record = &from->records[i];
        if (record->first_token >= tokens)
            break;
        if (record->first_token + record->span_tokens > tokens) {
            tokens = record->first_token;
            break;
        }
        drawn->records[i] = *record;
        drawn->images[i] = from->images[i];
        request->image_count = i + 1;
    }
    memcpy(drawn->prompt, from->prompt, tokens * sizeof drawn->prompt[0]);
    request->prompt_tokens = tokens;
}

void drawn_request_sample(struct drawn_request *drawn, struct test_random *random, uint32_t below)
{
    struct test_request *request = &drawn->request;
    for (uint32_t i = 0; i < 2; i++) {
        drawn->stop_ids[i] = test_random_below(random, below);
        drawn->bias[i] = (struct logit_bias_entry){test_random_below(random, below), 1.0f};
    }
    request->flags = test_random_below(random, 4);
    request->stop_ids = drawn->stop_ids;
    request->stop_token_count = test_random_below(random, 3);
    request->logit_bias = drawn->bias;
    request->logit_bias_count = test_random_below(random, 3);
    request->sampling.temperature = test_random_below(random, 2) ? 0.0f : 1.0f;
    request->sampling.seed = test_random_next(random);
    if (test_random_below(random, 3) == 0)
        request->sampling.presence_penalty = 0.5f;
}

void drawn_request_end(struct drawn_request *drawn)
{
    struct test_request *request = &drawn->request;
    must(request->prompt_tokens > 0 && !drawn->part);
    request->image_bytes = image_record_place(drawn->records, request->image_count);
    drawn->part = must_alloc(request->image_bytes + 1, 1);
    memcpy(drawn->part, drawn->records, request->image_count * sizeof drawn->records[0]);
    for (uint32_t i = 0; i < request->image_count; i++)
        memcpy(drawn->part + drawn->records[i].pixels_offset, drawn->images[i]->pixels,
               drawn->records[i].pixels_bytes);
    request->image_part = drawn->part;
}
