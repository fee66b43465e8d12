#include "tests/support/drawn_image.h"

#include <string.h>

#define FNV_START 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

void drawn_image_fill(uint8_t *rgb, uint32_t width, uint32_t height, uint32_t seed)
{
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            for (uint32_t c = 0; c < 3; c++) {
                uint32_t ramp = x * 3 + y * 5 + c * 40 + seed * 17;
                uint32_t noise = ((x * x * 3 + y * y * 5 + x * y * 7 + c * 85 + seed * 101) >> 4) ^
                                 ((x >> 3) * 37 + (y >> 3) * 91);
                *rgb++ = (uint8_t)((((x >> 4) ^ (y >> 4) ^ c) & 1) == 1 ? ramp : noise);
            }
        }
    }
}

uint64_t drawn_image_text_hash(const char *text, size_t count)
{
    uint64_t hash = FNV_START;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uint8_t)text[i]) * FNV_PRIME;
    return hash;
}

uint64_t drawn_image_hash(const uint8_t *bytes, size_t count)
{
    uint64_t hash = FNV_START;
    for (size_t at = 0; at < count; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, count - at < 8 ? count - at : 8);
        hash = (hash ^ word) * FNV_PRIME;
    }
    return hash;
}
