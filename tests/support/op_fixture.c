/*
 * The CPU backend's program over a sketched plan, without the backend around it.
 *
 * Physical KV blocks are handed out scattered over the pool, so that no test passes by luck of
 * adjacent blocks.
 */
#include "tests/support/op_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

struct op_fixture {
    struct plan_sketch *sketch;
    enum kv_cache_type kv_type;
    struct thread_pool *pool;
    struct cpu_program program;
    struct cpu_step step;
    struct step_batch sights; /* what rows attend to */
    uint32_t block_tables[OP_FIXTURE_SEQUENCES][OP_FIXTURE_BLOCKS];
};

struct op_fixture *op_fixture_create(uint64_t seed)
{
    struct op_fixture *f = must_alloc(1, sizeof *f);
    f->sketch = plan_sketch_create(seed);
    struct plan *plan = plan_sketch_plan(f->sketch);
    plan->config.vocab_tokens = OP_FIXTURE_VOCAB;
    plan->logits = plan_sketch_tensor(f->sketch, PLAN_ROWS_LOGITS, OP_FIXTURE_VOCAB);
    uint32_t total = OP_FIXTURE_SEQUENCES * OP_FIXTURE_BLOCKS;
    for (uint32_t i = 0; i < total; i++) /* 101 shares no factor with a power of two */
        f->block_tables[i / OP_FIXTURE_BLOCKS][i % OP_FIXTURE_BLOCKS] = (i * 101 + 7) % total;
    return f;
}

void op_fixture_destroy(struct op_fixture *f)
{
    plan_sketch_destroy(f->sketch);
    free(f);
}

struct plan_sketch *op_fixture_sketch(struct op_fixture *f)
{
    return f->sketch;
}

void op_fixture_set_kv_type(struct op_fixture *f, enum kv_cache_type type)
{
    f->kv_type = type;
}

bool op_fixture_open(struct op_fixture *f, enum cpu_tier tier, uint32_t threads)
{
    const struct cpu_kernels *kernels = cpu_kernels_choose(tier);
    struct backend_options options = {.max_step_rows = OP_FIXTURE_ROWS,
                                      .max_logit_rows = OP_FIXTURE_LOGITS,
                                      .kv_type = f->kv_type};
    struct error_text error = {{0}};
    options.kv_blocks[0] = options.kv_blocks[1] = OP_FIXTURE_SEQUENCES * OP_FIXTURE_BLOCKS;
    options.state_slots = OP_FIXTURE_SEQUENCES;
    if (!kernels)
        return false;
    memset(&f->program, 0, sizeof f->program);
    must(thread_pool_create(threads, &f->pool, &error) == RESULT_OK);
    must(cpu_program_init(&f->program, plan_sketch_plan(f->sketch), &options, kernels, NULL,
                          &error) == RESULT_OK);
    must(cpu_walk_init(&f->step, &f->program, f->pool, &error) == RESULT_OK);
    must(cpu_weights_load(&f->program.weights, f->pool, &options, NULL, NULL, &error) == RESULT_OK);
    return true;
}

void op_fixture_close(struct op_fixture *f)
{
    cpu_walk_fini(&f->step);
    cpu_program_fini(&f->program);
    thread_pool_destroy(f->pool);
}

const struct cpu_program *op_fixture_program(const struct op_fixture *f)
{
    return &f->program;
}

const uint32_t *op_fixture_block_table(const struct op_fixture *f, uint32_t sequence)
{
    return f->block_tables[sequence];
}

float *op_fixture_row(struct op_fixture *f, plan_tensor_id tensor, uint32_t row)
{
    return cpu_step_row(&f->step, tensor, row);
}

void op_fixture_fill(struct op_fixture *f, plan_tensor_id tensor, uint32_t rows)
{
    float *values = op_fixture_row(f, tensor, 0);
    for (size_t i = 0; i < (size_t)rows * f->program.tensors[tensor].columns; i++)
        values[i] = plan_sketch_uniform(f->sketch);
}

void op_fixture_cross(struct op_fixture *f, const struct cpu_feature_pool *pool,
                      const struct step_batch *sights)
{
    f->step.features = pool;
    f->sights = *sights;
}

void op_fixture_poison(struct op_fixture *f, plan_tensor_id tensor, uint32_t rows)
{
    float *values = op_fixture_row(f, tensor, 0);
    for (size_t i = 0; i < (size_t)rows * f->program.tensors[tensor].columns; i++)
        values[i] = NAN;
}

void op_fixture_step(struct op_fixture *f, const struct op_fixture_part *parts, uint32_t part_count,
                     const uint32_t *ids, const uint32_t *logit_rows, uint32_t logit_row_count)
{
    static const uint32_t zeros[OP_FIXTURE_ROWS];
    struct sampling_params params = sampling_params_default();
    struct step_sequence sequences[OP_FIXTURE_SEQUENCES];
    struct row_sampling samplings[OP_FIXTURE_LOGITS];
    struct sampled_token results[OP_FIXTURE_LOGITS];
    uint32_t rows = 0;
    must(part_count <= OP_FIXTURE_SEQUENCES && logit_row_count <= OP_FIXTURE_LOGITS);
    for (uint32_t p = 0; p < part_count; p++) {
        sequences[p] = (struct step_sequence){.first_row = rows,
                                              .row_count = parts[p].rows,
                                              .first_position = parts[p].first_position,
                                              .state_slot = parts[p].sequence,
                                              .state_source = STATE_SLOT_NONE,
                                              .state_copy = STATE_SLOT_NONE};
        sequences[p].block_tables[0] = f->block_tables[parts[p].sequence];
        sequences[p].block_tables[1] =
            f->block_tables[OP_FIXTURE_SEQUENCES - 1 - parts[p].sequence];
        rows += parts[p].rows;
    }
    for (uint32_t i = 0; i < logit_row_count; i++)
        samplings[i] = (struct row_sampling){.params = &params};
    struct step_batch batch = {.row_count = rows,
                               .token_ids = ids ? ids : zeros,
                               .sequence_count = part_count,
                               .sequences = sequences,
                               .logit_row_count = logit_row_count,
                               .logit_rows = logit_rows,
                               .samplings = samplings,
                               .crossed = f->sights.crossed,
                               .ranges = f->sights.ranges,
                               .range_count = f->sights.range_count};
    cpu_walk_run(&f->step, &batch, NULL, 0, results);
}

enum cpu_tier op_fixture_tier(uint32_t index)
{
    static const enum cpu_tier tiers[OP_FIXTURE_TIERS] = {
        CPU_TIER_PORTABLE, CPU_TIER_AVX2,    CPU_TIER_AVX512, CPU_TIER_AMX,
        CPU_TIER_NEON,     CPU_TIER_DOTPROD, CPU_TIER_I8MM};
    must(index < OP_FIXTURE_TIERS);
    return tiers[index];
}
