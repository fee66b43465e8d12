/*
 * Loads a sketched plan into the CPU backend's program, for tests that look at intermediate tensors
 * or the KV pools. A test adds ops, opens the fixture for a tier and a number of threads, fills input
 * rows, runs steps and reads output rows. op_trial.h tests through the backend's interface.
 */
#ifndef SHOAL_TESTS_SUPPORT_OP_FIXTURE_H
#define SHOAL_TESTS_SUPPORT_OP_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/plan_sketch.h"
#include "worker/backend/cpu/cpu_walk.h"

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

/* Drawn on before opening. */
struct plan_sketch *op_fixture_sketch(struct op_fixture *fixture);
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
/* From then on rows attend to features of `pool` by crossed and ranges of `sights`, whose other fields do not
 * matter; the pool and these arrays outlive the steps. */
void op_fixture_cross(struct op_fixture *fixture, const struct cpu_feature_pool *pool,
                      const struct step_batch *sights);
void op_fixture_poison(struct op_fixture *fixture, plan_tensor_id tensor, uint32_t rows);
/* Token ids: row r has ids[r]; NULL: all zero. Logits of every row of `logit_rows` are computed;
 * none are drawn from. */
void op_fixture_step(struct op_fixture *fixture, const struct op_fixture_part *parts,
                     uint32_t part_count, const uint32_t *ids, const uint32_t *logit_rows,
                     uint32_t logit_row_count);

/* Every tier for loops, portable first. */
#define OP_FIXTURE_TIERS 7
/* Where loops begin that take minutes in an emulator: AArch64 always has a better tier than the portable one. */
#ifdef __aarch64__
#define OP_FIXTURE_FAST_TIER 1
#else
#define OP_FIXTURE_FAST_TIER 0
#endif
enum cpu_tier op_fixture_tier(uint32_t index);

#endif
