/*
 * The body of amx_lanes.h in plain C. Tiles are as strict as the hardware: each use needs a configuration, a product
 * needs shapes that fit, and a load fills the rest of a register with zeros.
 */
#ifndef SHOAL_TESTS_SUPPORT_AMX_EMULATION_H
#define SHOAL_TESTS_SUPPORT_AMX_EMULATION_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "proto/ggml_half.h"
#include "proto/must.h"
#include "worker/backend/cpu/kernels/amx_lanes.h"

typedef struct {
    float lane[16];
} floats16;
typedef struct {
    uint32_t word[16];
} bytes64;

static inline floats16 floats_all(float value)
{
    floats16 out;
    for (uint32_t i = 0; i < 16; i++)
        out.lane[i] = value;
    return out;
}
static inline floats16 floats_zero(void)
{
    return floats_all(0.0f);
}
static inline floats16 floats_load(const void *from)
{
    floats16 out;
    memcpy(&out, from, sizeof out);
    return out;
}
static inline void floats_store(float *to, floats16 value)
{
    memcpy(to, &value, sizeof value);
}
static inline floats16 floats_add(floats16 a, floats16 b)
{
    for (uint32_t i = 0; i < 16; i++)
        a.lane[i] += b.lane[i];
    return a;
}
static inline floats16 floats_mul(floats16 a, floats16 b)
{
    for (uint32_t i = 0; i < 16; i++)
        a.lane[i] *= b.lane[i];
    return a;
}
static inline floats16 floats_fma(floats16 a, floats16 b, floats16 c)
{
    for (uint32_t i = 0; i < 16; i++)
        c.lane[i] = fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return c;
}
static inline floats16 floats_fnma(floats16 a, floats16 b, floats16 c)
{
    for (uint32_t i = 0; i < 16; i++)
        c.lane[i] = fmaf(-a.lane[i], b.lane[i], c.lane[i]);
    return c;
}
static inline floats16 floats_of_ints(const int32_t *from)
{
    floats16 out;
    for (uint32_t i = 0; i < 16; i++)
        out.lane[i] = (float)from[i];
    return out;
}
static inline floats16 floats_of_halves(const uint8_t *from)
{
    floats16 out;
    for (uint32_t i = 0; i < 16; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        out.lane[i] = ggml_f16_to_f32(half);
    }
    return out;
}
static inline floats16 floats_of_u8(const uint8_t *from)
{
    floats16 out;
    for (uint32_t i = 0; i < 16; i++)
        out.lane[i] = (float)from[i];
    return out;
}
static inline floats16 floats_of_s8(const uint8_t *from)
{
    floats16 out;
    for (uint32_t i = 0; i < 16; i++)
        out.lane[i] = (float)(int8_t)from[i];
    return out;
}

static inline bytes64 bytes_load(const void *from)
{
    bytes64 out;
    memcpy(&out, from, sizeof out);
    return out;
}
static inline bytes64 bytes_zero(void)
{
    return (bytes64){{0}};
}
static inline void bytes_store(void *to, bytes64 value)
{
    memcpy(to, &value, sizeof value);
}
static inline bytes64 bytes_or(bytes64 a, bytes64 b)
{
    for (uint32_t i = 0; i < 16; i++)
        a.word[i] |= b.word[i];
    return a;
}
static inline bytes64 bytes_and(bytes64 a, uint8_t mask)
{
    for (uint32_t i = 0; i < 16; i++)
        a.word[i] &= mask * 0x01010101u;
    return a;
}
static inline bytes64 bytes_left(bytes64 a, uint32_t bits)
{
    for (uint32_t i = 0; i < 16; i++)
        a.word[i] <<= bits;
    return a;
}
static inline bytes64 bytes_right(bytes64 a, uint32_t bits)
{
    for (uint32_t i = 0; i < 16; i++)
        a.word[i] >>= bits;
    return a;
}
static inline bytes64 bytes_minus(bytes64 a, uint8_t b)
{
    uint8_t bytes[64];
    memcpy(bytes, &a, sizeof bytes);
    for (uint32_t i = 0; i < 64; i++)
        bytes[i] = (uint8_t)(bytes[i] - b);
    return bytes_load(bytes);
}
static inline bytes64 bytes_look_up(const int8_t table[16], bytes64 a)
{
    uint8_t bytes[64];
    memcpy(bytes, &a, sizeof bytes);
    for (uint32_t i = 0; i < 64; i++) {
        must(bytes[i] < 16);
        bytes[i] = (uint8_t)table[bytes[i]];
    }
    return bytes_load(bytes);
}
static inline void bytes_prefetch(const uint8_t *at)
{
    (void)at;
}

static struct {
    bool configured;
    struct tile_config config;
    uint8_t rows[TILE_COUNT][16][64];
} emulated_tiles;

static inline void tiles_configure(const struct tile_config *config)
{
    must(config->palette == 1 && config->start_row == 0);
    for (uint32_t i = 0; i < TILE_COUNT; i++)
        must(config->row_bytes[i] <= 64 && config->rows[i] <= 16);
    memset(&emulated_tiles, 0, sizeof emulated_tiles);
    emulated_tiles.config = *config;
    emulated_tiles.configured = true;
}
static inline void tiles_release(void)
{
    must(emulated_tiles.configured);
    memset(&emulated_tiles, 0, sizeof emulated_tiles);
}
static inline void tile_zero(uint32_t tile)
{
    must(emulated_tiles.configured);
    memset(emulated_tiles.rows[tile], 0, sizeof emulated_tiles.rows[tile]);
}
static inline void tile_load(uint32_t tile, const void *from, size_t stride)
{
    tile_zero(tile);
    for (uint32_t r = 0; r < emulated_tiles.config.rows[tile]; r++)
        memcpy(emulated_tiles.rows[tile][r], (const uint8_t *)from + r * stride,
               emulated_tiles.config.row_bytes[tile]);
}
static inline void tile_store(uint32_t tile, void *to, size_t stride)
{
    must(emulated_tiles.configured);
    for (uint32_t r = 0; r < emulated_tiles.config.rows[tile]; r++)
        memcpy((uint8_t *)to + r * stride, emulated_tiles.rows[tile][r],
               emulated_tiles.config.row_bytes[tile]);
}

/* TDPBSSD, as the manual's pseudocode. */
static inline void tile_dot(uint32_t sums, uint32_t inputs, uint32_t weights)
{
    const struct tile_config *config = &emulated_tiles.config;
    must(emulated_tiles.configured && sums != inputs && inputs != weights && sums != weights);
    must(config->rows[sums] == config->rows[inputs]);
    must(config->row_bytes[sums] == config->row_bytes[weights]);
    must(config->row_bytes[inputs] == 4 * config->rows[weights]);
    for (uint32_t m = 0; m < config->rows[sums]; m++)
        for (uint32_t n = 0; n < config->row_bytes[sums] / 4u; n++) {
            int32_t sum;
            memcpy(&sum, &emulated_tiles.rows[sums][m][4 * n], sizeof sum);
            for (uint32_t k = 0; k < config->row_bytes[inputs]; k++)
                sum += (int8_t)emulated_tiles.rows[inputs][m][k] *
                       (int8_t)emulated_tiles.rows[weights][k / 4][4 * n + k % 4];
            memcpy(&emulated_tiles.rows[sums][m][4 * n], &sum, sizeof sum);
        }
}

#define TILE_ZERO(tile)                 tile_zero(tile)
#define TILE_LOAD(tile, from, stride)   tile_load(tile, from, stride)
#define TILE_DOT(sums, inputs, weights) tile_dot(sums, inputs, weights)
#define TILE_STORE(tile, to, stride)    tile_store(tile, to, stride)

#endif
