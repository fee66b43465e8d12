/*
 * Any bytes as an image: rejected with an error text, or pixels of the size in the header, from
 * which a processor with tiles and one with free sizes make the planned result. Input that begins
 * with '{' is a checkpoint's settings instead: up to three JSON texts with NULs between. A
 * processor that opens plans images of many shapes within the limits, or rejects them with an error
 * text.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/image/image_decoder.h"
#include "frontend/image/image_processor.h"
#include "proto/must.h"

#define DECODED_MOST (1u << 20) /* pixels: larger ones are slow here and nothing else */
#define RESIZED_MOST (1u << 18)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct image_processor processors[] = {
    {.family = IMAGE_FAMILY_QWEN,
     .filter = IMAGE_FILTER_BICUBIC,
     .arithmetic = IMAGE_ARITHMETIC_TORCH,
     .patch = 14,
     .merge = 2,
     .min_pixels = 784,
     .max_pixels = 40000,
     .tokens = {.marker = "<i>", .soft = "<i>"}},
    {.family = IMAGE_FAMILY_MOSAIC,
     .filter = IMAGE_FILTER_BICUBIC,
     .arithmetic = IMAGE_ARITHMETIC_TORCH,
     .patch = 7,
     .merge = 1,
     .side = 32,
     .side_tokens = 16,
     .grids = {{1, 2}, {3, 1}, {2, 2}},
     .grid_count = 3,
     .mosaic_tiles = 2,
     .pads_squares = true,
     .tokens = {.marker = "<i>", .soft = "<i>"}},
    {.family = IMAGE_FAMILY_APART,
     .filter = IMAGE_FILTER_BILINEAR,
     .arithmetic = IMAGE_ARITHMETIC_TORCH,
     .patch = 8,
     .merge = 2,
     .side = 32,
     .side_tokens = 4,
     .min_tokens = 2,
     .max_tokens = 4,
     .tolerance = 1.5f,
     .min_tiles = 2,
     .max_tiles = 5,
     .split = true,
     .tokens = {.marker = "<i>", .soft = "<i>"}},
    {.family = IMAGE_FAMILY_PADDED,
     .filter = IMAGE_FILTER_BICUBIC,
     .arithmetic = IMAGE_ARITHMETIC_TORCH,
     .patch = 6,
     .merge = 3,
     .max_patches = 200,
     .fit_side = 30,
     .tokens = {.marker = "<i>", .soft = "<i>"}},
    {.family = IMAGE_FAMILY_IDEFICS3,
     .filter = IMAGE_FILTER_LANCZOS,
     .arithmetic = IMAGE_ARITHMETIC_PIL,
     .patch = 8,
     .merge = 2,
     .side = 32,
     .side_tokens = 4,
     .longest_edge = 96,
     .split = true,
     .tokens = {.marker = "<i>", .soft = "<i>", .begin = "<f>", .end = "<f>", .whole = "<g>"}},
};

static void check_plan(const struct image_processor *p, const struct image_plan *plan)
{
    must(plan->tiles >= 1 && plan->tiles <= LIMIT_IMAGE_TILES);
    must(plan->token_count >= 1 && plan->token_count <= LIMIT_IMAGE_TOKENS);
    must(plan->token_count == (p->family == IMAGE_FAMILY_MOSAIC
                                   ? plan->tile_tokens + plan->mosaic_tokens
                                   : plan->tiles * plan->tile_tokens));
    must(plan->resized_width >= 1 && plan->resized_height >= 1);
    must((uint64_t)plan->resized_width * plan->resized_height <= LIMIT_IMAGE_PIXELS);
    must(plan->byte_count == image_pixels_bytes(plan->tile_width, plan->tile_height) * plan->tiles);
    must(plan->byte_count <= (size_t)LIMIT_IMAGE_PIXELS * IMAGE_CHANNELS);
    must(plan->wanted_width >= 1 && plan->wanted_height >= 1);
    must(p->scale[0] == 0 || (isfinite(p->scale[0]) && isfinite(p->bias[0])));
}

static void run_plan(const struct image_processor *p, const struct image_plan *plan,
                     const struct image_pixels *pixels)
{
    struct error_text error = {""};
    uint8_t hash[IMAGE_HASH_BYTES];
    uint8_t *out = malloc(plan->byte_count);
    must(out != NULL);
    check_plan(p, plan);
    must(image_processor_run(p, plan, pixels, out, hash, &error) == RESULT_OK);
    free(out);
}

static void run_processor(const struct image_processor *p, const struct image_pixels *pixels)
{
    const struct image_request requests[] = {{0}, {IMAGE_DETAIL_LOW, 50, 40, true}};
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct image_plan plan, whole;
        struct error_text error = {""};
        if (image_processor_plan(p, pixels->width, pixels->height, &requests[i], &plan, &error) !=
            RESULT_OK) {
            must(error.text[0] != '\0');
            continue;
        }
        run_plan(p, &plan, pixels);
        if (image_plan_apart(&plan, &whole))
            run_plan(p, &whole, pixels);
    }
}

static void try_image(const uint8_t *data, size_t size)
{
    struct error_text error = {""};
    struct image_header header;
    struct image_pixels pixels;
    if (image_decoder_probe(data, size, &header, &error) != RESULT_OK) {
        must(error.text[0] != '\0');
        return;
    }
    must(header.width >= 1 && header.width <= LIMIT_SOURCE_IMAGE_SIDE && header.height >= 1 &&
         header.height <= LIMIT_SOURCE_IMAGE_SIDE && header.orientation >= 1 &&
         header.orientation <= 8);
    uint32_t count = header.width * header.height;
    if (count > DECODED_MOST)
        return;
    if (image_decoder_run(data, size, &header, 0, 0, &pixels, &error) != RESULT_OK) {
        must(error.text[0] != '\0');
        return;
    }
    must(pixels.width == header.width && pixels.height == header.height);
    for (size_t i = 0; count <= RESIZED_MOST && i < sizeof processors / sizeof processors[0]; i++)
        run_processor(&processors[i], &pixels);
    image_pixels_fini(&pixels);
}

static void plan_shapes(const struct image_processor *p)
{
    static const uint32_t sides[] = {1, 2, 27, 224, 1000, 4096, 8191, LIMIT_SOURCE_IMAGE_SIDE};
    const size_t count = sizeof sides / sizeof sides[0];
    for (size_t i = 0; i < count * count; i++) {
        struct image_request request = {i % 3 ? IMAGE_DETAIL_AUTO : IMAGE_DETAIL_LOW,
                                        (uint32_t)i % 5 * 77, (uint32_t)i % 7 * 3000, i % 2 > 0};
        struct image_plan plan;
        struct error_text error = {""};
        if (image_processor_plan(p, sides[i / count], sides[i % count], &request, &plan, &error) ==
            RESULT_OK)
            check_plan(p, &plan);
        else
            must(error.text[0] != '\0');
    }
}

static void try_settings(const char *text, size_t size)
{
    struct image_processor_files files = {0};
    struct json_value *const parts[] = {&files.config, &files.preprocessor, &files.processor};
    struct image_processor processor;
    struct error_text error = {""};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && size > 0; i++) {
        size_t length = strnlen(text, size);
        if (json_value_open(text, length, LIMIT_CONFIG_BYTES, parts[i], &error) != RESULT_OK)
            *parts[i] = (struct json_value){0};
        text += length < size ? length + 1 : length;
        size -= length < size ? length + 1 : length;
    }
    if (image_processor_open(&files, &processor, &error) != RESULT_OK)
        must(error.text[0] != '\0');
    else if (processor.family != IMAGE_FAMILY_NONE)
        plan_shapes(&processor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == '{')
        try_settings((const char *)data, size);
    else
        try_image(data, size);
    return 0;
}
