/*
 * Conversions of half precision and of E4M3, bit by bit (contract in ggml_half.h).
 */
#include "proto/ggml_half.h"

#include <math.h>
#include <string.h>

uint16_t ggml_load_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

float ggml_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 31;
    uint32_t mantissa = half & 1023;
    uint32_t bits;
    float value;
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24 is exact */
        value = (float)mantissa * 0x1p-24f;
        return sign ? -value : value;
    }
    if (exponent == 31)
        bits = sign | 0x7f800000 | mantissa << 13;
    else
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t ggml_f32_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude <
        0x38800000) { /* below 2^-14: a number of 2^-24 steps, rounded to even by the FPU */
        float scaled;
        memcpy(&scaled, &magnitude, sizeof scaled);
        return (uint16_t)(sign | (uint16_t)lrintf(scaled * 0x1p24f));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (uint16_t)((rounded >> 13) - (112u << 10)));
}

bool ggml_half_holds(float value)
{
    return value == ggml_f16_to_f32(ggml_f32_to_f16(value)) && isfinite(value);
}

float ggml_e4m3_to_f32(uint8_t byte)
{
    uint32_t exponent = byte >> 3 & 15, mantissa = byte & 7;
    float value;
    if ((byte & 0x7f) == 0x7f)
        value = NAN;
    else if (exponent == 0)
        value = ldexpf((float)mantissa, -9);
    else
        value = ldexpf((float)(8 + mantissa), (int)exponent - 10);
    return byte & 0x80 ? -value : value;
}
