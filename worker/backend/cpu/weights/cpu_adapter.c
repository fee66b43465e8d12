/*
 * Float matrices keep their type; quantized ones become F32, because kernels of quantized weights
 * need quantized activations.
 */
#include "worker/backend/cpu/weights/cpu_adapter.h"

#include <stdlib.h>

#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"

#define ALIGNMENT 64u

static struct packed_weight describe(const struct lora_matrix *matrix)
{
    bool quantized = packed_weight_shape(matrix->type).quantized;
    return packed_weight_describe(quantized ? GGML_F32 : matrix->type, 1, matrix->rows,
                                  matrix->columns);
}

/* The place of one more packed matrix; *at becomes its end. */
static void place(struct packed_weight *weight, uint8_t *base, uint64_t *at)
{
    weight->data = base ? base + *at : NULL;
    *at += (packed_weight_bytes(weight) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t lay(struct cpu_adapter *adapter, uint32_t count)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        place(&adapter->pairs[i].a, adapter->memory.bytes, &at);
        place(&adapter->pairs[i].b, adapter->memory.bytes, &at);
    }
    return at;
}

static void fill(const struct packed_weight *weight, const struct lora_matrix *matrix)
{
    uint64_t row_bytes = ggml_row_bytes(matrix->type, matrix->columns);
    if (!packed_weight_shape(matrix->type).quantized) {
        for (uint32_t group = 0; group < weight->groups; group++)
            packed_weight_fill_group(weight, matrix->type, matrix->data, group);
        return;
    }
    float *rows = must_alloc((size_t)PACKED_ROWS * matrix->columns, sizeof *rows);
    for (uint32_t group = 0; group < weight->groups; group++) {
        uint32_t count = packed_weight_group_rows(weight, group);
        for (uint32_t r = 0; r < count; r++)
            ggml_dequantize_row(matrix->type, matrix->data + (group * PACKED_ROWS + r) * row_bytes,
                                matrix->columns, rows + (size_t)r * matrix->columns);
        packed_weight_fill_rows(weight, GGML_F32, rows, group);
    }
    free(rows);
}

enum result cpu_adapter_create(const struct plan *plan, const struct lora_adapter *source,
                               struct cpu_adapter **adapter, struct error_text *error)
{
    struct cpu_adapter *made = must_alloc(1, sizeof *made);
    made->rank = source->rank;
    made->pairs = must_alloc(source->pair_count + 1, sizeof *made->pairs);
    made->pair_of = must_alloc(plan->weight_count + 1, sizeof *made->pair_of);
    for (uint32_t w = 0; w < plan->weight_count; w++)
        made->pair_of[w] = PLAN_NONE;
    for (uint32_t i = 0; i < source->pair_count; i++) {
        const struct lora_pair *pair = &source->pairs[i];
        made->pairs[i] = (struct cpu_adapter_pair){
            .a = describe(&pair->a), .b = describe(&pair->b), .scale = pair->scale};
        made->pair_of[pair->weight] = (uint16_t)i;
    }
    enum result result = lazy_memory_reserve(&made->memory, lay(made, source->pair_count), false,
                                             "an adapter", error);
    if (result != RESULT_OK) {
        cpu_adapter_destroy(made);
        return result;
    }
    (void)lay(made, source->pair_count);
    for (uint32_t i = 0; i < source->pair_count; i++) {
        fill(&made->pairs[i].a, &source->pairs[i].a);
        fill(&made->pairs[i].b, &source->pairs[i].b);
    }
    *adapter = made;
    return RESULT_OK;
}

void cpu_adapter_destroy(struct cpu_adapter *adapter)
{
    if (!adapter)
        return;
    lazy_memory_release(&adapter->memory);
    free(adapter->pairs);
    free(adapter->pair_of);
    free(adapter);
}

const struct cpu_adapter_pair *cpu_adapter_find(const struct cpu_adapter *adapter,
                                                plan_weight_id weight)
{
    uint16_t pair = adapter->pair_of[weight];
    return pair == PLAN_NONE ? NULL : &adapter->pairs[pair];
}
