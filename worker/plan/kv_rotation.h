/*
 * The rotation after which all coordinates of a head have the same distribution, so that one
 * codebook fits them: a randomized Hadamard transform if the dimension is a power of two, otherwise
 * a random orthogonal matrix. It depends on side and dimension only, so it is the same in every
 * worker and every run.
 */
#ifndef SHOAL_WORKER_PLAN_KV_ROTATION_H
#define SHOAL_WORKER_PLAN_KV_ROTATION_H

#include <stdint.h>

struct kv_rotation {
    uint32_t dim;
    float *signs;  /* [dim], of a Hadamard transform; else NULL */
    float *matrix; /* [dim, dim], rows are orthonormal; else NULL */
};

/* `side`: 0 for keys, 1 for values. dim <= LIMIT_HEAD_DIM. The numbers are allocated with
 * must_alloc(). */
void kv_rotation_init(struct kv_rotation *rotation, uint32_t dim, uint32_t side);
void kv_rotation_fini(struct kv_rotation *rotation);

/* x [dim], in place: R x, and its inverse. */
void kv_rotation_apply(const struct kv_rotation *rotation, float *x);
void kv_rotation_invert(const struct kv_rotation *rotation, float *x);

#endif
