/*
 * CLOCK_MONOTONIC as whole numbers. Wall time jumps (NTP, suspend, an operator) and would end
 * healthy requests; it is used only for times that a client sees (created, dates).
 */
#include "frontend/base/monotonic_clock.h"

#include <time.h>

#include "proto/must.h"

int64_t monotonic_clock_us(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t monotonic_clock_ms(void)
{
    return monotonic_clock_us() / 1000;
}
