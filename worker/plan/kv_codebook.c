/*
 * Lloyd's iteration over one density: levels become the means of their cells, cells end halfway
 * between levels, until nothing changes.
 *
 * The density is even, so only the positive half is computed: its first cell begins at 0, and the
 * negative levels mirror the positive ones. First moments have a closed form,
 *     integral of t (1 - t^2)^((d-3)/2) = -(1 - t^2)^((d-1)/2) / (d - 1),
 * and masses are sums over a fine grid. Iterations are cheap (a few levels each), so they continue
 * far beyond f32's precision; their number is bounded in case a density does not converge.
 */
#include "worker/plan/kv_codebook.h"

#include <math.h>
#include <stdlib.h>

#include "proto/must.h"

#define GRID          32768u /* cells of (0, 1) */
#define ROUNDS_MOST   100000u
#define SMALLEST_MOVE 1e-12
#define HALF_LEVELS   (KV_CODEBOOK_LEVELS_MAX / 2)

struct density {
    double *mass; /* [GRID + 1]: from 0 to each grid point */
    double dim;
};

static double density_at(double dim, double t)
{
    return pow(fmax(0.0, 1.0 - t * t), (dim - 3.0) / 2.0);
}

static void fill_mass(struct density *density)
{
    const double step = 1.0 / GRID;
    density->mass = must_alloc(GRID + 1, sizeof(double));
    for (uint32_t i = 0; i < GRID; i++) { /* Simpson's rule in each cell */
        double t = i * step;
        double middle = density_at(density->dim, t + step / 2);
        double ends = density_at(density->dim, t) + density_at(density->dim, t + step);
        density->mass[i + 1] = density->mass[i] + step / 6 * (ends + 4 * middle);
    }
}

static double mass_below(const struct density *density, double t)
{
    double place = t * GRID;
    uint32_t cell = (uint32_t)place < GRID - 1 ? (uint32_t)place : GRID - 1;
    double left = density->mass[cell];
    return left + (place - cell) * (density->mass[cell + 1] - left);
}

/* Of the cell [low, high). */
static double mean(const struct density *density, double low, double high)
{
    double power = (density->dim - 1.0) / 2.0;
    double moment = (pow(1.0 - low * low, power) - pow(fmax(0.0, 1.0 - high * high), power)) /
                    (density->dim - 1.0);
    double mass = mass_below(density, high) - mass_below(density, low);
    return mass > 0.0 ? moment / mass : (low + high) / 2;
}

/* One round; how far the level that moved most did. */
static double move_levels(const struct density *density, uint32_t count, double *levels)
{
    double most = 0.0;
    double low = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        double high = i + 1 < count ? (levels[i] + levels[i + 1]) / 2 : 1.0;
        double moved = mean(density, low, high);
        most = fmax(most, fabs(moved - levels[i]));
        levels[i] = moved;
        low = high;
    }
    return most;
}

void kv_codebook_init(struct kv_codebook *codebook, uint32_t dim, uint32_t bits)
{
    must(bits >= 1 && bits <= KV_CODEBOOK_BITS_MAX && dim > 3);
    struct density density = {.dim = dim};
    double levels[HALF_LEVELS];
    uint32_t count = 1u << (bits - 1);
    fill_mass(&density);
    for (uint32_t i = 0; i < count; i++) /* out to three deviations */
        levels[i] = (i + 0.5) / count * 3.0 / sqrt((double)dim);
    for (uint32_t round = 0; round < ROUNDS_MOST; round++)
        if (move_levels(&density, count, levels) < SMALLEST_MOVE)
            break;
    free(density.mass);
    *codebook = (struct kv_codebook){.bits = bits};
    for (uint32_t i = 0; i < count; i++) {
        codebook->levels[count + i] = (float)levels[i];
        codebook->levels[count - 1 - i] = -(float)levels[i];
    }
    for (uint32_t i = 0; i + 1 < 2 * count; i++)
        codebook->bounds[i] = (codebook->levels[i] + codebook->levels[i + 1]) / 2;
}
