/*
 * Writes the map of the KV cache into struct step_trace, once for each look of the frontend.
 */
#ifndef SHOAL_WORKER_SCHEDULE_TRACE_BOARD_H
#define SHOAL_WORKER_SCHEDULE_TRACE_BOARD_H

#include "proto/step_trace.h"
#include "worker/cache/kv_pools.h"

struct trace_board {
    struct step_trace *trace;
    uint32_t looks; /* answered */
};

/* Nothing unless there was a look since the last call; then O(blocks). */
void trace_board_show_cells(struct trace_board *board, const struct kv_pools *pools);

#endif
