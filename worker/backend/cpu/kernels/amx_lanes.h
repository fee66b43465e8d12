/*
 * What the AMX kernels are written in: sixteen floats, sixty-four bytes, and tiles. Two bodies: the
 * instructions (AVX-512 and AMX); with AMX_EMULATED plain C, of tests/support/amx_emulation.h, in which
 * the same kernels run on any CPU.
 *
 * Tiles are numbered: four of sums, two of activations, two of weights. The number must be a constant.
 *
 *   tile_sums<n>     16 rows x 16 outputs, s32
 *   tile_inputs<n>   16 rows x `depth` columns, s8
 *   tile_weights<n>  depth / 4 quads x 16 outputs x 4 columns, s8
 *
 * Source of the operations: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1,
 * chapter 18 (AMX) and volume 2, TDPBSSD.
 */
#ifndef SHOAL_WORKER_BACKEND_CPU_KERNELS_AMX_LANES_H
#define SHOAL_WORKER_BACKEND_CPU_KERNELS_AMX_LANES_H

#include <stdint.h>
#include <string.h>

#include "worker/backend/cpu/kernels/linear_terms.h"

#define AMX_ROWS 16u /* of a tile */

enum { TILE_SUMS = 0, TILE_INPUTS = 4, TILE_WEIGHTS = 6, TILE_COUNT = 8 };

/* Palette 1, as the instruction reads it. */
struct tile_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t zeros[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "LDTILECFG reads 64 bytes");

/* Of products of `depth` columns, 16 or 32. */
INLINE struct tile_config tile_config_of(uint32_t depth)
{
    struct tile_config config = {.palette = 1};
    for (uint32_t i = 0; i < TILE_COUNT; i++) {
        config.row_bytes[i] = i >= TILE_INPUTS && i < TILE_WEIGHTS ? (uint16_t)depth : 64;
        config.rows[i] = i >= TILE_WEIGHTS ? (uint8_t)(depth / 4) : AMX_ROWS;
    }
    return config;
}

#ifndef AMX_EMULATED

#include <immintrin.h>

typedef __m512 floats16;
typedef __m512i bytes64;

INLINE floats16 floats_zero(void)
{
    return _mm512_setzero_ps();
}
INLINE floats16 floats_all(float value)
{
    return _mm512_set1_ps(value);
}
INLINE floats16 floats_load(const void *from)
{
    return _mm512_loadu_ps(from);
}
INLINE void floats_store(float *to, floats16 value)
{
    _mm512_storeu_ps(to, value);
}
INLINE floats16 floats_add(floats16 a, floats16 b)
{
    return _mm512_add_ps(a, b);
}
INLINE floats16 floats_mul(floats16 a, floats16 b)
{
    return _mm512_mul_ps(a, b);
}
/* a * b + c, rounded once */
INLINE floats16 floats_fma(floats16 a, floats16 b, floats16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}
/* c - a * b */
INLINE floats16 floats_fnma(floats16 a, floats16 b, floats16 c)
{
    return _mm512_fnmadd_ps(a, b, c);
}
/* Of sixteen s32, sixteen halves, or sixteen bytes. */
INLINE floats16 floats_of_ints(const int32_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_loadu_si512((const void *)from));
}
INLINE floats16 floats_of_halves(const uint8_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
}
INLINE floats16 floats_of_u8(const uint8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)from)));
}
INLINE floats16 floats_of_s8(const uint8_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)from)));
}

INLINE bytes64 bytes_zero(void)
{
    return _mm512_setzero_si512();
}
INLINE bytes64 bytes_load(const void *from)
{
    return _mm512_loadu_si512(from);
}
INLINE void bytes_store(void *to, bytes64 value)
{
    _mm512_storeu_si512(to, value);
}
INLINE bytes64 bytes_or(bytes64 a, bytes64 b)
{
    return _mm512_or_si512(a, b);
}
INLINE bytes64 bytes_and(bytes64 a, uint8_t mask)
{
    return _mm512_and_si512(a, _mm512_set1_epi8((char)mask));
}
INLINE bytes64 bytes_minus(bytes64 a, uint8_t b)
{
    return _mm512_sub_epi8(a, _mm512_set1_epi8((char)b));
}
/* Shifts of the 32-bit numbers that four bytes make. */
INLINE bytes64 bytes_left(bytes64 a, uint32_t bits)
{
    return _mm512_slli_epi32(a, bits);
}
INLINE bytes64 bytes_right(bytes64 a, uint32_t bits)
{
    return _mm512_srli_epi32(a, bits);
}
/* table[a], of numbers below 16 */
INLINE bytes64 bytes_look_up(const int8_t table[16], bytes64 a)
{
    __m128i numbers = _mm_loadu_si128((const void *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(numbers), a);
}

INLINE void bytes_prefetch(const uint8_t *at)
{
    _mm_prefetch((const char *)at, _MM_HINT_T0);
}

/* gcc 12's intrinsics of tiles do not say that they read and write memory. */
#define TILE_FENCE() __asm__ volatile("" ::: "memory")

/* Until tiles_release() this thread may use tiles. */
INLINE void tiles_configure(const struct tile_config *config)
{
    TILE_FENCE();
    _tile_loadconfig(config);
}
INLINE void tiles_release(void)
{
    _tile_release();
}

#define TILE_ZERO(tile)               _tile_zero(tile)
#define TILE_LOAD(tile, from, stride) _tile_loadd(tile, from, stride)
/* sums += inputs x weights */
#define TILE_DOT(sums, inputs, weights) _tile_dpbssd(sums, inputs, weights)
#define TILE_STORE(tile, to, stride)                                                               \
    do {                                                                                           \
        _tile_stored(tile, to, stride);                                                            \
        TILE_FENCE();                                                                              \
    } while (0)

#endif /* AMX_EMULATED */

#endif
