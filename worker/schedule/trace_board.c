#include "worker/schedule/trace_board.h"

void trace_board_show_cells(struct trace_board *board, const struct kv_pools *pools)
{
    uint32_t looks = atomic_load_explicit(&board->trace->looks, memory_order_relaxed);
    if (looks == board->looks)
        return;
    board->looks = looks;
    uint64_t total = kv_pools_total(pools);
    uint32_t cells = total < STEP_TRACE_CELLS ? (uint32_t)total : STEP_TRACE_CELLS;
    for (uint32_t i = 0; i < cells; i++) {
        uint64_t first = total * i / cells;
        uint32_t blocks = (uint32_t)(total * (i + 1) / cells - first);
        struct kv_pools_part part = kv_pools_count(pools, first, blocks);
        atomic_store_explicit(&board->trace->cells[i],
                              step_trace_cell(blocks, part.used, part.cached),
                              memory_order_relaxed);
    }
    atomic_store_explicit(&board->trace->cell_count, cells, memory_order_relaxed);
}
