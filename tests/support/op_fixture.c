/*
 * Small plans for tests of the CPU ops. Random weights are made from random bytes with every f16
 * scale field replaced by a number of ordinary size, so that all bit patterns of quants and integer
 * scales occur.
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
#include "worker/backend/cpu/ggml_dequantize.h"

enum { TENSORS_MAX = 64, WEIGHTS_MAX = 64, OPS_MAX = 64 };

struct op_fixture {
    struct plan plan;
    struct plan_tensor tensors[TENSORS_MAX];
    struct plan_weight weights[WEIGHTS_MAX];
    void *weight_data[WEIGHTS_MAX];
    struct plan_op ops[OPS_MAX];
    enum kv_cache_type kv_type;
    struct test_random random;
    struct cpu_thread_pool *pool;
    struct cpu_program program;
    struct cpu_step step;
    uint32_t block_tables[OP_FIXTURE_SEQUENCES][OP_FIXTURE_BLOCKS];
};

struct op_fixture *op_fixture_create(uint64_t seed)
{
    struct op_fixture *f = must_alloc(1, sizeof *f);
    f->random.state = seed;
    f->plan.tensors = f->tensors;
    f->plan.weights = f->weights;
    f->plan.ops = f->ops;
    f->plan.config.vocab_tokens = OP_FIXTURE_VOCAB;
    f->plan.logits = op_fixture_tensor(f, PLAN_ROWS_LOGITS, OP_FIXTURE_VOCAB);
    uint32_t total = OP_FIXTURE_SEQUENCES * OP_FIXTURE_BLOCKS;
    for (uint32_t i = 0; i < total; i++) /* 101 shares no factor with a power of two */
        f->block_tables[i / OP_FIXTURE_BLOCKS][i % OP_FIXTURE_BLOCKS] = (i * 101 + 7) % total;
    return f;
}

void op_fixture_destroy(struct op_fixture *f)
{
    for (uint32_t w = 0; w < f->plan.weight_count; w++)
        free(f->weight_data[w]);
    free(f);
}

struct test_random *op_fixture_random(struct op_fixture *f)
{
    return &f->random;
}

float op_fixture_uniform(struct op_fixture *f)
{
    return (float)(test_random_next(&f->random) >> 40) * 0x1p-23f - 1.0f;
}

struct plan *op_fixture_plan(struct op_fixture *f)
{
    return &f->plan;
}

plan_tensor_id op_fixture_tensor(struct op_fixture *f, enum plan_rows rows, uint32_t columns)
{
    must(f->plan.tensor_count < TENSORS_MAX);
    f->tensors[f->plan.tensor_count] = (struct plan_tensor){rows, columns};
    return (plan_tensor_id)f->plan.tensor_count++;
}

/* Where a block keeps f16 scales; -1 ends the list. */
static const int *f16_fields(enum ggml_type type)
{
    static const int first[] = {0, -1}, both[] = {0, 2, -1}, q2[] = {80, 82, -1}, q3[] = {108, -1},
                     q6[] = {208, -1};
    switch (type) {
    case GGML_Q4_1:
    case GGML_Q5_1:
    case GGML_Q4_K:
    case GGML_Q5_K: return both;
    case GGML_Q2_K: return q2;
    case GGML_Q3_K: return q3;
    case GGML_Q6_K: return q6;
    default: return first;
    }
}

static void fill_weight(struct op_fixture *f, enum ggml_type type, uint8_t *bytes,
                        uint64_t byte_count)
{
    struct ggml_block block = ggml_type_block(type);
    test_random_fill(&f->random, bytes, byte_count);
    for (uint64_t at = 0; at < byte_count; at += block.bytes) {
        float value = op_fixture_uniform(f);
        if (type == GGML_F32) {
            memcpy(bytes + at, &value, sizeof value);
        } else if (type == GGML_BF16) {
            memcpy(bytes + at, (const char *)&value + 2, 2);
        } else {
            for (const int *field = f16_fields(type); *field >= 0; field++) {
                uint16_t half = ggml_f32_to_f16(type == GGML_F16 ? value : value * 0.05f);
                memcpy(bytes + at + *field, &half, sizeof half);
                value = op_fixture_uniform(f);
            }
        }
    }
}

plan_weight_id op_fixture_weight(struct op_fixture *f, enum ggml_type type, uint32_t rows,
                                 uint32_t columns)
{
    must(f->plan.weight_count < WEIGHTS_MAX);
    uint32_t id = f->plan.weight_count++;
    uint64_t bytes = rows * ggml_row_bytes(type, columns);
    f->weight_data[id] = must_alloc(bytes, 1);
    fill_weight(f, type, f->weight_data[id], bytes);
    f->weights[id] = (struct plan_weight){.type = type,
                                          .rows = rows,
                                          .columns = columns,
                                          .data = f->weight_data[id],
                                          .data_bytes = bytes};
    return (plan_weight_id)id;
}

void op_fixture_append(struct op_fixture *f, struct plan_op op)
{
    must(f->plan.op_count < OPS_MAX);
    f->ops[f->plan.op_count++] = op;
}

void op_fixture_set_kv(struct op_fixture *f, uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                       uint32_t window)
{
    f->plan.kv = (struct kv_layout){
        .group_count = 1,
        .groups = {{window ? KV_SLIDING : KV_FULL, window, layers, kv_heads, head_dim}}};
    for (uint32_t layer = 0; layer < layers; layer++)
        f->plan.kv.layer_index[layer] = (uint16_t)layer;
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
    options.kv_blocks[0] = OP_FIXTURE_SEQUENCES * OP_FIXTURE_BLOCKS;
    if (!kernels)
        return false;
    memset(&f->program, 0, sizeof f->program);
    must(cpu_thread_pool_create(threads, &f->pool, &error) == RESULT_OK);
    must(cpu_program_init(&f->program, &f->plan, &options, kernels, &error) == RESULT_OK);
    must(cpu_step_init(&f->step, &f->program, f->pool, &error) == RESULT_OK);
    must(cpu_weights_load(&f->program.weights, f->pool, &options, NULL, NULL, &error) == RESULT_OK);
    return true;
}

void op_fixture_close(struct op_fixture *f)
{
    cpu_step_fini(&f->step);
    cpu_program_fini(&f->program);
    cpu_thread_pool_destroy(f->pool);
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
    for (size_t i = 0; i < (size_t)rows * f->tensors[tensor].columns; i++)
        values[i] = op_fixture_uniform(f);
}

void op_fixture_poison(struct op_fixture *f, plan_tensor_id tensor, uint32_t rows)
{
    float *values = op_fixture_row(f, tensor, 0);
    for (size_t i = 0; i < (size_t)rows * f->tensors[tensor].columns; i++)
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
        sequences[p] = (struct step_sequence){rows, parts[p].rows, parts[p].first_position, {NULL}};
        sequences[p].block_tables[0] = f->block_tables[parts[p].sequence];
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
                               .samplings = samplings};
    cpu_step_run(&f->step, &batch, NULL, 0, results);
}

void op_fixture_weight_row(const struct op_fixture *f, plan_weight_id weight, uint32_t row,
                           float *out)
{
    const struct plan_weight *w = &f->weights[weight];
    const uint8_t *bytes = w->data;
    ggml_dequantize_row(w->type, bytes + row * ggml_row_bytes(w->type, w->columns), w->columns,
                        out);
}

void op_fixture_expect_close(const char *what, const float *actual, const double *expected,
                             uint32_t count, double tolerance)
{
    double largest = 1e-30; /* below this nothing is told from 0 */
    for (uint32_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (uint32_t i = 0; i < count; i++)
        if (!(fabs(actual[i] - expected[i]) <= tolerance * largest))
            fail_msg("%s: [%u] is %.9g, expected %.9g within %.3g of %.9g", what, i,
                     (double)actual[i], expected[i], tolerance, largest);
}

enum cpu_tier op_fixture_tier(uint32_t index)
{
    static const enum cpu_tier tiers[OP_FIXTURE_TIERS] = {CPU_TIER_PORTABLE, CPU_TIER_AVX2,
                                                          CPU_TIER_AVX512};
    must(index < OP_FIXTURE_TIERS);
    return tiers[index];
}

const char *op_fixture_tier_name(enum cpu_tier tier)
{
    static const char *const names[] = {"best", "portable", "avx2", "avx512"};
    return names[tier];
}
