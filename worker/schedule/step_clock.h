/* The clock that times steps and masks. */
#ifndef SHOAL_WORKER_SCHEDULE_STEP_CLOCK_H
#define SHOAL_WORKER_SCHEDULE_STEP_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in microseconds. */
uint64_t step_clock_us(void);

#endif
