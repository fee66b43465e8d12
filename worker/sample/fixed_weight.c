/*
 * Conversions for fixed-point sums of weights. Each is exact except for the rounding that its name
 * states, so that shaders can do the same with 64-bit integers. Weights are never negative,
 * infinite or NaN; must() checks it.
 */
#include "worker/sample/fixed_weight.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "proto/must.h"

__extension__ typedef unsigned __int128 wide;

#define MANTISSA_BITS 23
#define EXPONENT_UNIT 150 /* a float is mantissa * 2^(exponent - 150) */
#define DISTANCE_BITS 24
#define DISTANCE_MAX  88.0f /* tokens further away have weight 0 */
#define MIN_SHIFT     (-24) /* shifts out all 24 bits of a mantissa */

struct binary {
    uint64_t mantissa;
    int exponent; /* value = mantissa * 2^exponent */
};

static struct binary binary_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    must((bits & 0x80000000u) == 0 && isfinite(value));
    uint32_t exponent = bits >> MANTISSA_BITS;
    uint32_t fraction = bits & 0x007FFFFFu;
    if (exponent == 0)
        return (struct binary){fraction, 1 - EXPONENT_UNIT};
    return (struct binary){fraction | 0x00800000u, (int)exponent - EXPONENT_UNIT};
}

uint64_t fixed_weight_of(float value)
{
    struct binary binary = binary_of(value);
    int shift = binary.exponent + FIXED_WEIGHT_BITS;
    if (shift < MIN_SHIFT)
        return 0;
    return shift >= 0 ? binary.mantissa << shift : binary.mantissa >> -shift;
}

/* sum * factor rounded down; *rest: whether the product was not an integer. */
static uint64_t scale(uint64_t sum, float factor, uint64_t *rest)
{
    struct binary binary = binary_of(factor);
    wide product = (wide)sum * binary.mantissa;
    int shift = -binary.exponent;
    must(sum >> 63 == 0 && shift >= MANTISSA_BITS);
    if (shift >= 127) {
        *rest = product != 0;
        return 0;
    }
    *rest = (product & (((wide)1 << shift) - 1)) != 0;
    return (uint64_t)(product >> shift);
}

uint64_t fixed_weight_scale(uint64_t sum, float factor)
{
    uint64_t rest;
    return scale(sum, factor, &rest);
}

uint64_t fixed_weight_scale_up(uint64_t sum, float factor)
{
    uint64_t rest;
    uint64_t down = scale(sum, factor, &rest);
    return down + rest;
}

double fixed_weight_value(uint64_t sum)
{
    return ldexp((double)sum, -FIXED_WEIGHT_BITS);
}

uint32_t fixed_weight_distance(float log_weight)
{
    float distance = fminf(0.0f - log_weight, DISTANCE_MAX);
    return (uint32_t)(distance * 0x1p24f);
}

uint32_t fixed_weight_mean(uint64_t entropy, uint64_t weight)
{
    must(weight > 0);
    wide mean = ((wide)entropy << DISTANCE_BITS) / weight;
    return mean < UINT32_MAX / 2 ? (uint32_t)mean : UINT32_MAX / 2;
}

/* Squaring a number in [1, 2) doubles its logarithm: whether the square reaches 2 is the next bit. */
uint32_t fixed_weight_log2(uint64_t value)
{
    must(value > 0);
    uint32_t bits = 63u - (uint32_t)__builtin_clzll(value);
    uint64_t number = value << (63u - bits); /* in units of 2^-63 */
    for (int i = 0; i < DISTANCE_BITS; i++) {
        wide square = (wide)number * number;
        bool reaches_two = square >> 127 != 0;
        number = (uint64_t)(square >> (reaches_two ? 64 : 63));
        bits = bits << 1 | (reaches_two ? 1u : 0u);
    }
    return bits;
}
