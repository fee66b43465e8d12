/*
 * A random number that can be computed again: a request that is preempted, replayed after a crash
 * or moved to another worker must draw the same tokens. There is no generator state to save,
 * because the number is a function of the request's seed (the key) and the token's position (the
 * counter).
 *
 * Ten rounds of Philox pass the usual test batteries and cost about fifty instructions, which is
 * negligible beside a row of logits. It is not a cryptographic generator.
 */
#include "worker/sample/uniform.h"

#include "worker/sample/row_sampler.h"

#define PHILOX_ROUNDS 10

static struct philox_block philox_round(struct philox_block x, uint32_t key0, uint32_t key1)
{
    uint64_t product0 = (uint64_t)0xD2511F53u * x.word[0];
    uint64_t product1 = (uint64_t)0xCD9E8D57u * x.word[2];
    return (struct philox_block){{
        (uint32_t)(product1 >> 32) ^ x.word[1] ^ key0,
        (uint32_t)product1,
        (uint32_t)(product0 >> 32) ^ x.word[3] ^ key1,
        (uint32_t)product0,
    }};
}

struct philox_block uniform_philox(struct philox_block counter, uint64_t key)
{
    uint32_t key0 = (uint32_t)key;
    uint32_t key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        counter = philox_round(counter, key0, key1);
        key0 += 0x9E3779B9u; /* the golden ratio's fraction */
        key1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    return counter;
}

/* 24 bits of a word of the block: every value is exact in f32 and 1 is never reached. */
static float word_draw(uint64_t seed, uint32_t position, uint32_t word)
{
    struct philox_block block = uniform_philox((struct philox_block){{position, 0, 0, 0}}, seed);
    return (float)(block.word[word] >> 8) * 0x1p-24f;
}

float uniform_draw(uint64_t seed, uint32_t position)
{
    return word_draw(seed, position, 0);
}

float uniform_coin(uint64_t seed, uint32_t position)
{
    return word_draw(seed, position, 1);
}
