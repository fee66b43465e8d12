/*
 * The best scalar quantizer of one coordinate of a random unit vector. All coordinates of a rotated
 * head share its levels.
 */
#ifndef SHOAL_WORKER_PLAN_KV_CODEBOOK_H
#define SHOAL_WORKER_PLAN_KV_CODEBOOK_H

#include <stdint.h>

#define KV_CODEBOOK_BITS_MAX   4u
#define KV_CODEBOOK_LEVELS_MAX 16u

struct kv_codebook {
    uint32_t bits;
    float levels[KV_CODEBOOK_LEVELS_MAX];     /* [2^bits], ascending, odd about 0 */
    float bounds[KV_CODEBOOK_LEVELS_MAX - 1]; /* [2^bits - 1], halfway between levels */
};

/* Lloyd and Max's quantizer for the density (1 - t^2)^((dim - 3) / 2) on (-1, 1), to convergence.
 * 1 <= bits <= KV_CODEBOOK_BITS_MAX, dim > 3. */
void kv_codebook_init(struct kv_codebook *codebook, uint32_t dim, uint32_t bits);

#endif
