/*
 * Resizes an image with results equal to the reference programs' to the last bit.
 *
 * Both PIL and torch compute weights in double precision, round them to fixed point once for each
 * output column (row), convolve along rows into bytes, then along columns into bytes. All sums are
 * of integers, so their order does not change the result.
 *
 * One kernel does both passes: it adds up `taps` rows of bytes, each times one weight. Along
 * columns those rows are the image's. Along rows, a band of BAND_ROWS rows is first transposed, so
 * that a column of the band becomes a row of BAND_ROWS pixels; the kernel then works on 48
 * neighbouring bytes with the same weight, where a loop over the few taps of one pixel would use a
 * fraction of the vector width.
 *
 * The kernel is compiled twice, for any x86-64 and for AVX2, and chosen at each call.
 *
 * It handles three 8-bit channels only: no alpha, other depths, boxes or gamma.
 */
#include "frontend/image/image_resizer.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "proto/limits.h"
#include "proto/must.h"

#define BAND_ROWS    16u
#define BAND_BYTES   (BAND_ROWS * IMAGE_CHANNELS)
#define BAND_COLUMNS 64u
#define LANES        48u /* bytes that the kernel works on at once; divides BAND_BYTES */

#define PIL_BITS         22u /* 32 less 8 for the pixel and 2 for the sign and overshooting */
#define TORCH_BITS_MOST  22u
#define TORCH_WEIGHT_END (1 << 15)

/* --- weights ---------------------------------------------------------------------------------- */

/* Resampling of one axis: out[i] is a sum over taps[i] inputs from in[first[i]] on. */
struct axis_weights {
    uint32_t count; /* of outputs */
    uint32_t most_taps;
    unsigned bits;    /* of the weights' fraction */
    uint32_t *first;  /* [count] */
    uint32_t *taps;   /* [count] */
    int32_t *weights; /* [count, most_taps] */
    double *exact;    /* likewise, before they are rounded */
};

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

static double sinc(double x)
{
    return x == 0.0 ? 1.0 : sin(x * M_PI) / (x * M_PI);
}

static double lanczos(double x)
{
    return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

static const struct {
    double (*weight)(double x);
    double support; /* radius */
} filters[IMAGE_FILTERS] = {
    [IMAGE_FILTER_BILINEAR] = {bilinear, 1.0},
    [IMAGE_FILTER_BICUBIC] = {bicubic, 2.0},
    [IMAGE_FILTER_LANCZOS] = {lanczos, 3.0},
};

static void axis_weights_fini(struct axis_weights *axis)
{
    free(axis->first);
    free(axis->taps);
    free(axis->weights);
    free(axis->exact);
}

static bool axis_weights_alloc(struct axis_weights *axis)
{
    axis->first = malloc(axis->count * sizeof *axis->first);
    axis->taps = malloc(axis->count * sizeof *axis->taps);
    axis->weights = calloc((size_t)axis->count * axis->most_taps, sizeof *axis->weights);
    axis->exact = calloc((size_t)axis->count * axis->most_taps, sizeof *axis->exact);
    return axis->first && axis->taps && axis->weights && axis->exact;
}

static void axis_weights_compute(struct axis_weights *axis, uint32_t in, enum image_filter filter)
{
    double ratio = (double)in / axis->count;
    double stretch = ratio < 1.0 ? 1.0 : ratio;
    double support = filters[filter].support * stretch;
    double shrink = 1.0 / stretch;
    for (uint32_t i = 0; i < axis->count; i++) {
        double *exact = axis->exact + (size_t)i * axis->most_taps;
        double centre = (i + 0.5) * ratio;
        int32_t from = (int32_t)(centre - support + 0.5);
        int32_t to = (int32_t)(centre + support + 0.5);
        from = from < 0 ? 0 : from;
        to = to > (int32_t)in ? (int32_t)in : to;
        uint32_t taps = to > from ? (uint32_t)(to - from) : 0;
        taps = taps > axis->most_taps ? axis->most_taps : taps;
        double total = 0.0;
        for (uint32_t k = 0; k < taps; k++) {
            exact[k] = filters[filter].weight(((int32_t)k + from - centre + 0.5) * shrink);
            total += exact[k];
        }
        for (uint32_t k = 0; k < taps && total != 0.0; k++)
            exact[k] /= total;
        axis->first[i] = (uint32_t)from;
        axis->taps[i] = taps;
    }
}

/* torch keeps weights in 16 bits, with the largest fraction that the largest weight allows. */
static unsigned torch_bits(const struct axis_weights *axis)
{
    double most = 0.0;
    for (size_t i = 0; i < (size_t)axis->count * axis->most_taps; i++)
        most = axis->exact[i] > most ? axis->exact[i] : most;
    unsigned bits = 0;
    while (bits < TORCH_BITS_MOST &&
           (int)(0.5 + most * (double)(1 << (bits + 1))) < TORCH_WEIGHT_END)
        bits++;
    return bits;
}

static void axis_weights_round(struct axis_weights *axis, enum image_arithmetic arithmetic)
{
    axis->bits = arithmetic == IMAGE_ARITHMETIC_PIL ? PIL_BITS : torch_bits(axis);
    double one = (double)(1 << axis->bits);
    for (size_t i = 0; i < (size_t)axis->count * axis->most_taps; i++) {
        double value = axis->exact[i] * one;
        axis->weights[i] = (int32_t)(value < 0 ? value - 0.5 : value + 0.5);
    }
}

/* Call axis_weights_fini() afterwards, also on failure. */
static enum result axis_weights_init(struct axis_weights *axis, uint32_t in, uint32_t out,
                                     enum image_filter filter, enum image_arithmetic arithmetic,
                                     struct error_text *error)
{
    double stretch = in > out ? (double)in / out : 1.0;
    *axis = (struct axis_weights){
        .count = out, .most_taps = 2 * (uint32_t)ceil(filters[filter].support * stretch) + 1};
    if (!axis_weights_alloc(axis))
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for resizing an image");
    axis_weights_compute(axis, in, filter);
    axis_weights_round(axis, arithmetic);
    return RESULT_OK;
}

/* --- the kernel ------------------------------------------------------------------------------- */

/* out[j] = clip((half + sum over k of weights[k] * in[k * stride + j]) >> bits) for `count` j. */
struct convolution {
    const uint8_t *in;
    size_t stride;
    const int32_t *weights;
    uint32_t taps;
    unsigned bits;
    uint8_t *out;
    size_t count;
};

static inline uint8_t clip(int32_t sum, unsigned bits)
{
    int32_t value = sum >> bits;
    value = value < 0 ? 0 : value;
    return (uint8_t)(value > 255 ? 255 : value);
}

/* The bytes from `j` on: the rest of a row, or all of it without a vector kernel. */
static void convolve_from(const struct convolution *c, size_t j)
{
    for (; j < c->count; j++) {
        int32_t sum = (1 << c->bits) >> 1;
        for (uint32_t k = 0; k < c->taps; k++)
            sum += c->weights[k] * c->in[k * c->stride + j];
        c->out[j] = clip(sum, c->bits);
    }
}

/* Sums of LANES bytes at once, in an array that compilers can vectorize. */
static void convolve_plain(const struct convolution *c)
{
    size_t j = 0;
    for (; j + LANES <= c->count; j += LANES) {
        int32_t sums[LANES];
        for (unsigned l = 0; l < LANES; l++)
            sums[l] = (1 << c->bits) >> 1;
        const uint8_t *in = c->in + j;
        for (uint32_t k = 0; k < c->taps; k++, in += c->stride) {
            for (unsigned l = 0; l < LANES; l++)
                sums[l] += c->weights[k] * in[l];
        }
        for (unsigned l = 0; l < LANES; l++)
            c->out[j + l] = clip(sums[l], c->bits);
    }
    convolve_from(c, j);
}

#ifdef __x86_64__
/* The same with the sums in registers over all taps, which compilers do not find. */
__attribute__((target("avx2"))) static void convolve_avx2(const struct convolution *c)
{
    __m128i bits = _mm_cvtsi32_si128((int)c->bits);
    size_t j = 0;
    for (; j + LANES <= c->count; j += LANES) {
        __m256i sums[LANES / 8];
        for (unsigned v = 0; v < LANES / 8; v++)
            sums[v] = _mm256_set1_epi32((1 << c->bits) >> 1);
        const uint8_t *in = c->in + j;
        for (uint32_t k = 0; k < c->taps; k++, in += c->stride) {
            __m256i weight = _mm256_set1_epi32(c->weights[k]);
            for (unsigned v = 0; v < LANES / 8; v++) {
                __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(in + 8 * v));
                sums[v] = _mm256_add_epi32(sums[v],
                                           _mm256_mullo_epi32(weight, _mm256_cvtepu8_epi32(bytes)));
            }
        }
        for (unsigned v = 0; v < LANES / 8; v++) {
            __m256i value = _mm256_sra_epi32(sums[v], bits);
            __m128i words =
                _mm_packs_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
            _mm_storel_epi64((__m128i *)(void *)(c->out + j + 8 * v),
                             _mm_packus_epi16(words, words));
        }
    }
    convolve_from(c, j);
}
#endif

typedef void (*convolve_function)(const struct convolution *c);

static convolve_function choose_kernel(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return convolve_avx2;
#endif
    return convolve_plain;
}

/* --- the passes ------------------------------------------------------------------------------- */

/* `band` is [width][BAND_ROWS] pixels of `rows` rows from `row` on; missing rows are left unset. A
 * few columns at a time, so that the written bytes stay in the L1 cache. */
static void lay_band(const struct image_pixels *source, uint32_t row, uint32_t rows, uint8_t *band)
{
    size_t row_bytes = image_pixels_bytes(source->width, 1);
    for (uint32_t from = 0; from < source->width; from += BAND_COLUMNS) {
        uint32_t left = source->width - from;
        uint32_t columns = left < BAND_COLUMNS ? left : BAND_COLUMNS;
        for (uint32_t r = 0; r < rows; r++) {
            const uint8_t *in = source->rgb + (row + r) * row_bytes + from * IMAGE_CHANNELS;
            uint8_t *out = band + from * BAND_BYTES + r * IMAGE_CHANNELS;
            for (uint32_t x = 0; x < columns; x++, in += IMAGE_CHANNELS, out += BAND_BYTES)
                memcpy(out, in, IMAGE_CHANNELS);
        }
    }
}

/* Back: `out` is [rows, width]. */
static void stand_band(const uint8_t *band, uint32_t width, uint32_t rows, uint8_t *out)
{
    size_t row_bytes = image_pixels_bytes(width, 1);
    for (uint32_t from = 0; from < width; from += BAND_COLUMNS) {
        uint32_t columns = width - from < BAND_COLUMNS ? width - from : BAND_COLUMNS;
        for (uint32_t r = 0; r < rows; r++) {
            const uint8_t *in = band + from * BAND_BYTES + r * IMAGE_CHANNELS;
            uint8_t *to = out + r * row_bytes + from * IMAGE_CHANNELS;
            for (uint32_t x = 0; x < columns; x++, in += BAND_BYTES, to += IMAGE_CHANNELS)
                memcpy(to, in, IMAGE_CHANNELS);
        }
    }
}

/* Along rows: [height, source->width] to out [height, axis->count]. */
static enum result resize_rows(const struct image_pixels *source, const struct axis_weights *axis,
                               uint8_t *out, struct error_text *error)
{
    convolve_function kernel = choose_kernel();
    uint8_t *lying = calloc(source->width, BAND_BYTES);
    uint8_t *resized = calloc(axis->count, BAND_BYTES);
    enum result result = RESULT_OK;
    if (!lying || !resized)
        result = error_set(error, RESULT_OUT_OF_MEMORY, "no memory for resizing an image");
    for (uint32_t row = 0; result == RESULT_OK && row < source->height; row += BAND_ROWS) {
        uint32_t rows = source->height - row < BAND_ROWS ? source->height - row : BAND_ROWS;
        lay_band(source, row, rows, lying);
        for (uint32_t i = 0; i < axis->count; i++) {
            struct convolution c = {.in = lying + (size_t)axis->first[i] * BAND_BYTES,
                                    .stride = BAND_BYTES,
                                    .weights = axis->weights + (size_t)i * axis->most_taps,
                                    .taps = axis->taps[i],
                                    .bits = axis->bits,
                                    .out = resized + (size_t)i * BAND_BYTES,
                                    .count = BAND_BYTES};
            kernel(&c);
        }
        stand_band(resized, axis->count, rows, out + image_pixels_bytes(axis->count, row));
    }
    free(lying);
    free(resized);
    return result;
}

/* Along columns: in [height, width] to out [axis->count, width]. */
static void resize_columns(const uint8_t *in, uint32_t width, const struct axis_weights *axis,
                           uint8_t *out)
{
    convolve_function kernel = choose_kernel();
    size_t row_bytes = image_pixels_bytes(width, 1);
    for (uint32_t i = 0; i < axis->count; i++) {
        struct convolution c = {.in = in + axis->first[i] * row_bytes,
                                .stride = row_bytes,
                                .weights = axis->weights + (size_t)i * axis->most_taps,
                                .taps = axis->taps[i],
                                .bits = axis->bits,
                                .out = out + i * row_bytes,
                                .count = row_bytes};
        kernel(&c);
    }
}

/* Both passes; an axis that keeps its size is skipped. */
static enum result resize_axes(const struct image_pixels *source, const struct axis_weights *across,
                               const struct axis_weights *down, uint8_t *out,
                               struct error_text *error)
{
    if (!down->count)
        return resize_rows(source, across, out, error);
    if (!across->count) {
        resize_columns(source->rgb, source->width, down, out);
        return RESULT_OK;
    }
    struct image_pixels between;
    enum result result = image_pixels_init(&between, across->count, source->height, error);
    if (result == RESULT_OK)
        result = resize_rows(source, across, between.rgb, error);
    if (result == RESULT_OK)
        resize_columns(between.rgb, between.width, down, out);
    image_pixels_fini(&between);
    return result;
}

enum result image_resizer_run(const struct image_pixels *source, uint32_t width, uint32_t height,
                              enum image_filter filter, enum image_arithmetic arithmetic,
                              uint8_t *out, struct error_text *error)
{
    must(width >= 1 && width <= LIMIT_SOURCE_IMAGE_SIDE && height >= 1 &&
         height <= LIMIT_SOURCE_IMAGE_SIDE);
    struct axis_weights across = {0}, down = {0};
    enum result result = RESULT_OK;
    if (width == source->width && height == source->height) {
        memcpy(out, source->rgb, image_pixels_bytes(width, height));
        return RESULT_OK;
    }
    if ((uint64_t)width * source->height > LIMIT_SOURCE_IMAGE_PIXELS)
        return error_set(error, RESULT_TOO_LARGE,
                         "an image of %u x %u pixels cannot become %u wide", source->width,
                         source->height, width);
    if (width != source->width)
        result = axis_weights_init(&across, source->width, width, filter, arithmetic, error);
    if (result == RESULT_OK && height != source->height)
        result = axis_weights_init(&down, source->height, height, filter, arithmetic, error);
    if (result == RESULT_OK)
        result = resize_axes(source, &across, &down, out, error);
    axis_weights_fini(&across);
    axis_weights_fini(&down);
    return result;
}
