/*
 * The images of an encode batch as the host writes them (vulkan_patch_batch.h), and the place of each
 * row's patch.
 */
#include "step.glsl"

struct PatchImage {
    uint64_t pixels; /* u8 [frames, lines, line_bytes]: red, green, blue */
    uint line_bytes;
    uint height; /* patches */
    uint width;
    float scale[3]; /* of red, green, blue */
    float bias[3];
    uint frame_bytes; /* 0: all frames of a patch are the same image */
    uint unused[4];
};

/* A StepSight of a patch, under the names that fit one. */
struct PatchPlace {
    uint time;   /* 1: no patch but the tile's lead row; else 0 */
    uint line;   /* in the tile, patches */
    uint column;
    uint tile;   /* index into the PatchImages */
    uint begin;  /* the rows [begin, end) that it attends to */
    uint end;
    uint square;  /* of a row of a canvas: struct patch_place */
    uint place;
};

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer PatchImages
{
    PatchImage at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer PatchPlaces
{
    PatchPlace at[];
};

/* The number of a patch's row in its tile of so many columns, in towers without windows: squares of merge * merge patches follow
 * each other. */
uint patch_row(uint y, uint x, uint columns, uint merge)
{
    return (y / merge * (columns / merge) + x / merge) * merge * merge + y % merge * merge + x % merge;
}
