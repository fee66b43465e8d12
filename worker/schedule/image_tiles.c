/*
 * Pure functions over the tiles of one prompt. Tiles are in token order, so a look-up is a binary
 * search.
 */
#include "worker/schedule/image_tiles.h"

#include "proto/must.h"

/* Finds the tiles of one image. Returns NULL, or the error. */
static const char *find_tiles(const struct image_record *record, uint32_t image,
                              const uint32_t *prompt, struct image_tile *tiles)
{
    uint32_t placeholder = prompt[record->first_token];
    uint32_t end = record->first_token + record->span_tokens;
    uint32_t runs = image_record_runs(record), tile_tokens = record->token_count / runs;
    uint32_t at = record->first_token;
    for (uint32_t tile = 0; tile < runs; tile++) {
        while (at < end && prompt[at] != placeholder)
            at++;
        tiles[tile] = (struct image_tile){.first_token = at,
                                          .token_count = tile_tokens,
                                          .image = image,
                                          .first_feature = tile * tile_tokens};
        for (uint32_t i = 0; i < tile_tokens; i++, at++) {
            if (at == end || prompt[at] != placeholder)
                return "a tile has fewer placeholders than features, or they are not consecutive";
        }
    }
    if (at != end)
        return "other tokens or more placeholders follow its last tile";
    return NULL;
}

enum result image_tiles_find(const struct image_record *records, uint32_t record_count,
                             const uint32_t *prompt, struct image_tile *tiles,
                             struct error_text *error)
{
    for (uint32_t i = 0; i < record_count; i++) {
        const char *fault = find_tiles(&records[i], i, prompt, tiles);
        if (fault)
            return error_set(error, RESULT_INVALID, "image %u: %s", i, fault);
        tiles += image_record_runs(&records[i]);
    }
    return RESULT_OK;
}

static uint32_t end_of(const struct image_tile *tile)
{
    return tile->first_token + tile->token_count;
}

/* Difference of the positions after and at the start of a tile: of a joined one, of its video. */
static uint32_t extent(const struct image_tile *tile)
{
    uint32_t side = tile->grid.height > tile->grid.width ? tile->grid.height : tile->grid.width;
    if (tile->sound)
        return tile->time + tile->token_count;
    return side > tile->time ? side : tile->time + 1;
}

void image_tiles_place(struct image_tile *tiles, uint32_t tile_count)
{
    uint32_t token = 0;
    uint32_t position = 0;
    for (uint32_t i = 0; i < tile_count; i++) {
        must(tiles[i].grid.height * tiles[i].grid.width == tiles[i].token_count);
        must(!tiles[i].joined || (i > 0 && tiles[i].first_token == token));
        position += tiles[i].first_token - token;
        if (tiles[i].twins & IMAGE_TWINS_BEFORE)
            position--;
        if (i > 0 && tiles[i - 1].twins & IMAGE_TWINS_AFTER)
            position--;
        tiles[i].first_position = tiles[i].joined ? tiles[i - 1].first_position : position;
        position = tiles[i].first_position + extent(&tiles[i]);
        token = end_of(&tiles[i]);
    }
}

uint32_t image_tiles_after(const struct image_tile *tiles, uint32_t tile_count, uint32_t token)
{
    uint32_t low = 0;
    uint32_t high = tile_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (end_of(&tiles[middle]) <= token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of an image's first and last rows that of a token of text. */
static struct rope_position framed_position(const struct image_tile *tile, uint32_t row)
{
    uint32_t text = tile->first_position + row;
    if (row == 0 || row + 1 == tile->token_count)
        return (struct rope_position){.time = text, .height = text, .width = text};
    return (struct rope_position){.time = tile->image,
                                  .height = (row - 1) / tile->framed_columns,
                                  .width = (row - 1) % tile->framed_columns};
}

struct rope_position image_tiles_position(const struct image_tile *tiles, uint32_t tile_count,
                                          uint32_t token)
{
    uint32_t at = image_tiles_after(tiles, tile_count, token);
    if (at < tile_count && token >= tiles[at].first_token) {
        const struct image_tile *tile = &tiles[at];
        uint32_t feature = token - tile->first_token;
        if (tile->framed_columns > 0)
            return framed_position(tile, feature);
        if (tile->sound) {
            uint32_t at_once = tile->first_position + tile->time + feature;
            return (struct rope_position){at_once, at_once, at_once};
        }
        return (struct rope_position){.time = tile->first_position + tile->time,
                                      .height = tile->first_position + feature / tile->grid.width,
                                      .width = tile->first_position + feature % tile->grid.width};
    }
    uint32_t position = token;
    if (at > 0) {
        const struct image_tile *before = &tiles[at - 1];
        position = before->first_position + extent(before) + (token - end_of(before));
        if (before->twins & IMAGE_TWINS_AFTER && token > end_of(before))
            position--;
    }
    if (at < tile_count && tiles[at].twins & IMAGE_TWINS_BEFORE &&
        token + 1 == tiles[at].first_token)
        position--;
    return (struct rope_position){.time = position, .height = position, .width = position};
}
