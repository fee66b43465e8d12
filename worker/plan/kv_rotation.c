/*
 * A fixed random rotation.
 *
 * If the dimension is a power of two: R x = H (s * x) / sqrt(dim), H being the Walsh-Hadamard
 * matrix and s random signs; the inverse is the same steps in reverse order. Otherwise R has random
 * normal rows, made orthonormal one after the other (Gram-Schmidt, each row twice, which is QR with
 * a positive diagonal). Random numbers are Philox of (SEED; index, side, dim), so they can be made
 * again anywhere.
 *
 * Sums have one fixed order, so a row's bits do not depend on other rows.
 */
#include "worker/plan/kv_rotation.h"

#include <math.h>
#include <stdlib.h>

#include "proto/limits.h"
#include "proto/must.h"
#include "worker/sample/uniform.h"

#define SEED 0x53484F414C4B5651ull /* "SHOALKVQ" */

static struct philox_block draw(uint32_t index, uint32_t side, uint32_t dim)
{
    return uniform_philox((struct philox_block){{index, side, dim, 0}}, SEED);
}

static double normal(uint32_t index, uint32_t side, uint32_t dim)
{
    const struct philox_block block = draw(index, side, dim);
    double radius = sqrt(-2.0 * log(((double)block.word[0] + 1.0) * 0x1p-32));
    return radius * cos(2.0 * 3.14159265358979323846 * ((double)block.word[1] * 0x1p-32));
}

/* Subtracts from `row` its projections on the first `count` rows of `basis`. */
static void take_away(double *row, const double *basis, uint32_t count, uint32_t dim)
{
    for (uint32_t i = 0; i < count; i++) {
        const double *other = basis + (size_t)i * dim;
        double along = 0.0;
        for (uint32_t d = 0; d < dim; d++)
            along += row[d] * other[d];
        for (uint32_t d = 0; d < dim; d++)
            row[d] -= along * other[d];
    }
}

static void fill_matrix(struct kv_rotation *rotation, uint32_t side)
{
    const uint32_t dim = rotation->dim;
    double *basis = must_alloc((size_t)dim * dim, sizeof *basis);
    for (uint32_t r = 0; r < dim; r++) {
        double *row = basis + (size_t)r * dim;
        for (uint32_t d = 0; d < dim; d++)
            row[d] = normal(r * dim + d, side, dim);
        take_away(row, basis, r, dim);
        take_away(row, basis, r, dim);
        double squares = 0.0;
        for (uint32_t d = 0; d < dim; d++)
            squares += row[d] * row[d];
        for (uint32_t d = 0; d < dim; d++) {
            row[d] /= sqrt(squares);
            rotation->matrix[(size_t)r * dim + d] = (float)row[d];
        }
    }
    free(basis);
}

void kv_rotation_init(struct kv_rotation *rotation, uint32_t dim, uint32_t side)
{
    must(dim > 0 && dim <= LIMIT_HEAD_DIM);
    *rotation = (struct kv_rotation){.dim = dim};
    if ((dim & (dim - 1)) != 0) {
        rotation->matrix = must_alloc((size_t)dim * dim, sizeof(float));
        fill_matrix(rotation, side);
        return;
    }
    rotation->signs = must_alloc(dim, sizeof(float));
    for (uint32_t d = 0; d < dim; d++)
        rotation->signs[d] = draw(d, side, dim).word[0] >> 31 ? -1.0f : 1.0f;
}

void kv_rotation_fini(struct kv_rotation *rotation)
{
    free(rotation->signs);
    free(rotation->matrix);
    *rotation = (struct kv_rotation){0};
}

/* x = H x / sqrt(dim). */
static void transform(float *x, uint32_t dim)
{
    for (uint32_t half = 1; half < dim; half *= 2) {
        for (uint32_t first = 0; first < dim; first += 2 * half) {
            for (uint32_t i = first; i < first + half; i++) {
                float a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
        }
    }
    const float scale = 1.0f / sqrtf((float)dim);
    for (uint32_t d = 0; d < dim; d++)
        x[d] *= scale;
}

static void multiply_signs(const struct kv_rotation *rotation, float *x)
{
    for (uint32_t d = 0; d < rotation->dim; d++)
        x[d] *= rotation->signs[d];
}

void kv_rotation_apply(const struct kv_rotation *rotation, float *x)
{
    const uint32_t dim = rotation->dim;
    if (rotation->signs) {
        multiply_signs(rotation, x);
        transform(x, dim);
        return;
    }
    float out[LIMIT_HEAD_DIM];
    for (uint32_t r = 0; r < dim; r++) {
        out[r] = 0.0f;
        for (uint32_t d = 0; d < dim; d++)
            out[r] += rotation->matrix[(size_t)r * dim + d] * x[d];
    }
    for (uint32_t d = 0; d < dim; d++)
        x[d] = out[d];
}

void kv_rotation_invert(const struct kv_rotation *rotation, float *x)
{
    const uint32_t dim = rotation->dim;
    if (rotation->signs) {
        transform(x, dim);
        multiply_signs(rotation, x);
        return;
    }
    float out[LIMIT_HEAD_DIM] = {0};
    for (uint32_t r = 0; r < dim; r++) {
        for (uint32_t d = 0; d < dim; d++)
            out[d] += rotation->matrix[(size_t)r * dim + d] * x[r];
    }
    for (uint32_t d = 0; d < dim; d++)
        x[d] = out[d];
}
