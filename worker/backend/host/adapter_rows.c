/*
 * Rows are sorted once per step, by counting.
 */
#include "worker/backend/host/adapter_rows.h"

#include <stdlib.h>

#include "proto/limits.h"
#include "proto/must.h"

void adapter_rows_init(struct adapter_rows *rows, uint32_t max_rows, uint32_t tile_rows)
{
    *rows = (struct adapter_rows){.order = must_alloc(max_rows, sizeof *rows->order),
                                  .tiles = must_alloc(max_rows, sizeof *rows->tiles),
                                  .tile_rows = tile_rows};
}

void adapter_rows_fini(struct adapter_rows *rows)
{
    free(rows->order);
    free(rows->tiles);
}

/* Divides the order into tiles: adapter a has the places from first[a - 1] up to first[a]. */
static void list_tiles(struct adapter_rows *rows, const uint32_t first[LIMIT_ADAPTERS + 1])
{
    for (uint32_t slot = 0; slot < LIMIT_ADAPTERS; slot++) {
        for (uint32_t at = first[slot]; at < first[slot + 1]; at += rows->tile_rows) {
            uint32_t left = first[slot + 1] - at;
            rows->tiles[rows->tile_count++] =
                (struct adapter_tile){.adapter = slot,
                                      .first = at,
                                      .count = left < rows->tile_rows ? left : rows->tile_rows};
        }
    }
}

void adapter_rows_sort(struct adapter_rows *rows, const struct step_batch *batch, bool logits)
{
    uint32_t first[LIMIT_ADAPTERS + 1] = {0};
    rows->tile_count = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        uint32_t logit = 0;
        for (uint32_t s = 0; s < batch->sequence_count; s++) {
            const struct step_sequence *sequence = &batch->sequences[s];
            uint32_t begin = sequence->first_row, end = begin + sequence->row_count;
            if (logits) {
                begin = logit;
                while (logit < batch->logit_row_count && batch->logit_rows[logit] < end)
                    logit++;
                end = logit;
            }
            must(sequence->adapter <= LIMIT_ADAPTERS);
            if (sequence->adapter == 0)
                continue;
            if (pass == 0)
                first[sequence->adapter] += end - begin;
            for (uint32_t row = begin; pass == 1 && row < end; row++)
                rows->order[first[sequence->adapter - 1]++] = row;
        }
        if (pass == 1)
            return;
        for (uint32_t slot = 0; slot < LIMIT_ADAPTERS; slot++)
            first[slot + 1] += first[slot];
        if (first[LIMIT_ADAPTERS] == 0)
            return;
        must(rows->order);
        list_tiles(rows, first);
    }
}

uint32_t adapter_rows_tiles_most(uint32_t rows, uint32_t tile_rows)
{
    uint32_t most = LIMIT_ADAPTERS + rows / tile_rows;
    return rows < most ? rows : most;
}
