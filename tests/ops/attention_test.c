/*
 * kv_write and attention, also over latent keys, against a double-precision softmax over all rows fed so far, which the
 * test keeps in f32: two sequences in chunks of odd sizes, grouped heads, windows, soft caps, head
 * sizes that fill no register, scattered blocks; with a cache of f16, of f32, and quantized with
 * every kind of code: then the keys and values fed are decoded codes.
 *
 * Blocks entirely before a window are overwritten with NaN patterns, which must have no effect.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/op_case_list.h"
#include "tests/support/op_fixture.h"
#include "tests/support/row_expect.h"

#include "worker/backend/cpu/program/cpu_kv_cache.h"
#include "worker/backend/host/ggml_dequantize.h"

void attention_cases(const struct op_case_visitor *visitor)
{
    static const struct {
        uint32_t heads;
        uint32_t kv_heads;
        uint32_t head_dim;
        uint32_t window;
        float magnitude; /* large ones make the softmax sharp */
        float soft_cap;
        bool sinks;
        struct kv_quantization quantization;
        bool latent;
    } shapes[] = {
        {9, 3, 64, 0, 1.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}, false},
        {8, 2, 128, 0, 1.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}, false},
        {4, 1, 256, 40, 1.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}, false},
        {2, 2, 20, 7, 10.0f, 5, true, {KV_QUANT_NONE, 0, 0, 0, 0}, false},
        {3, 1, 5, 0, 100.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}, false},
        {20, 1, 16, 64, 3.0f, 0, true, {KV_QUANT_NONE, 0, 0, 0, 0}, false},
        {1, 1, 64, 1, 1.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}, false},
        {6, 3, 16, 24, 30.0f, 20, false, {KV_QUANT_NONE, 0, 0, 0, 0}, false},
        {4, 2, 32, 0, 1.0f, 0, false, {KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, false},
        {2, 1, 32, 0, 3.0f, 0, true, {KV_QUANT_UNIFORM, 10, 14, 32, 0}, false},
        {4, 2, 32, 0, 2.0f, 0, false, {KV_QUANT_TURBOQUANT, 4, 4, 0, 40}, false},
        {2, 1, 32, 0, 1.0f, 20, true, {KV_QUANT_UNIFORM, 4, 4, 32, 83}, false},
        {2, 1, 16, 0, 2.0f, 0, true, {KV_QUANT_TURBOQUANT, 7, 5, 0, 0}, false},
        {4, 2, 64, 0, 1.0f, 0, false, {KV_QUANT_TURBOQUANT, 7, 7, 0, 50}, false},
        {3, 1, 48, 0, 1.0f, 30, false, {KV_QUANT_TURBOQUANT, 6, 8, 0, 0}, false},
        {2, 1, 80, 0, 1.0f, 0, true, {KV_QUANT_TURBOQUANT, 5, 7, 0, 60}, false},
        {5, 1, 40, 0, 3.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}, true},
        {2, 1, 576, 0, 1.0f, 0, false, {KV_QUANT_NONE, 0, 0, 0, 0}, true},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        uint32_t queries = shapes[i].heads * shapes[i].head_dim;
        uint32_t sides = shapes[i].latent ? 1 : 2;
        uint32_t pair = sides * shapes[i].kv_heads * shapes[i].head_dim;
        struct op_case c = op_case_begin(OP_attention, 3 + queries + pair, queries);
        op_case_set_kv_steps(&c);
        c.input_type = GGML_F16; /* so that an f16 cache rounds nothing: the arithmetic is judged */
        c.window = shapes[i].window;
        c.quantization = shapes[i].quantization;
        c.latent = shapes[i].latent;
        c.params.attention =
            (struct attention_params){.queries = {3, shapes[i].heads, shapes[i].head_dim},
                                      .kv_heads = shapes[i].kv_heads,
                                      .scale = 0.125f * shapes[i].magnitude,
                                      .soft_cap = shapes[i].soft_cap};
        if (shapes[i].sinks)
            c.weights[0] = (struct op_trial_weight){GGML_F32, 1, shapes[i].heads};
        op_case_visit(visitor, &c);
    }
}

enum { SEQUENCES = 2, POSITIONS = 200, LAYERS = 2, HEADS_MAX = 20, COLUMNS_MAX = 2048 };

struct attention_case {
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t window;
    float magnitude; /* of queries: large ones make the softmax sharp */
    float soft_cap;
    bool sinks;
    bool latent;
};

struct history {
    uint32_t columns;
    float *rows[SEQUENCES]; /* [POSITIONS, columns]: the q|k|v row fed at each position */
    float *kept[SEQUENCES]; /* the same with keys and values as the cache keeps them */
};

struct attention_run {
    const struct attention_case *c;
    enum kv_cache_type kv_type;
    struct kv_quantization quantization;
    struct op_fixture *f;
    plan_tensor_id qkv;
    plan_tensor_id out;
    plan_weight_id sinks; /* PLAN_NONE: none */
    struct history history;
};

static struct column_slice slice(uint32_t offset, uint32_t heads, uint32_t head_dim)
{
    return (struct column_slice){offset, heads, head_dim};
}

static void list_ops(struct attention_run *run)
{
    const struct attention_case *c = run->c;
    uint32_t q = c->heads * c->head_dim;
    uint32_t kv = c->kv_heads * c->head_dim;
    uint32_t values_at = c->latent ? 3 + q : 3 + q + kv;
    run->history.columns = values_at + kv; /* 3 unused columns in front */
    run->qkv = plan_sketch_tensor(op_fixture_sketch(run->f), PLAN_ROWS_STEP, run->history.columns);
    run->out = plan_sketch_tensor(op_fixture_sketch(run->f), PLAN_ROWS_STEP, q);
    plan_sketch_set_kv(op_fixture_sketch(run->f), LAYERS, c->kv_heads, c->head_dim, c->window);
    plan_sketch_plan(op_fixture_sketch(run->f))->kv.groups[0].latent = c->latent;
    op_fixture_set_kv_type(run->f, run->kv_type);
    plan_sketch_quantize_kv(op_fixture_sketch(run->f), &run->quantization);
    plan_sketch_append(
        op_fixture_sketch(run->f),
        (struct plan_op){.stem = OP_kv_write,
                         .inputs = {run->qkv, PLAN_NONE},
                         .output = PLAN_NONE,
                         .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
                         .params.kv_write = {slice(3 + q, c->kv_heads, c->head_dim),
                                             slice(values_at, c->kv_heads, c->head_dim), 1}});
    run->sinks = c->sinks ? plan_sketch_weight(op_fixture_sketch(run->f), GGML_F32, 1, c->heads)
                          : (plan_weight_id)PLAN_NONE;
    plan_sketch_append(
        op_fixture_sketch(run->f),
        (struct plan_op){.stem = OP_attention,
                         .inputs = {run->qkv, PLAN_NONE},
                         .output = run->out,
                         .weights = {run->sinks, PLAN_NONE, PLAN_NONE},
                         .params.attention = {slice(3, c->heads, c->head_dim), c->kv_heads, 1,
                                              c->window, 0.125f, c->soft_cap}});
}

/* out [heads * head_dim] of one position of a sequence, from the history. */
static void attend(const struct attention_run *run, uint32_t sequence, uint32_t position,
                   double *out)
{
    const struct attention_case *c = run->c;
    const uint32_t columns = run->history.columns;
    bool early = position < run->quantization.start_tokens;
    const float *rows = (early ? run->history.rows : run->history.kept)[sequence];
    uint32_t begin = c->window > 0 && position + 1 > c->window ? position + 1 - c->window : 0;
    for (uint32_t h = 0; h < c->heads; h++) {
        uint32_t kv_head = h / (c->heads / c->kv_heads);
        const float *query = rows + position * columns + 3 + h * c->head_dim;
        uint32_t key_at = 3 + (c->heads + kv_head) * c->head_dim;
        uint32_t value_at = c->latent ? key_at : key_at + c->kv_heads * c->head_dim;
        double scores[POSITIONS];
        double highest = -INFINITY;
        double total = 0.0;
        for (uint32_t p = begin; p <= position; p++) {
            scores[p] = 0.0;
            for (uint32_t d = 0; d < c->head_dim; d++)
                scores[p] += 0.125 * (double)query[d] * (double)rows[p * columns + key_at + d];
            if (c->soft_cap > 0.0f)
                scores[p] = (double)c->soft_cap * tanh(scores[p] / (double)c->soft_cap);
            highest = fmax(highest, scores[p]);
        }
        memset(out + h * c->head_dim, 0, c->head_dim * sizeof *out);
        for (uint32_t p = begin; p <= position; p++) {
            double weight = exp(scores[p] - highest);
            total += weight;
            for (uint32_t d = 0; d < c->head_dim; d++)
                out[h * c->head_dim + d] += weight * (double)rows[p * columns + value_at + d];
        }
        if (c->sinks) {
            float sinks[HEADS_MAX];
            plan_sketch_weight_row(op_fixture_sketch(run->f), run->sinks, 0, sinks);
            total += exp((double)sinks[h] - highest);
        }
        for (uint32_t d = 0; d < c->head_dim; d++)
            out[h * c->head_dim + d] /= total;
    }
}

/* Makes every element of the blocks entirely before the window a NaN. */
static void spoil_blocks(struct attention_run *run, uint32_t sequence, uint32_t next_position)
{
    const struct kv_pool *pool = &op_fixture_program(run->f)->kv[0];
    const uint32_t *table = op_fixture_block_table(run->f, sequence);
    for (uint32_t b = 0;
         run->c->window > 0 && (b + 1) * KV_BLOCK_TOKENS + run->c->window <= next_position + 1; b++)
        memset(pool->memory + table[b] * pool->block_bytes, 0xff, pool->block_bytes);
}

/* Feeds the next rows of each sequence in one step and checks their outputs. */
static void feed(struct attention_run *run, const uint32_t *positions, const uint32_t *counts)
{
    struct op_fixture_part parts[SEQUENCES];
    uint32_t columns = run->history.columns;
    uint32_t row = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        parts[s] = (struct op_fixture_part){s, counts[s], positions[s]};
        spoil_blocks(run, s, positions[s]);
        for (uint32_t i = 0; i < counts[s]; i++, row++)
            memcpy(op_fixture_row(run->f, run->qkv, row),
                   run->history.rows[s] + (positions[s] + i) * columns, columns * sizeof(float));
    }
    op_fixture_poison(run->f, run->out, row);
    op_fixture_step(run->f, parts, SEQUENCES, NULL, NULL, 0);
    row = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t i = 0; i < counts[s]; i++, row++) {
            double expected[COLUMNS_MAX];
            attend(run, s, positions[s] + i, expected);
            row_expect_close("attention", op_fixture_row(run->f, run->out, row), expected,
                             run->c->heads * run->c->head_dim,
                             (double)op_facts(OP_attention)->tolerance);
        }
    }
}

/* Queries of the case's magnitude; keys and values that the cache's type holds exactly, so that
 * only arithmetic differs. */
static void fill_history(struct attention_run *run, float *rows, size_t count)
{
    uint32_t queries_end = 3 + run->c->heads * run->c->head_dim;
    for (size_t i = 0; i < count; i++) {
        float value = plan_sketch_uniform(op_fixture_sketch(run->f));
        if (i % run->history.columns < queries_end)
            rows[i] = value * run->c->magnitude;
        else if (run->kv_type == KV_CACHE_F16)
            rows[i] = ggml_f16_to_f32(ggml_f32_to_f16(value));
        else
            rows[i] = value;
    }
}

/* Replaces x [head_dim] by its decoded codes. */
static void keep_row(const struct kv_side *side, float *x)
{
    uint8_t *block = calloc(side->bytes, 1);
    kv_codec_encode(side, x, 3, block);
    kv_codec_decode(side, block, 3, x);
    if (side->rotated)
        kv_rotation_invert(&side->rotation, x);
    free(block);
}

static void keep_history(struct attention_run *run, uint32_t sequence)
{
    const struct attention_case *c = run->c;
    struct kv_codec codec;
    if (run->quantization.scheme == KV_QUANT_NONE)
        return;
    kv_codec_init(&codec, &run->quantization, c->head_dim);
    for (uint32_t p = 0; p < POSITIONS; p++) {
        float *heads = run->history.kept[sequence] + (size_t)p * run->history.columns + 3;
        for (uint32_t h = 0; h < c->kv_heads; h++) {
            keep_row(&codec.key, heads + (c->heads + h) * c->head_dim);
            keep_row(&codec.value, heads + (c->heads + c->kv_heads + h) * c->head_dim);
        }
    }
    kv_codec_fini(&codec);
}

static void make_history(struct attention_run *run, uint32_t sequence)
{
    size_t count = (size_t)POSITIONS * run->history.columns;
    run->history.rows[sequence] = malloc(count * sizeof(float));
    run->history.kept[sequence] = malloc(count * sizeof(float));
    fill_history(run, run->history.rows[sequence], count);
    memcpy(run->history.kept[sequence], run->history.rows[sequence], count * sizeof(float));
    keep_history(run, sequence);
}

static void check(const struct attention_case *c, enum kv_cache_type kv_type,
                  const struct kv_quantization *quantization, enum cpu_tier tier)
{
    static const uint32_t chunks[][SEQUENCES] = {{33, 1}, {1, 17}, {70, 64}, {1, 1}, {5, 90}};
    uint32_t positions[SEQUENCES] = {0};
    struct attention_run run = {.c = c,
                                .kv_type = kv_type,
                                .quantization = *quantization,
                                .f = op_fixture_create(c->head_dim)};
    list_ops(&run);
    if (op_fixture_open(run.f, tier, 2)) {
        for (uint32_t s = 0; s < SEQUENCES; s++)
            make_history(&run, s);
        for (uint32_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
            feed(&run, positions, chunks[i]);
            for (uint32_t s = 0; s < SEQUENCES; s++)
                positions[s] += chunks[i][s];
        }
        for (uint32_t s = 0; s < SEQUENCES; s++) {
            free(run.history.rows[s]);
            free(run.history.kept[s]);
        }
        op_fixture_close(run.f);
    }
    op_fixture_destroy(run.f);
}

/* Whether a tier before it, which this CPU has, computes attention with the same kernel. */
static bool shares_attention(uint32_t tier)
{
    const struct cpu_kernels *kernels = cpu_kernels_choose(op_fixture_tier(tier));
    for (uint32_t t = 0; kernels && t < tier; t++) {
        const struct cpu_kernels *before = cpu_kernels_choose(op_fixture_tier(t));
        if (before && before->attention == kernels->attention)
            return true;
    }
    return false;
}

static void test_against_double(void **state)
{
    (void)state;
    static const struct attention_case cases[] = {
        {9, 3, 64, 0, 1.0f, 0, false, false},  {4, 1, 256, 40, 1.0f, 0, true, false},
        {2, 2, 20, 7, 10.0f, 0, true, false},  {3, 1, 5, 0, 100.0f, 0, false, false},
        {20, 1, 16, 64, 3.0f, 0, true, false}, {1, 1, 64, 1, 1.0f, 0, true, false},
        {8, 4, 64, 0, 30.0f, 5, false, false}, {4, 2, 20, 16, 2.0f, 50, true, false},
        {3, 1, 576, 0, 1.0f, 0, false, true},  {20, 1, 44, 0, 10.0f, 0, false, true},
    };
    static const struct kv_quantization full = {.scheme = KV_QUANT_NONE};
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++)
        for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            for (uint32_t type = KV_CACHE_F16; type <= KV_CACHE_F32 && !shares_attention(tier);
                 type++)
                check(&cases[i], (enum kv_cache_type)type, &full, op_fixture_tier(tier));
}

/* Every kind of code and number of queries in a call; the last two with a quantization start: rows
 * see decoded codes after it, and unquantized values before it. */
static void test_quantized_against_double(void **state)
{
    (void)state;
    static const struct {
        struct attention_case c;
        struct kv_quantization quantization;
    } cases[] = {
        {{9, 3, 64, 0, 1.0f, 0, false, false}, {KV_QUANT_UNIFORM, 16, 8, 0, 0}},
        {{4, 1, 128, 0, 3.0f, 0, true, false}, {KV_QUANT_UNIFORM, 10, 6, 32, 0}},
        {{5, 5, 80, 0, 1.0f, 5, false, false}, {KV_QUANT_UNIFORM, 4, 12, 0, 0}},
        {{8, 2, 64, 0, 1.0f, 0, false, false}, {KV_QUANT_UNIFORM, 14, 14, 0, 0}},
        {{6, 3, 64, 0, 10.0f, 0, false, false}, {KV_QUANT_TURBOQUANT, 6, 8, 0, 0}},
        {{5, 1, 128, 0, 1.0f, 0, true, false}, {KV_QUANT_TURBOQUANT, 7, 3, 0, 0}},
        {{8, 2, 80, 0, 1.0f, 50, false, false}, {KV_QUANT_TURBOQUANT, 8, 4, 0, 0}},
        {{20, 1, 16, 0, 3.0f, 0, true, false}, {KV_QUANT_TURBOQUANT, 2, 5, 0, 0}},
        {{9, 3, 64, 0, 3.0f, 0, false, false}, {KV_QUANT_TURBOQUANT, 6, 8, 0, 40}},
        {{4, 1, 128, 0, 1.0f, 0, true, false}, {KV_QUANT_UNIFORM, 4, 4, 0, 83}},
    };
    for (uint32_t tier = 0; tier < OP_FIXTURE_TIERS; tier++)
        for (uint32_t i = 0; i < sizeof cases / sizeof cases[0] && !shares_attention(tier); i++)
            check(&cases[i].c, KV_CACHE_F16, &cases[i].quantization, op_fixture_tier(tier));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_double),
                                       cmocka_unit_test(test_quantized_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
