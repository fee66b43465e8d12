/*
 * Code books of GGUF's i-quants (iquant_grids.c says how a word holds an entry).
 */
#ifndef SHOAL_WORKER_PLAN_IQUANT_GRIDS_H
#define SHOAL_WORKER_PLAN_IQUANT_GRIDS_H

#include <stdint.h>

extern const uint16_t iq1_s_grid[2048]; /* of IQ1_M, too */
extern const uint16_t iq2_xxs_grid[256];
extern const uint16_t iq2_xs_grid[512];
extern const uint16_t iq2_s_grid[1024];
extern const uint16_t iq3_xxs_grid[256];
extern const uint16_t iq3_s_grid[512];

#endif
