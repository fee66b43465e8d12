/*
 * A number is a sum of four uniform ones about 0: close to the normal distribution that codebooks
 * are made for. Rows differ in size, so scales differ too.
 */
#include "tests/support/kv_noise.h"

#include "proto/ggml_half.h"
#include "worker/plan/kv_layout.h"
#include "worker/sample/uniform.h"

#define SEED  0x53484F414C4E4F49ull /* "SHOALNOI" */
#define SIZES 4u                    /* of rows: 1, 2, 3, 4 quarters */

/* The row `number` of a stream: x [dim]. */
static void make_row(uint32_t number, enum kv_noise_stream stream, uint32_t dim, float *x)
{
    float size = (float)(number % SIZES + 1) / SIZES;
    for (uint32_t d = 0; d < dim; d++) {
        const struct philox_block block =
            uniform_philox((struct philox_block){{d, number, (uint32_t)stream, 0}}, SEED);
        float sum = 0.0f;
        for (uint32_t i = 0; i < 4; i++)
            sum += (float)(block.word[i] >> 8) * 0x1p-24f - 0.5f;
        x[d] = size * sum;
    }
}

void kv_noise_codes(const struct kv_side *side, enum kv_noise_stream stream, uint32_t count,
                    uint8_t *sides)
{
    float row[LIMIT_HEAD_DIM];
    for (uint32_t i = 0; i < count * KV_BLOCK_TOKENS; i++) {
        make_row(i, stream, side->head_dim, row);
        kv_codec_encode(side, row, i % KV_BLOCK_TOKENS,
                        sides + (size_t)(i / KV_BLOCK_TOKENS) * side->bytes);
    }
}

void kv_noise_halves(uint32_t head_dim, enum kv_noise_stream stream, uint32_t count,
                     uint16_t *halves)
{
    float row[LIMIT_HEAD_DIM];
    for (uint32_t i = 0; i < count * KV_BLOCK_TOKENS; i++) {
        make_row(i, stream, head_dim, row);
        for (uint32_t d = 0; d < head_dim; d++)
            *halves++ = ggml_f32_to_f16(row[d]);
    }
}
