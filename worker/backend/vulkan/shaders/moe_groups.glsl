/*
 * The pairs of a step, (row, number of one of its experts), sorted by expert; moe_group writes
 * them and moe_linear reads them. Pair p is row p / chosen and its expert number p % chosen.
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

/* Some pairs of one expert. */
struct MoeTile {
    uint expert;
    uint first; /* index into pairs */
    uint count;
    uint place; /* of its first pair, where experts begin at multiples of MOE_ALIGN places */
};
const uint MOE_ALIGN = 8;

layout(buffer_reference, std430, buffer_reference_align = 16) buffer MoeGroups
{
    uint tile_count;
    uint unused[3];
    MoeTile tiles[]; /* [maximum number of tiles]; pairs are stored separately */
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer MoePairs { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer MoeFloats
{
    float at[];
};

/* The expert of a pair, from a route [rows, 2 * chosen]. */
uint moe_expert(uint64_t route, uint pair, uint chosen)
{
    return uint(MoeFloats(route).at[pair / chosen * 2 * chosen + pair % chosen]);
}
/* A pair of weight 0 need not be calculated. */
float moe_weight(uint64_t route, uint pair, uint chosen)
{
    return MoeFloats(route).at[pair / chosen * 2 * chosen + chosen + pair % chosen];
}
