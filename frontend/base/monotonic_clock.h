/*
 * Monotonic time for durations and deadlines.
 */
#ifndef SHOAL_FRONTEND_BASE_MONOTONIC_CLOCK_H
#define SHOAL_FRONTEND_BASE_MONOTONIC_CLOCK_H

#include <stdint.h>

int64_t monotonic_clock_ms(void);
int64_t monotonic_clock_us(void);

#endif
