/*
 * Hardware features of a device that kernels use, in ascending order:
 *
 *   scalar        float arithmetic only
 *   dot           packed 4 x 8-bit integer dot products in hardware
 *   KHR matrix    VK_KHR_cooperative_matrix with f16 factors and f32 sums
 *   NV matrix 2   VK_NV_cooperative_matrix2 at workgroup scope with tensor addressing
 *   PTX           the above and VK_NVX_binary_import on sm_90: matrix units of a warpgroup
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_VULKAN_TIER_H
#define SHOAL_WORKER_BACKEND_HOST_VULKAN_TIER_H

enum vulkan_tier { VULKAN_SCALAR, VULKAN_DOT, VULKAN_KHR_MATRIX, VULKAN_NV_MATRIX2, VULKAN_PTX };
#define VULKAN_TIER_HIGHEST VULKAN_PTX /* as a limit: none */

/* For logs: "NV matrix 2". */
const char *vulkan_tier_name(enum vulkan_tier tier);
/* Parses a flag: scalar, dot, khr-matrix, nv-matrix2, ptx. 0, or -1 for other words. */
int vulkan_tier_parse(const char *text, enum vulkan_tier *tier);

#endif
