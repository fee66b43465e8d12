/*
 * A plan of a few ops over random weights, loaded into the CPU backend's program and stepped by
 * hand: a test appends ops, opens the fixture for a tier and a number of threads, fills input rows,
 * steps, and reads output rows.
 */
#ifndef SHOAL_TESTS_SUPPORT_OP_FIXTURE_H
#define SHOAL_TESTS_SUPPORT_OP_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/test_random.h"
#include "worker/backend/cpu/cpu_step.h"

#define OP_FIXTURE_VOCAB     48u
#define OP_FIXTURE_ROWS      512u
#define OP_FIXTURE_LOGITS    16u
#define OP_FIXTURE_SEQUENCES 4u
#define OP_FIXTURE_BLOCKS    64u /* per sequence: 1,024 positions */

/* One sequence's part of a step. */
struct op_fixture_part {
    uint32_t sequence; /* slot, < OP_FIXTURE_SEQUENCES */
    uint32_t rows;
    uint32_t first_position;
};

struct op_fixture;

/* The same seed gives the same weights and inputs. The plan's logits tensor exists and stays zero
 * unless an op writes it. */
struct op_fixture *op_fixture_create(uint64_t seed);
void op_fixture_destroy(struct op_fixture *fixture);

struct test_random *op_fixture_random(struct op_fixture *fixture);
/* Uniform in [-1, 1). */
float op_fixture_uniform(struct op_fixture *fixture);

/* Before opening. config and kv of the plan may be set freely. */
struct plan *op_fixture_plan(struct op_fixture *fixture);
plan_tensor_id op_fixture_tensor(struct op_fixture *fixture, enum plan_rows rows, uint32_t columns);
plan_weight_id op_fixture_weight(struct op_fixture *fixture, enum ggml_type type, uint32_t rows,
                                 uint32_t columns);
void op_fixture_append(struct op_fixture *fixture, struct plan_op op);
/* One KV group of `layers` layers, window 0 for all positions. */
void op_fixture_set_kv(struct op_fixture *fixture, uint32_t layers, uint32_t kv_heads,
                       uint32_t head_dim, uint32_t window);

/* What the cache stores; f16 unless said otherwise. */
void op_fixture_set_kv_type(struct op_fixture *fixture, enum kv_cache_type type);

/* false: this CPU lacks the tier. May be opened again after closing. */
bool op_fixture_open(struct op_fixture *fixture, enum cpu_tier tier, uint32_t threads);
void op_fixture_close(struct op_fixture *fixture);

/* While open. */
const struct cpu_program *op_fixture_program(const struct op_fixture *fixture);
const uint32_t *op_fixture_block_table(const struct op_fixture *fixture, uint32_t sequence);
float *op_fixture_row(struct op_fixture *fixture, plan_tensor_id tensor, uint32_t row);
void op_fixture_fill(struct op_fixture *fixture, plan_tensor_id tensor, uint32_t rows);
void op_fixture_poison(struct op_fixture *fixture, plan_tensor_id tensor, uint32_t rows);
/* Token ids: row r has ids[r]; NULL: all zero. Logits of every row of `logit_rows` are computed;
 * none are drawn from. */
void op_fixture_step(struct op_fixture *fixture, const struct op_fixture_part *parts,
                     uint32_t part_count, const uint32_t *ids, const uint32_t *logit_rows,
                     uint32_t logit_row_count);

/* A weight's row as f32 [columns]. */
void op_fixture_weight_row(const struct op_fixture *fixture, plan_weight_id weight, uint32_t row,
                           float *out);

/*
 * Fails the test naming `what` unless |actual - expected| <= tolerance * (largest |expected|) at
 * every one of `count` places.
 */
void op_fixture_expect_close(const char *what, const float *actual, const double *expected,
                             uint32_t count, double tolerance);

/* Every tier for loops, portable first; and its name. */
#define OP_FIXTURE_TIERS 3
enum cpu_tier op_fixture_tier(uint32_t index);
const char *op_fixture_tier_name(enum cpu_tier tier);

#endif
