/*
 * The rotation that makes all coordinates of a head alike before a codebook meets them: a
 * randomized Hadamard transform where the dimension is a power of two, else a random orthogonal
 * matrix. A function of side and dimension only, so that every worker and every run has the same.
 */
#ifndef SHOAL_WORKER_PLAN_KV_ROTATION_H
#define SHOAL_WORKER_PLAN_KV_ROTATION_H

#include <stdint.h>

struct kv_rotation {
    uint32_t dim;
    float *signs;  /* [dim], of a Hadamard transform; else NULL */
    float *matrix; /* [dim, dim], rows are orthonormal; else NULL */
};

/* `side` tells keys (0) and values (1) apart. dim <= LIMIT_HEAD_DIM. Memory for the numbers is
 * must_alloc()ed. */
void kv_rotation_init(struct kv_rotation *rotation, uint32_t dim, uint32_t side);
void kv_rotation_fini(struct kv_rotation *rotation);

/* x [dim], in place: R x, and its inverse. */
void kv_rotation_apply(const struct kv_rotation *rotation, float *x);
void kv_rotation_invert(const struct kv_rotation *rotation, float *x);

#endif
