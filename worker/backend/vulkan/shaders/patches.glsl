/*
 * Pictures that are being encoded, as the host lays them down (vulkan_patch_batch.h). A row's sight says
 * where its patch is: `height` and `width` its line and column in the tile, `feature` which tile.
 */
#include "step.glsl"

struct PatchPicture {
    uint64_t pixels; /* u8 [lines, line_bytes]: red, green, blue */
    uint line_bytes;
    uint height; /* patches */
    uint width;
    float scale[3]; /* of red, green, blue */
    float bias[3];
    uint unused[5];
};

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer PatchPictures
{
    PatchPicture at[];
};
