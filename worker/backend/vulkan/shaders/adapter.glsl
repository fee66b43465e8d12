/*
 * LoRA adapters: which rows of a step use one, and its matrices (weights/vulkan_adapter.h,
 * host/adapter_rows.h).
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

const uint ADAPTER_TILE_ROWS = 8;
const uint ADAPTER_RANK_MAX = 256;
const uint ADAPTER_F32 = 0, ADAPTER_F16 = 1, ADAPTER_BF16 = 2;

/* Rows order[first], order[first + 1], ... of one adapter. */
struct AdapterTile {
    uint adapter;
    uint first;
    uint count; /* 0: padding */
    uint unused;
};

/* One adapter's pair of one weight. */
struct AdapterPair {
    uint64_t a; /* [rank, k] */
    uint64_t b; /* [rank, b_columns]: B transposed */
    float scale;
    uint rank; /* 0: the adapter leaves the weight as it is */
    uint kinds; /* of a, and of b from bit 8 on */
    uint rows;  /* of the weight */
};

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer AdapterTiles
{
    AdapterTile at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer AdapterPairs
{
    AdapterPair at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer AdapterWords
{
    uint at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer AdapterFloats
{
    float at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer AdapterVectors
{
    vec4 at[];
};

/* Two columns from the even number `at` on. */
vec2 adapter_pair_at(uint64_t matrix, uint kind, uint64_t at)
{
    if (kind == ADAPTER_F32) {
        AdapterFloats floats = AdapterFloats(matrix + 4 * at);
        return vec2(floats.at[0], floats.at[1]);
    }
    uint word = AdapterWords(matrix + 2 * at).at[0];
    if (kind == ADAPTER_F16)
        return unpackHalf2x16(word);
    return vec2(uintBitsToFloat(word << 16), uintBitsToFloat(word & 0xFFFF0000u));
}
