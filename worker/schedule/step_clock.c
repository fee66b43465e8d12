/* One clock for steps and masks, so that their times can be compared. */
#include "worker/schedule/step_clock.h"

#include <time.h>

uint64_t step_clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}
