/*
 * A tile is short so that a few rows of one adapter are
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
    adapter_rows_fini(&adapters->step);
    adapter_rows_fini(&adapters->logits);
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
    adapter_rows_init(&adapters->step, adapters->max_rows, ADAPTER_TILE_ROWS);
    adapter_rows_init(&adapters->logits, adapters->max_rows, ADAPTER_TILE_ROWS);
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

void cpu_adapters_begin(struct cpu_adapters *adapters, const struct step_batch *batch)
{
    adapter_rows_sort(&adapters->step, batch, false);
    adapter_rows_sort(&adapters->logits, batch, true);
    for (uint32_t t = 0; t < adapters->step.tile_count; t++)
        must(adapters->slots[adapters->step.tiles[t].adapter]);
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
        const struct cpu_adapter *adapter = adapters->slots[rows->tiles[t].adapter];
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
