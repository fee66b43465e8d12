/*
 * struct vulkan_linear_matrix_push: the push constants of every matrix kernel.
 */
layout(push_constant) uniform Push
{
    WeightMatrix weights; /* [n, k] */
    uint64_t x;           /* [rows, k] */
    uint64_t out_f32;     /* [rows, out_stride] */
    uint64_t out_f16;
    uint64_t partials; /* f32 [tiles][splits][tile rows][tile columns] */
    uint64_t counters; /* u32 [tiles], 0 between kernels */
    uint rows;
    uint n;
    uint k;
    uint out_stride;
    uint splits;
    uint split_steps; /* steps of TILE_K columns that a split does */
} push;
