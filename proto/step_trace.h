/*
 * What a worker shows of its newest steps and of its KV cache, for the dashboard. All accesses are
 * relaxed atomics; a broken worker can show anything, so nothing is decided by it.
 *
 * Byte map of struct step_trace, 4096 bytes. Written by the worker, except `looks`.
 *
 *   offset  size  field       rule
 *   0       4     looks       written by the frontend: grows with each look at the cells; the worker
 *                             writes them once after each change
 *   4       4     cell_count  cells in use; 0: none written yet
 *   8       8     step_count  steps written since the worker started
 *   16      48    unused      zero
 *   64      2048  steps       step n, counted from 0, is in place n % 256; four numbers of 16 bits:
 *                             decode rows, prompt rows, image patches, time in units of 20 us
 *   2112    1024  cells       equal shares of all KV blocks, in their order: bits 0 to 3 the part
 *                             held by sequences, bits 4 to 7 the part that only the prefix cache
 *                             has, in fifteenths rounded up
 *   3136    960   reserved    zero
 */
#ifndef SHOAL_PROTO_STEP_TRACE_H
#define SHOAL_PROTO_STEP_TRACE_H

#include <stdatomic.h>
#include <stdint.h>

#define STEP_TRACE_STEPS   256u
#define STEP_TRACE_CELLS   1024u
#define STEP_TRACE_TIME_US 20u

struct step_trace {
    _Atomic uint32_t looks;
    _Atomic uint32_t cell_count;
    _Atomic uint64_t step_count;
    uint8_t unused[48];
    _Atomic uint64_t steps[STEP_TRACE_STEPS];
    _Atomic uint8_t cells[STEP_TRACE_CELLS];
    uint8_t reserved[960];
};
_Static_assert(sizeof(struct step_trace) == 4096, "byte map of the segment");

/* Larger numbers than the trace can hold count as its largest ones. */
struct traced_step {
    uint32_t decode_rows;
    uint32_t prompt_rows;
    uint32_t patch_rows;
    uint64_t time_us;
};

/* The byte of a cell of `blocks` blocks, blocks > 0, held + cached <= blocks. */
uint8_t step_trace_cell(uint32_t blocks, uint32_t held, uint32_t cached);

/* The writer's side. */
void step_trace_add(struct step_trace *trace, const struct traced_step *step);

/* The reader's side. */
struct step_trace_copy {
    uint64_t step_count; /* the newest of `steps` is step number step_count - 1 */
    uint32_t known;      /* entries of `steps`, oldest first */
    struct traced_step steps[STEP_TRACE_STEPS];
    uint32_t cell_count;
    uint8_t cells[STEP_TRACE_CELLS];
};
/* A step that the worker writes meanwhile may be in the place of the oldest one. */
void step_trace_read(const struct step_trace *trace, struct step_trace_copy *copy);

#endif
