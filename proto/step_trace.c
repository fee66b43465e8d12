#include "proto/step_trace.h"

#include "proto/must.h"

#define PART_MAX 15u /* of a cell */

uint8_t step_trace_cell(uint32_t blocks, uint32_t held, uint32_t cached)
{
    must(blocks > 0 && held <= blocks && cached <= blocks - held);
    uint64_t held_part = ((uint64_t)held * PART_MAX + blocks - 1) / blocks;
    uint64_t cached_part = ((uint64_t)cached * PART_MAX + blocks - 1) / blocks;
    return (uint8_t)(held_part | cached_part << 4);
}

static uint64_t field(uint64_t value, uint32_t place)
{
    return (value < UINT16_MAX ? value : UINT16_MAX) << 16 * place;
}

void step_trace_add(struct step_trace *trace, const struct traced_step *step)
{
    uint64_t count = atomic_load_explicit(&trace->step_count, memory_order_relaxed);
    uint64_t packed = field(step->decode_rows, 0) | field(step->prompt_rows, 1) |
                      field(step->patch_rows, 2) | field(step->time_us / STEP_TRACE_TIME_US, 3);
    atomic_store_explicit(&trace->steps[count % STEP_TRACE_STEPS], packed, memory_order_relaxed);
    atomic_store_explicit(&trace->step_count, count + 1, memory_order_relaxed);
}

void step_trace_read(const struct step_trace *trace, struct step_trace_copy *copy)
{
    *copy = (struct step_trace_copy){0};
    uint64_t count = atomic_load_explicit(&trace->step_count, memory_order_relaxed);
    copy->step_count = count;
    copy->known = count < STEP_TRACE_STEPS ? (uint32_t)count : STEP_TRACE_STEPS;
    for (uint32_t i = 0; i < copy->known; i++) {
        uint64_t place = (count - copy->known + i) % STEP_TRACE_STEPS;
        uint64_t packed = atomic_load_explicit(&trace->steps[place], memory_order_relaxed);
        copy->steps[i] = (struct traced_step){.decode_rows = packed & UINT16_MAX,
                                              .prompt_rows = packed >> 16 & UINT16_MAX,
                                              .patch_rows = packed >> 32 & UINT16_MAX,
                                              .time_us = (packed >> 48) * STEP_TRACE_TIME_US};
    }
    uint32_t cells = atomic_load_explicit(&trace->cell_count, memory_order_relaxed);
    copy->cell_count = cells < STEP_TRACE_CELLS ? cells : STEP_TRACE_CELLS;
    for (uint32_t i = 0; i < copy->cell_count; i++)
        copy->cells[i] = atomic_load_explicit(&trace->cells[i], memory_order_relaxed);
}
