/*
 * The CPU backend computes a row's logits bit for bit the same whether its sequence is decoded
 * alone token by token on one thread, or in chunks of any size beside other sequences on several
 * threads.
 *
 * The plan is a small transformer with every weight type in it, two layers, grouped heads, and a
 * window in one variant.
 */
// tags: threads arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/op_fixture.h"
#include "tests/support/sanitized.h"

enum {
    TOKENS = SANITIZED_THREAD ? 24 : 90,
    WINDOW = SANITIZED_THREAD ? 11 : 37,
    HIDDEN = 256,
    HEADS = 6,
    KV_HEADS = 2,
    HEAD_DIM = 32,
    WIDE = 256,
    QKV = (HEADS + 2 * KV_HEADS) * HEAD_DIM,
    ATTENDED = HEADS * HEAD_DIM,
    EXPERTS = 7,
    CHOSEN = 3
};

struct small_model {
    struct op_fixture *f;
    plan_tensor_id residual, normed, qkv, attended, gate_up, gated;
    uint32_t ids[OP_FIXTURE_SEQUENCES][TOKENS];
};

static plan_tensor_id step_tensor(struct small_model *m, uint32_t columns)
{
    return plan_sketch_tensor(op_fixture_sketch(m->f), PLAN_ROWS_STEP, columns);
}

static void append(struct small_model *m, enum op_stem stem, plan_tensor_id x, plan_tensor_id y,
                   plan_tensor_id out, const plan_weight_id *weights, uint32_t count,
                   union op_params params)
{
    plan_sketch_append_op(op_fixture_sketch(m->f), stem, x, y, out, weights, count, params);
}

static plan_weight_id weight(struct small_model *m, enum ggml_type type, uint32_t rows,
                             uint32_t columns)
{
    return plan_sketch_weight(op_fixture_sketch(m->f), type, rows, columns);
}

static void list_layer(struct small_model *m, uint32_t layer, uint32_t window,
                       const enum ggml_type *types)
{
    union op_params norm = {.rms_norm = {1e-5f, 1.0f}};
    union op_params none = {.linear = {0}};
    struct column_slice q = {0, HEADS, HEAD_DIM}, k = {ATTENDED, KV_HEADS, HEAD_DIM},
                        v = {ATTENDED + KV_HEADS * HEAD_DIM, KV_HEADS, HEAD_DIM};
    plan_weight_id n = weight(m, GGML_F32, 1, HIDDEN);
    /* a column that is an outlier in some rows only, so that some blocks have second terms */
    ((float *)(uintptr_t)plan_sketch_plan(op_fixture_sketch(m->f))->weights[n].data)[7] = 4.0f;
    append(m, OP_rms_norm, m->residual, PLAN_NONE, m->normed, &n, 1, norm);
    plan_weight_id qkv[3] = {weight(m, types[0], ATTENDED, HIDDEN),
                             weight(m, types[1], KV_HEADS * HEAD_DIM, HIDDEN),
                             weight(m, types[2], KV_HEADS * HEAD_DIM, HIDDEN)};
    append(m, OP_linear, m->normed, PLAN_NONE, m->qkv, qkv, 3, none);
    plan_weight_id head = weight(m, GGML_F32, 1, HEAD_DIM);
    append(m, OP_head_norm, m->qkv, PLAN_NONE, m->qkv, &head, 1,
           (union op_params){.head_norm = {k, 1e-6f, 0.0f}});
    append(m, OP_rope, m->qkv, PLAN_NONE, m->qkv, NULL, 0, (union op_params){.rope = {q, 0}});
    append(m, OP_rope, m->qkv, PLAN_NONE, m->qkv, NULL, 0, (union op_params){.rope = {k, 0}});
    append(m, OP_kv_write, m->qkv, PLAN_NONE, PLAN_NONE, NULL, 0,
           (union op_params){.kv_write = {k, v, layer}});
    append(m, OP_attention, m->qkv, PLAN_NONE, m->attended, NULL, 0,
           (union op_params){
               .attention = {q, KV_HEADS, layer, window, 0.3f, layer == 0 ? 0.0f : 4.0f}});
    plan_weight_id o = weight(m, types[3], HIDDEN, ATTENDED);
    append(m, OP_linear_add, m->attended, m->residual, m->residual, &o, 1, none);
    plan_weight_id n2 = weight(m, GGML_F32, 1, HIDDEN);
    append(m, OP_rms_norm, m->residual, PLAN_NONE, m->normed, &n2, 1, norm);
    plan_weight_id wide[2] = {weight(m, types[4], WIDE, HIDDEN), weight(m, types[5], WIDE, HIDDEN)};
    append(m, OP_linear, m->normed, PLAN_NONE, m->gate_up, wide, 2, none);
    append(m, OP_gate, m->gate_up, PLAN_NONE, m->gated, NULL, 0,
           (union op_params){.gate = {layer == 0 ? GATE_SILU : GATE_GELU_TANH}});
    plan_weight_id down = weight(m, types[6], HIDDEN, WIDE);
    if (layer == 0) {
        append(m, OP_linear_add, m->gated, m->residual, m->residual, &down, 1, none);
    } else {
        append(m, OP_linear, m->gated, PLAN_NONE, m->normed, &down, 1, none);
        append(m, OP_rms_norm_add, m->normed, m->residual, m->residual, &n2, 1,
               (union op_params){.rms_norm_add = {1e-5f, 0.5f}});
    }
}

static plan_weight_id experts(struct small_model *m, enum ggml_type type, uint32_t rows,
                              uint32_t columns)
{
    plan_weight_id id = weight(m, type, EXPERTS * rows, columns);
    plan_sketch_split_weight(op_fixture_sketch(m->f), id, EXPERTS);
    return id;
}

/* Experts that some rows share, added to the residual. */
static void list_experts(struct small_model *m)
{
    union op_params none = {.linear = {0}};
    plan_tensor_id scores = step_tensor(m, EXPERTS), route = step_tensor(m, 2 * CHOSEN);
    plan_tensor_id gate_up = step_tensor(m, CHOSEN * 2 * WIDE),
                   gated = step_tensor(m, CHOSEN * WIDE);
    plan_tensor_id down = step_tensor(m, CHOSEN * HIDDEN);
    plan_weight_id router = weight(m, GGML_F32, EXPERTS, HIDDEN);
    plan_weight_id wide[2] = {experts(m, GGML_Q4_0, WIDE, HIDDEN),
                              experts(m, GGML_F16, WIDE, HIDDEN)};
    plan_weight_id narrow = experts(m, GGML_Q6_K, HIDDEN, WIDE);
    append(m, OP_linear, m->normed, PLAN_NONE, scores, &router, 1, none);
    append(m, OP_moe_route, scores, PLAN_NONE, route, NULL, 0,
           (union op_params){.moe_route = {.chosen = CHOSEN, .normalized = true, .scale = 1.0f}});
    append(m, OP_moe_linear, m->normed, route, gate_up, wide, 2, none);
    append(m, OP_moe_gate, gate_up, route, gated, NULL, 0,
           (union op_params){.moe_gate = {GATE_SILU, false, 0.0f, 0.0f}});
    append(m, OP_moe_linear, gated, route, down, &narrow, 1, none);
    append(m, OP_moe_combine, down, route, m->residual, NULL, 0,
           (union op_params){.moe_combine = {true}});
    plan_tensor_id score = step_tensor(m, 1);
    plan_weight_id scorer = weight(m, GGML_F32, 1, HIDDEN);
    append(m, OP_linear, m->normed, PLAN_NONE, score, &scorer, 1, none);
    append(m, OP_moe_shared, m->normed, score, m->residual, NULL, 0, none);
}

static void build(struct small_model *m, uint32_t window)
{
    static const enum ggml_type first[7] = {GGML_Q4_1, GGML_Q5_0, GGML_Q8_0, GGML_Q5_1,
                                            GGML_Q6_K, GGML_Q4_K, GGML_Q3_K};
    static const enum ggml_type second[7] = {GGML_Q2_K, GGML_Q5_K, GGML_F16,   GGML_F8_32,
                                             GGML_BF16, GGML_F32,  GGML_F8_128};
    m->f = op_fixture_create(77);
    struct plan *plan = plan_sketch_plan(op_fixture_sketch(m->f));
    plan->config.rope_count = 1;
    plan->config.ropes[0] = (struct rope_config){.pairing = ROPE_PAIRS_HALVES,
                                                 .dims = HEAD_DIM,
                                                 .magnitude = 1.0f,
                                                 .inverse_frequency = {1.0f, 0.5f, 0.2f, 0.01f}};
    plan_sketch_set_kv(op_fixture_sketch(m->f), 2, KV_HEADS, HEAD_DIM, window);
    m->residual = step_tensor(m, HIDDEN);
    m->normed = step_tensor(m, HIDDEN);
    m->qkv = step_tensor(m, QKV);
    m->attended = step_tensor(m, ATTENDED);
    m->gate_up = step_tensor(m, 2 * WIDE);
    m->gated = step_tensor(m, WIDE);
    plan_weight_id table = weight(m, GGML_Q8_0, OP_FIXTURE_VOCAB, HIDDEN);
    append(m, OP_embed_rows, PLAN_NONE, PLAN_NONE, m->residual, &table, 1,
           (union op_params){.embed_rows = {3.0f}});
    list_layer(m, 0, window, first);
    list_experts(m);
    list_layer(m, 1, window, second);
    plan_tensor_id last = plan_sketch_tensor(op_fixture_sketch(m->f), PLAN_ROWS_LOGITS, HIDDEN);
    append(m, OP_gather_rows, m->residual, PLAN_NONE, last, NULL, 0,
           (union op_params){.gather_rows = {0}});
    append(m, OP_linear, last, PLAN_NONE, plan->logits, &table, 1,
           (union op_params){.linear = {0}});
    for (uint32_t s = 0; s < OP_FIXTURE_SEQUENCES; s++)
        for (uint32_t t = 0; t < TOKENS; t++)
            m->ids[s][t] =
                test_random_below(plan_sketch_random(op_fixture_sketch(m->f)), OP_FIXTURE_VOCAB);
}

/* residual [TOKENS, HIDDEN] and logits [TOKENS, vocabulary] of a sequence decoded alone. */
static void decode_alone(struct small_model *m, uint32_t sequence, float *residual, float *logits)
{
    for (uint32_t t = 0; t < TOKENS; t++) {
        const uint32_t row = 0;
        op_fixture_step(m->f, &(struct op_fixture_part){sequence, 1, t}, 1, &m->ids[sequence][t],
                        &row, 1);
        memcpy(residual + t * HIDDEN, op_fixture_row(m->f, m->residual, 0), HIDDEN * sizeof(float));
        memcpy(logits + t * OP_FIXTURE_VOCAB,
               op_fixture_row(m->f, plan_sketch_plan(op_fixture_sketch(m->f))->logits, 0),
               OP_FIXTURE_VOCAB * sizeof(float));
    }
}

/* Feeds all sequences in random chunks, each sequence 0 row compared. */
static void feed_in_chunks(struct small_model *m, const float *residual, const float *logits)
{
    uint32_t fed[OP_FIXTURE_SEQUENCES] = {0};
    while (fed[0] < TOKENS) {
        struct op_fixture_part parts[OP_FIXTURE_SEQUENCES];
        uint32_t ids[OP_FIXTURE_ROWS], part_count = 0, rows = 0, begin = 0, count = 0;
        for (uint32_t s = OP_FIXTURE_SEQUENCES; s-- > 0;) { /* the compared one comes last */
            uint32_t most = TOKENS - fed[s];
            uint32_t limit =
                test_random_below(plan_sketch_random(op_fixture_sketch(m->f)), 2) ? 3 : 100;
            uint32_t n =
                test_random_below(plan_sketch_random(op_fixture_sketch(m->f)), limit) + (s == 0);
            n = n < most ? n : most;
            if (n == 0)
                continue;
            parts[part_count++] = (struct op_fixture_part){s, n, fed[s]};
            memcpy(ids + rows, m->ids[s] + fed[s], n * sizeof *ids);
            begin = rows;
            count = n;
            rows += n;
            fed[s] += n;
        }
        const uint32_t wanted[2] = {0, rows - 1};
        op_fixture_step(m->f, parts, part_count, ids, rows > 1 ? wanted : wanted + 1,
                        rows > 1 ? 2 : 1);
        for (uint32_t r = 0; r < count; r++)
            assert_memory_equal(op_fixture_row(m->f, m->residual, begin + r),
                                residual + (fed[0] - count + r) * HIDDEN, HIDDEN * sizeof(float));
        assert_memory_equal(op_fixture_row(m->f, plan_sketch_plan(op_fixture_sketch(m->f))->logits,
                                           rows > 1 ? 1 : 0),
                            logits + (fed[0] - 1) * OP_FIXTURE_VOCAB,
                            OP_FIXTURE_VOCAB * sizeof(float));
    }
}

static void check(enum cpu_tier tier, enum kv_cache_type kv_type, uint32_t window)
{
    struct small_model m;
    float *residual = malloc(TOKENS * HIDDEN * sizeof *residual);
    float *logits = malloc(TOKENS * OP_FIXTURE_VOCAB * sizeof *logits);
    build(&m, window);
    op_fixture_set_kv_type(m.f, kv_type);
    if (op_fixture_open(m.f, tier, 1)) {
        decode_alone(&m, 0, residual, logits);
        op_fixture_close(m.f);
        for (uint32_t c = 0; c < TOKENS * OP_FIXTURE_VOCAB; c++)
            assert_true(isfinite(logits[c]));
        for (uint32_t threads = tier == CPU_TIER_PORTABLE ? 3 : 1; threads <= 3; threads += 2) {
            assert_true(op_fixture_open(m.f, tier, threads));
            feed_in_chunks(&m, residual, logits);
            op_fixture_close(m.f);
        }
    }
    free(residual);
    free(logits);
    op_fixture_destroy(m.f);
}

static void test_rows_do_not_depend_on_other_rows(void **state)
{
    (void)state;
    for (uint32_t tier = OP_FIXTURE_FAST_TIER; tier < OP_FIXTURE_TIERS; tier++) {
        check(op_fixture_tier(tier), KV_CACHE_F16, WINDOW);
        /* the portable one is slow, and the others of an architecture differ in products only */
        if (op_fixture_tier(tier) != CPU_TIER_AVX2 && op_fixture_tier(tier) != CPU_TIER_NEON)
            continue;
        check(op_fixture_tier(tier), KV_CACHE_F16, 0);
        check(op_fixture_tier(tier), KV_CACHE_F32, WINDOW);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_do_not_depend_on_other_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
