/*
 * Rows are sorted once per step, by counting. A tile is short so that a few rows of one adapter are
 * still divided among threads, and long enough that A and B are read once for several rows.
 */
#include "worker/backend/cpu/program/cpu_adapters.h"

#include <stdlib.h>

#include "proto/must.h"

void cpu_adapters_init(struct cpu_adapters *adapters, const struct plan *plan, uint32_t max_rows,
                       uint32_t threads)
{
    *adapters = (struct cpu_adapters){.plan = plan, .max_rows = max_rows, .threads = threads};
}

void cpu_adapters_fini(struct cpu_adapters *adapters)
{
    for (uint32_t slot = 0; slot < LIMIT_ADAPTERS; slot++)
        cpu_adapter_destroy(adapters->slots[slot]);
    for (uint32_t t = 0; adapters->gathered && t < adapters->threads; t++)
        free(adapters->gathered[t]);
    free(adapters->gathered);
    free(adapters->low);
    free(adapters->step.order);
    free(adapters->step.tiles);
    free(adapters->logits.order);
    free(adapters->logits.tiles);
}

static uint32_t widest_input(const struct plan *plan)
{
    uint32_t widest = 1;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct plan_op *op = &plan->ops[i];
        if ((op->stem == OP_linear || op->stem == OP_linear_add) &&
            plan->weights[op->weights[0]].columns > widest)
            widest = plan->weights[op->weights[0]].columns;
    }
    return widest;
}

/* Buffers of steps, at the first adapter. */
static void reserve_rows(struct cpu_adapters *adapters)
{
    size_t floats = (size_t)ADAPTER_TILE_ROWS * widest_input(adapters->plan);
    if (adapters->gathered)
        return;
    struct adapter_rows *kinds[] = {&adapters->step, &adapters->logits};
    for (uint32_t k = 0; k < 2; k++) {
        kinds[k]->order = must_alloc(adapters->max_rows, sizeof *kinds[k]->order);
        kinds[k]->tiles = must_alloc(adapters->max_rows, sizeof *kinds[k]->tiles);
    }
    adapters->gathered = must_alloc(adapters->threads, sizeof *adapters->gathered);
    for (uint32_t t = 0; t < adapters->threads; t++)
        adapters->gathered[t] = must_alloc(floats, sizeof(float));
}

static void reserve_rank(struct cpu_adapters *adapters, uint32_t rank)
{
    uint32_t stride = (rank + PACKED_ROWS - 1) / PACKED_ROWS * PACKED_ROWS;
    if (stride <= adapters->rank_stride)
        return;
    free(adapters->low);
    adapters->rank_stride = stride;
    adapters->low = must_alloc((size_t)adapters->max_rows * OP_WEIGHTS_MAX * stride, sizeof(float));
}

enum result cpu_adapters_load(struct cpu_adapters *adapters, uint32_t slot,
                              const struct lora_adapter *source, struct error_text *error)
{
    must(slot < LIMIT_ADAPTERS && !adapters->slots[slot]);
    reserve_rows(adapters);
    reserve_rank(adapters, source->rank);
    return cpu_adapter_create(adapters->plan, source, &adapters->slots[slot], error);
}

void cpu_adapters_drop(struct cpu_adapters *adapters, uint32_t slot)
{
    must(slot < LIMIT_ADAPTERS);
    cpu_adapter_destroy(adapters->slots[slot]);
    adapters->slots[slot] = NULL;
}

/* Divides the order into tiles: adapter a has the places from first[a - 1] up to first[a]. */
static void list_tiles(const struct cpu_adapters *adapters, struct adapter_rows *rows,
                       const uint32_t first[LIMIT_ADAPTERS + 1])
{
    for (uint32_t slot = 0; slot < LIMIT_ADAPTERS; slot++) {
        for (uint32_t at = first[slot]; at < first[slot + 1]; at += ADAPTER_TILE_ROWS) {
            uint32_t left = first[slot + 1] - at;
            must(adapters->slots[slot]);
            rows->tiles[rows->tile_count++] =
                (struct adapter_tile){.adapter = adapters->slots[slot],
                                      .first = at,
                                      .count = left < ADAPTER_TILE_ROWS ? left : ADAPTER_TILE_ROWS};
        }
    }
}

/* Sorts the rows of sequences in which `logits` says that only their logit rows count. */
static void sort_rows(const struct cpu_adapters *adapters, const struct step_batch *batch,
                      bool logits, struct adapter_rows *rows)
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
        list_tiles(adapters, rows, first);
    }
}

void cpu_adapters_begin(struct cpu_adapters *adapters, const struct step_batch *batch)
{
    sort_rows(adapters, batch, false, &adapters->step);
    sort_rows(adapters, batch, true, &adapters->logits);
}

const struct adapter_rows *cpu_adapters_rows(const struct cpu_adapters *adapters, uint32_t index)
{
    const struct plan *plan = adapters->plan;
    bool logits = plan->tensors[plan->ops[index].output].rows == PLAN_ROWS_LOGITS;
    return logits ? &adapters->logits : &adapters->step;
}

bool cpu_adapters_change(const struct cpu_adapters *adapters, uint32_t index)
{
    const struct plan_op *op = &adapters->plan->ops[index];
    const struct cpu_adapter *before = NULL;
    if (op->stem != OP_linear && op->stem != OP_linear_add)
        return false;
    const struct adapter_rows *rows = cpu_adapters_rows(adapters, index);
    for (uint32_t t = 0; t < rows->tile_count; t++) {
        const struct cpu_adapter *adapter = rows->tiles[t].adapter;
        for (uint32_t slot = 0; adapter != before && slot < OP_WEIGHTS_MAX; slot++)
            if (op->weights[slot] != PLAN_NONE && cpu_adapter_find(adapter, op->weights[slot]))
                return true;
        before = adapter;
    }
    return false;
}

float *cpu_adapters_low(const struct cpu_adapters *adapters, uint32_t place, uint32_t slot)
{
    return adapters->low + ((size_t)place * OP_WEIGHTS_MAX + slot) * adapters->rank_stride;
}
