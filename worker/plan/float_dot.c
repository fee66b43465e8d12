/*
 * Sums in lanes, so that a compiler may take several numbers at a time without changing the order.
 */
#include "worker/plan/float_dot.h"

#define LANES 16u

float float_dot(const float *a, const float *b, uint32_t count)
{
    float parts[LANES] = {0}, sum = 0.0f;
    uint32_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (uint32_t lane = 0; lane < LANES; lane++)
            parts[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        sum += a[i] * b[i];
    for (uint32_t lane = 0; lane < LANES; lane++)
        sum += parts[lane];
    return sum;
}
