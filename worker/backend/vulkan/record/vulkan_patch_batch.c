/*
 * Rows are in the order of the host's patch arrangement, so that spans are consecutive rows and the
 * patches of a square follow each other. Data that is the same for every batch (positions of rows,
 * the cache's block table) is written once.
 */
#include "worker/backend/vulkan/record/vulkan_patch_batch.h"

#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/device/vulkan_vision_push.h"

#define CHANNELS 3u
#define WORD     4u /* kernels read pixels as words, so the last word may end after them */

enum section {
    SECTION_ROWS,
    SECTION_SEQUENCE,
    SECTION_TABLE,
    SECTION_IMAGES,
    SECTION_FEATURE_ROWS,
    SECTION_MIXES,
    SECTION_SIGHTS,
    SECTION_TILES,
    SECTION_WINDOW_SIGHTS,
    SECTION_WINDOW_TILES,
    SECTION_COUNT
};

/* Offset of a section; of SECTION_COUNT: the end of the last one. */
static uint64_t section_offset(const struct vulkan_patch_batch *patches, enum section section)
{
    const struct image_patches *arranged = &patches->arranged;
    const uint64_t rows = arranged->max_rows;
    const uint64_t squares = rows / model_vision_square(arranged->vision) + 1;
    const uint64_t bytes[SECTION_COUNT] = {
        [SECTION_ROWS] = rows * sizeof(struct vulkan_step_row),
        [SECTION_SEQUENCE] = sizeof(struct vulkan_step_sequence),
        [SECTION_TABLE] = (rows / KV_BLOCK_TOKENS + 1) * sizeof(uint32_t),
        [SECTION_IMAGES] = squares * sizeof(struct vulkan_patch_image),
        [SECTION_FEATURE_ROWS] = squares * sizeof(uint32_t),
        [SECTION_MIXES] = arranged->max_mixes * sizeof(struct feature_mix),
        [SECTION_SIGHTS] = rows * sizeof(struct vulkan_step_sight),
        [SECTION_TILES] = rows * sizeof(struct vulkan_step_tile),
        [SECTION_WINDOW_SIGHTS] = rows * sizeof(struct vulkan_step_sight),
        [SECTION_WINDOW_TILES] = rows * sizeof(struct vulkan_step_tile),
    };
    uint64_t at = 0;
    for (uint32_t s = 0; s < (uint32_t)section; s++)
        at += (bytes[s] + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
    return at;
}

static void *section_bytes(const struct vulkan_patch_batch *patches, enum section section)
{
    return (uint8_t *)patches->buffer.mapped + section_offset(patches, section);
}

static uint64_t section_address(const struct vulkan_patch_batch *patches, enum section section)
{
    return patches->buffer.address + section_offset(patches, section);
}

static void fill_cache_places(struct vulkan_patch_batch *patches)
{
    struct vulkan_step_row *rows = section_bytes(patches, SECTION_ROWS);
    uint32_t *table = section_bytes(patches, SECTION_TABLE);
    for (uint32_t r = 0; r < patches->arranged.max_rows; r++)
        rows[r] = (struct vulkan_step_row){.position = r};
    for (uint32_t b = 0; b <= patches->arranged.max_rows / KV_BLOCK_TOKENS; b++)
        table[b] = b;
    memset(section_bytes(patches, SECTION_SEQUENCE), 0, sizeof(struct vulkan_step_sequence));
}

enum result vulkan_patch_batch_init(struct vulkan_patch_batch *patches,
                                    const struct vulkan_device *device, const struct plan *plan,
                                    uint32_t max_rows, uint32_t tile_rows, struct error_text *error)
{
    *patches = (struct vulkan_patch_batch){.device = device, .tile_rows = tile_rows};
    uint64_t pixel_bytes = max_rows * model_vision_row_bytes(&plan->vision) + WORD;
    enum result result = image_patches_init(&patches->arranged, plan, max_rows, error);
    if (result == RESULT_OK)
        result = vulkan_buffer_create(device, VULKAN_UPLOAD, pixel_bytes, "pixels of images",
                                      &patches->pixels, error);
    if (result == RESULT_OK)
        result = vulkan_buffer_create(device, VULKAN_UPLOAD, section_offset(patches, SECTION_COUNT),
                                      "patches of images", &patches->buffer, error);
    if (result != RESULT_OK)
        return result;
    patches->batch = (struct vulkan_batch){
        .rows_address = section_address(patches, SECTION_ROWS),
        .sequences_address = section_address(patches, SECTION_SEQUENCE),
        .tables = {.address = section_address(patches, SECTION_TABLE)},
        .sights_address = section_address(patches, SECTION_SIGHTS),
    };
    patches->images_address = section_address(patches, SECTION_IMAGES);
    patches->feature_rows_address = section_address(patches, SECTION_FEATURE_ROWS);
    patches->mixes_address = section_address(patches, SECTION_MIXES);
    fill_cache_places(patches);
    return RESULT_OK;
}

void vulkan_patch_batch_fini(struct vulkan_patch_batch *patches)
{
    if (!patches->device)
        return;
    image_patches_fini(&patches->arranged);
    vulkan_buffer_destroy(patches->device, &patches->pixels);
    vulkan_buffer_destroy(patches->device, &patches->buffer);
}

/* Copies pixels and writes each tile's address. */
static void fill_images(struct vulkan_patch_batch *patches)
{
    const uint32_t side = patches->arranged.vision->patch_side;
    struct vulkan_patch_image *images = section_bytes(patches, SECTION_IMAGES);
    uint64_t at = 0;
    for (uint32_t t = 0; t < patches->arranged.tile_count; t++) {
        const struct patch_tile *tile = &patches->arranged.tiles[t];
        const struct image_shape *shape = &tile->image.shape;
        const uint32_t line_bytes =
            shape->sound ? (uint32_t)(shape->width * sizeof(float)) : tile->width * side * CHANNELS;
        const uint32_t frame_bytes = tile->height * side * line_bytes;
        const bool still = tile->image.shape.frames <= 1;
        const uint64_t bytes = model_vision_tile_bytes(tile->image.shape);
        must(at + bytes + WORD <= patches->pixels.bytes);
        struct vulkan_patch_image image = {.pixels = patches->pixels.address + at,
                                           .line_bytes = line_bytes,
                                           .frame_bytes = still ? 0 : frame_bytes,
                                           .height = shape->sound ? shape->height : tile->height,
                                           .width = tile->width};
        memcpy((uint8_t *)patches->pixels.mapped + at, tile->image.pixels, bytes);
        memcpy(image.scale, tile->image.scale, sizeof image.scale);
        memcpy(image.bias, tile->image.bias, sizeof image.bias);
        images[t] = image;
        at += bytes;
    }
}

/* Writes each patch's position and range, and cuts spans into tiles. */
static struct vulkan_patch_spans fill_spans(struct vulkan_patch_batch *patches,
                                            const struct patch_spans *spans, enum section sights_at,
                                            enum section tiles_at)
{
    const struct patch_place *places = patches->arranged.places;
    struct vulkan_step_sight *sights = section_bytes(patches, sights_at);
    struct vulkan_step_tile *tiles = section_bytes(patches, tiles_at);
    struct vulkan_patch_spans filled = {.sights_address = section_address(patches, sights_at),
                                        .tiles_address = section_address(patches, tiles_at)};
    for (uint32_t s = 0; s < spans->count; s++) {
        const struct patch_span *span = &spans->spans[s];
        const uint32_t begin = span->first_row, end = begin + span->rows;
        for (uint32_t row = begin; row < end; row++)
            sights[row] = (struct vulkan_step_sight){.position = {.time = places[row].lead,
                                                                  .height = places[row].y,
                                                                  .width = places[row].x},
                                                     .tile = places[row].tile,
                                                     .begin = span->first_key,
                                                     .end = span->first_key + span->keys,
                                                     .square = places[row].square,
                                                     .place = places[row].place};
        for (uint32_t row = begin; row < end; row += patches->tile_rows)
            tiles[filled.tile_count++] = (struct vulkan_step_tile){
                .first_row = row,
                .row_count = end - row < patches->tile_rows ? end - row : patches->tile_rows,
                .first_position = row};
    }
    return filled;
}

void vulkan_patch_batch_fill(struct vulkan_patch_batch *patches, const struct encode_batch *batch)
{
    image_patches_arrange(&patches->arranged, batch);
    fill_images(patches);
    patches->whole = fill_spans(patches, &patches->arranged.whole, SECTION_SIGHTS, SECTION_TILES);
    patches->windows = patches->whole;
    if (patches->arranged.windows.count > 0)
        patches->windows = fill_spans(patches, &patches->arranged.windows, SECTION_WINDOW_SIGHTS,
                                      SECTION_WINDOW_TILES);
    memcpy(section_bytes(patches, SECTION_FEATURE_ROWS), patches->arranged.feature_rows,
           patches->arranged.features * sizeof(uint32_t));
    memcpy(section_bytes(patches, SECTION_MIXES), patches->arranged.mixes,
           patches->arranged.mix_count * sizeof(struct feature_mix));
}
