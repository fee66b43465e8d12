/*
 * A fixed chunk size is a guess about the machine: 512 rows take a small model a blink and a large
 * one on a few cores half a minute, during which streams stand still, cancels wait and the worker
 * shows no heartbeat. So the size of prompt chunks follows the time that rows have taken, as a
 * moving average over about four steps.
 *
 * Before anything is measured a chunk is small. Refuses to go below a block of rows: smaller chunks
 * would read the weights too often to gain anything.
 */
#include "worker/schedule/step_pace.h"

#include "worker/cache/kv_layout.h"

#define MIXED_STEP_US   100000.0 /* a stream's pause that readers hardly notice */
#define LONE_STEP_US    500000.0 /* how late a cancel or a heartbeat may be */
#define UNMEASURED_ROWS 64u
#define ROWS_TO_LEARN   16u  /* fewer prompt rows measure the weights' bandwidth, not the rows */
#define WEIGHT_OF_NEW   0.25 /* of a new measurement in the average */

void step_pace_note(struct step_pace *pace, uint32_t prompt_rows, uint32_t decode_rows,
                    uint64_t step_time_us)
{
    if (prompt_rows < ROWS_TO_LEARN)
        return;
    double row_us = (double)step_time_us / ((double)prompt_rows + (double)decode_rows);
    if (pace->row_us > 0.0)
        row_us = pace->row_us + WEIGHT_OF_NEW * (row_us - pace->row_us);
    pace->row_us = row_us;
}

static uint32_t rows_within(const struct step_pace *pace, double step_us, uint32_t most)
{
    double rows = pace->row_us > 0.0 ? step_us / pace->row_us : UNMEASURED_ROWS;
    if (rows < KV_BLOCK_TOKENS)
        rows = KV_BLOCK_TOKENS;
    return rows < (double)most ? (uint32_t)rows : most;
}

uint32_t step_pace_mixed_rows(const struct step_pace *pace, uint32_t most)
{
    return rows_within(pace, MIXED_STEP_US, most);
}

uint32_t step_pace_lone_rows(const struct step_pace *pace, uint32_t most)
{
    return rows_within(pace, LONE_STEP_US, most);
}
