/*
 * Two dispatches: scale * x . A^T of the rows that have an adapter into memory of its own, which may
 * overlap with the product, then its product with B added to the output.
 *
 * Grids have room for the most tiles that the step's rows can have, so that the commands fit the next
 * step of this shape; workgroups without a tile end at once.
 */
#include "worker/backend/vulkan/record/vulkan_adapter_part.h"

#include <string.h>

#include "proto/must.h"
#include "worker/backend/host/adapter_rows.h"

#define RANKS 4u /* rows of A that a workgroup takes: shaders/adapter_reduce.comp */
#define PAIR  2u /* columns that an invocation takes: shaders/adapter_expand.comp */

struct vulkan_adapter_reduce_push {
    uint64_t x;                     /*  0: f32 [rows, k] */
    uint64_t low;                   /*  8: f32 [places, OP_WEIGHTS_MAX, low_columns] */
    uint64_t order;                 /* 16: u32 [places] */
    uint64_t tiles;                 /* 24: struct adapter_tile [] */
    uint64_t pairs[OP_WEIGHTS_MAX]; /* 32: struct vulkan_adapter_pair [LIMIT_ADAPTERS] */
    uint32_t k;                     /* 56 */
    uint32_t low_columns;           /* 60 */
};
static_assert(sizeof(struct vulkan_adapter_reduce_push) == 64, "byte map");

struct vulkan_adapter_expand_push {
    uint64_t out_f32;                 /*  0: f32 [rows, stride] */
    uint64_t low;                     /*  8 */
    uint64_t order;                   /* 16 */
    uint64_t tiles;                   /* 24 */
    uint64_t pairs[OP_WEIGHTS_MAX];   /* 32 */
    uint32_t columns[OP_WEIGHTS_MAX]; /* 56: where each weight's outputs begin */
    uint32_t stride;                  /* 68 */
    uint32_t low_columns;             /* 72 */
    uint32_t unused;                  /* 76 */
};
static_assert(sizeof(struct vulkan_adapter_expand_push) == 80, "byte map");

/* Of the op's weights. */
struct weight_slots {
    uint32_t count;
    uint32_t widest;
    uint32_t begins[OP_WEIGHTS_MAX]; /* their outputs in a row */
    uint64_t pairs[OP_WEIGHTS_MAX];
};

static struct weight_slots weights_of(const struct vulkan_recorder *recorder,
                                      const struct plan_op *op)
{
    const struct vulkan_program *program = recorder->program;
    struct weight_slots weights = {0};
    for (uint32_t column = 0;
         weights.count < OP_WEIGHTS_MAX && op->weights[weights.count] != PLAN_NONE;
         weights.count++) {
        plan_weight_id weight = op->weights[weights.count];
        uint32_t rows = program->plan->weights[weight].rows;
        weights.begins[weights.count] = column;
        weights.pairs[weights.count] = vulkan_adapters_pairs(program->adapters, weight);
        weights.widest = rows > weights.widest ? rows : weights.widest;
        column += rows;
    }
    return weights;
}

static uint32_t parts(uint32_t count, uint32_t each)
{
    return (count + each - 1) / each;
}

/* Many short rows of A are divided among small workgroups on drivers for the CPU, where invocations
 * of a workgroup run one after the other. */
static uint32_t invocations(const struct vulkan_recorder *recorder)
{
    return recorder->program->device->facts.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 32 : 128;
}

static void record_reduce(struct vulkan_recorder *recorder, const struct plan_op *op,
                          const struct weight_slots *weights, bool logits, uint32_t tiles)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_batch *batch = recorder->recording->batch;
    const struct vulkan_tensor *x = &program->tensors[op->inputs[0]];
    struct vulkan_adapter_reduce_push push = {.x = x->f32,
                                              .low = program->adapters->low.address,
                                              .order = batch->adapter_orders_address[logits],
                                              .tiles = batch->adapter_tiles_address[logits],
                                              .k = x->columns,
                                              .low_columns = program->adapters->rank};
    memcpy(push.pairs, weights->pairs, sizeof push.pairs);
    const struct vulkan_specialization constants = {1, {invocations(recorder)}};
    const struct vulkan_grid grid = {tiles, parts(program->adapters->rank, RANKS), weights->count};
    const struct vulkan_touch touch = {.reads = {op->inputs[0], PLAN_NONE, PLAN_NONE},
                                       .writes = {vulkan_recorder_low(recorder), PLAN_NONE}};
    must(x->columns == program->plan->weights[op->weights[0]].columns);
    vulkan_recorder_dispatch(recorder, "adapter_reduce", &constants, &push, sizeof push, grid,
                             &touch);
}

static void record_expand(struct vulkan_recorder *recorder, const struct plan_op *op,
                          const struct weight_slots *weights, bool logits, uint32_t tiles)
{
    const struct vulkan_program *program = recorder->program;
    const struct vulkan_batch *batch = recorder->recording->batch;
    const struct vulkan_tensor *out = &program->tensors[op->output];
    struct vulkan_adapter_expand_push push = {.out_f32 = out->f32,
                                              .low = program->adapters->low.address,
                                              .order = batch->adapter_orders_address[logits],
                                              .tiles = batch->adapter_tiles_address[logits],
                                              .stride = out->columns,
                                              .low_columns = program->adapters->rank};
    memcpy(push.pairs, weights->pairs, sizeof push.pairs);
    memcpy(push.columns, weights->begins, sizeof push.columns);
    const struct vulkan_specialization constants = {1, {invocations(recorder)}};
    const struct vulkan_grid grid = {tiles, parts(weights->widest, PAIR * constants.values[0]),
                                     weights->count};
    const struct vulkan_touch touch = {
        .reads = {vulkan_recorder_low(recorder), op->output, PLAN_NONE},
        .writes = {op->output, PLAN_NONE}};
    vulkan_recorder_dispatch(recorder, "adapter_expand", &constants, &push, sizeof push, grid,
                             &touch);
}

void vulkan_adapter_part_record(struct vulkan_recorder *recorder, uint32_t index)
{
    const struct vulkan_program *program = recorder->program;
    const struct plan_op *op = &program->plan->ops[index];
    bool requested = !recorder->recording->commands; /* kernels for adapters that may come */
    if (!recorder->recording->shape.adapted ||
        !(requested || vulkan_adapters_change(program->adapters, op)))
        return;
    bool logits = program->tensors[op->output].rows == PLAN_ROWS_LOGITS;
    uint32_t tiles = adapter_rows_tiles_most(vulkan_recorder_rows(recorder, op->output),
                                             VULKAN_ADAPTER_TILE_ROWS);
    const struct weight_slots weights = weights_of(recorder, op);
    record_reduce(recorder, op, &weights, logits, tiles);
    record_expand(recorder, op, &weights, logits, tiles);
}
