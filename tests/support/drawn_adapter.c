#include "tests/support/drawn_adapter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/ggml_half.h"
#include "proto/limits.h"
#include "proto/must.h"
#include "worker/backend/host/ggml_dequantize.h"

#define Q8_COLUMNS 32u

static void put_u16(uint8_t *at, uint16_t value)
{
    memcpy(at, &value, sizeof value);
}

static void put_number(enum ggml_type type, uint8_t *row, uint32_t column, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == GGML_F32)
        memcpy(row + (size_t)column * 4, &value, sizeof value);
    else
        put_u16(row + (size_t)column * 2,
                type == GGML_F16 ? ggml_f32_to_f16(value) : (uint16_t)(bits >> 16));
}

static float draw_number(struct test_random *random, float size)
{
    return size * ((float)test_random_below(random, 2001) / 1000.0f - 1.0f);
}

static void draw_q8_row(struct test_random *random, uint8_t *row, uint32_t columns, float size)
{
    for (uint32_t block = 0; block < columns / Q8_COLUMNS; block++, row += 2 + Q8_COLUMNS) {
        put_u16(row, ggml_f32_to_f16(size / 127.0f));
        for (uint32_t c = 0; c < Q8_COLUMNS; c++)
            row[2 + c] = (uint8_t)(test_random_below(random, 255) - 127);
    }
}

static struct lora_matrix draw_matrix(struct test_random *random, uint32_t rows, uint32_t columns,
                                      float size)
{
    static const enum ggml_type types[] = {GGML_F32, GGML_F16, GGML_BF16, GGML_Q8_0};
    enum ggml_type type = types[test_random_below(random, columns % Q8_COLUMNS == 0 ? 4 : 3)];
    uint64_t row_bytes = ggml_row_bytes(type, columns);
    uint8_t *data = must_alloc(rows, row_bytes);
    for (uint32_t r = 0; r < rows; r++) {
        if (type == GGML_Q8_0)
            draw_q8_row(random, data + r * row_bytes, columns, size);
        for (uint32_t c = 0; c < columns && type != GGML_Q8_0; c++)
            put_number(type, data + r * row_bytes, c, draw_number(random, size));
    }
    return (struct lora_matrix){.type = type, .rows = rows, .columns = columns, .data = data};
}

static uint32_t draw_rank(struct test_random *random)
{
    static const uint32_t ranks[] = {1, 2, 3, 8, 16, 33, 64, LIMIT_ADAPTER_RANK};
    return ranks[test_random_below(random, sizeof ranks / sizeof *ranks)];
}

/* Whether a linear op multiplies with it. */
static bool is_projection(const struct plan *plan, uint32_t weight)
{
    for (uint32_t i = 0; i < plan->op_count; i++)
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX; w++)
            if ((plan->ops[i].stem == OP_linear || plan->ops[i].stem == OP_linear_add) &&
                plan->ops[i].weights[w] == weight)
                return true;
    return false;
}

static void draw_pair(struct lora_adapter *adapter, const struct plan *plan, uint32_t weight,
                      struct test_random *random, uint32_t rank)
{
    uint32_t rows = plan->weights[weight].rows, columns = plan->weights[weight].columns;
    uint32_t own = rank > 0 ? rank : draw_rank(random);
    /* Sums of so many products that what the pair adds has about the size of the projection's
     * output. */
    float size = sqrtf(1.5f / sqrtf((float)columns * (float)own));
    adapter->rank = own > adapter->rank ? own : adapter->rank;
    adapter->pairs[adapter->pair_count++] =
        (struct lora_pair){.weight = (plan_weight_id)weight,
                           .scale = 0.5f + (float)test_random_below(random, 100) / 100.0f,
                           .a = draw_matrix(random, own, columns, size),
                           .b = draw_matrix(random, rows, own, size)};
}

void drawn_adapter_init(struct lora_adapter *adapter, const struct plan *plan,
                        struct test_random *random, uint32_t rank)
{
    *adapter =
        (struct lora_adapter){.pairs = must_alloc(plan->weight_count + 1, sizeof *adapter->pairs)};
    while (adapter->pair_count == 0)
        for (uint32_t w = 0; w < plan->weight_count; w++)
            if (is_projection(plan, w) && test_random_below(random, 3) > 0)
                draw_pair(adapter, plan, w, random, rank);
}

void drawn_adapter_fini(struct lora_adapter *adapter)
{
    for (uint32_t i = 0; i < adapter->pair_count; i++) {
        free((void *)(uintptr_t)adapter->pairs[i].a.data);
        free((void *)(uintptr_t)adapter->pairs[i].b.data);
    }
    free(adapter->pairs);
}
