/*
 * A block of quantized weights times the q8 activations of the same 32 columns, by packed dots. The
 * includer has included q8_blocks.glsl and weight_blocks.glsl and defined HAS_DOT: packed dots in
 * hardware.
 *
 * A sum of packed dots begins at the bits of 1.5 * 2^23, so that it is a float after one subtraction:
 * sums stay below 2^22.
 */
const int DOT_BEGIN = 0x4B400000;
const float DOT_BEGIN_VALUE = 12582912.0;

int dot4(uint codes, uint activations, int sum)
{
    if (HAS_DOT)
        return sum + dotPacked4x8EXT(int(codes), int(activations));
    ivec4 shift = ivec4(24, 16, 8, 0);
    ivec4 a = ivec4(int(codes)) << shift >> 24;
    ivec4 b = ivec4(int(activations)) << shift >> 24;
    ivec4 products = a * b;
    return sum + products.x + products.y + products.z + products.w;
}

float dot_value(int sum)
{
    return intBitsToFloat(sum) - DOT_BEGIN_VALUE;
}

/* {d * sum} of columns 0..15, which kinds with two spans need. */
float first_span_sum(uint codes[8], vec2 terms)
{
    if (WEIGHT_SPANS == 1)
        return 0.0;
    int sum = DOT_BEGIN;
    [[unroll]] for (uint j = 0; j < 4; j++)
        sum = dot4(0x01010101u, codes[j], sum);
    return terms.x * dot_value(sum);
}

/* The product of block `w`, whose codes are `weight`, with one row's activations. */
float block_product(WeightBlock w, uint weight[8], uint codes[8], vec2 terms, float first_sum)
{
    int dots[2] = {DOT_BEGIN, DOT_BEGIN};
    [[unroll]] for (uint j = 0; j < 8; j++)
        dots[WEIGHT_SPANS == 2 ? j / 4 : 0] =
            dot4(weight[j], codes[j], dots[WEIGHT_SPANS == 2 ? j / 4 : 0]);
    vec2 first = weight_terms(w, 0);
    if (WEIGHT_SPANS == 1)
        return first.x * terms.x * dot_value(dots[0]) + first.y * terms.y;
    vec2 second = weight_terms(w, 1);
    return terms.x * (first.x * dot_value(dots[0]) + second.x * dot_value(dots[1])) +
           first.y * first_sum + second.y * (terms.y - first_sum);
}
