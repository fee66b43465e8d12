/*
 * Random keys and values: the same rows as codes and in full precision, every code used, rows
 * different from each other, keys different from values, and the same result each time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "proto/ggml_half.h"
#include "proto/must.h"
#include "tests/support/kv_noise.h"
#include "worker/plan/kv_layout.h"

enum { DIM = 64, COUNT = 8, ROWS = COUNT * KV_BLOCK_TOKENS };

static uint16_t *make_halves(enum kv_noise_stream stream)
{
    uint16_t *halves = must_alloc(ROWS * DIM, sizeof *halves);
    kv_noise_halves(DIM, stream, COUNT, halves);
    return halves;
}

static void test_rows_are_the_same_each_time_and_differ(void **state)
{
    (void)state;
    uint16_t *keys = make_halves(KV_NOISE_KEYS), *again = make_halves(KV_NOISE_KEYS);
    uint16_t *values = make_halves(KV_NOISE_VALUES);
    const size_t row = DIM * sizeof *keys;
    assert_memory_equal(keys, again, ROWS * row);
    for (uint32_t r = 0; r < ROWS; r++) {
        assert_memory_not_equal(keys + r * DIM, values + r * DIM, row);
        for (uint32_t other = 0; other < r; other++)
            assert_memory_not_equal(keys + r * DIM, keys + other * DIM, row);
    }
    free(keys);
    free(again);
    free(values);
}

static void test_codes_stand_for_those_rows(void **state)
{
    (void)state;
    static const struct kv_quantization quantization = {KV_QUANT_UNIFORM, 16, 8, 0, 0};
    struct kv_codec codec;
    kv_codec_init(&codec, &quantization, DIM);
    uint16_t *values = make_halves(KV_NOISE_VALUES);
    uint8_t *sides = must_alloc(COUNT, codec.value.bytes);
    uint32_t used[16] = {0};
    kv_noise_codes(&codec.value, KV_NOISE_VALUES, COUNT, sides);
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint8_t *side = sides + r / KV_BLOCK_TOKENS * codec.value.bytes;
        float row[DIM];
        kv_codec_decode(&codec.value, side, r % KV_BLOCK_TOKENS, row);
        for (uint32_t d = 0; d < DIM; d++) /* numbers within 2, in fifteen steps */
            assert_true(fabsf(row[d] - ggml_f16_to_f32(values[r * DIM + d])) < 0.14f);
        for (uint32_t i = 0; i < DIM / 2; i++) {
            uint8_t two = side[r % KV_BLOCK_TOKENS * codec.value.code_bytes + i];
            used[two & 15]++;
            used[two >> 4]++;
        }
    }
    for (uint32_t code = 0; code < 16; code++)
        assert_in_range(used[code], ROWS / 2, ROWS * DIM / 4);
    free(values);
    free(sides);
    kv_codec_fini(&codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_the_same_each_time_and_differ),
        cmocka_unit_test(test_codes_stand_for_those_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
