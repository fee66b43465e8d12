/*
 * Cosine and sine of a rotary angle, as close to the C library's as f32 allows at every position.
 *
 * The angle is the f32 product position * inverse frequency, up to a million radians, and the
 * hardware's functions are accurate near zero only. So the angle is reduced to a fraction of a turn in
 * integers: the product of its 24-bit mantissa with 2^64 / (2 pi), shifted by its exponent, keeps
 * 32 fraction bits, an error below 2e-9 radians. The rest, at most an eighth of a turn from a multiple
 * of a quarter, goes through short polynomials (errors below 1e-7).
 */
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

/* 2^64 / (2 pi), upper and lower half. */
const uint ROPE_TURN_HIGH = 0x28BE60DBu;
const uint ROPE_TURN_LOW = 0x9391054Au;

/* Turns in `angle` >= 0, without the whole ones, in units of 2^-32. */
uint rope_turn(float angle)
{
    uint bits = floatBitsToUint(angle);
    uint mantissa = (bits & 0x7FFFFFu) | 0x800000u;
    int exponent = int(bits >> 23 & 0xFFu) - 150;
    uint64_t product = uint64_t(mantissa) * ROPE_TURN_HIGH +
                       (uint64_t(mantissa) * ROPE_TURN_LOW >> 32);
    return uint(exponent < 0 ? product >> min(-exponent, 63) : product << min(exponent, 63));
}

/* {cos, sin}; a subnormal angle counts as 0, an infinite one gives some point of the circle. */
vec2 rope_cos_sin(float angle)
{
    uint turn = rope_turn(abs(angle));
    uint quarter = turn + 0x20000000u >> 30;
    float x = float(int(turn - (quarter << 30))) * 1.4629180792671596e-9; /* 2 pi / 2^32 */
    float y = x * x;
    float s = x + x * y * (-1.6666654611e-1 + y * (8.3321608736e-3 - y * 1.9515295891e-4));
    float c = 1.0 - 0.5 * y +
              y * y * (4.166664568298827e-2 + y * (-1.388731625493765e-3 + y * 2.443315711809948e-5));
    vec2 cs = (quarter & 1u) == 0 ? vec2(c, s) : vec2(-s, c);
    cs = (quarter & 2u) == 0 ? cs : -cs;
    return vec2(cs.x, angle < 0.0 ? -cs.y : cs.y);
}

const uint ROPE_PAIRS_ADJACENT = 0, ROPE_PAIRS_HALVES = 1;

/* The two elements that work item `pair` of a head has: a rotated pair, or beyond `dims` two
 * neighbours that stay as they are (the second may lie beyond the head). */
uvec2 rope_pair_elements(uint pair, uint dims, uint pairing)
{
    bool halves = pairing == ROPE_PAIRS_HALVES && pair < dims / 2;
    return halves ? uvec2(pair, pair + dims / 2) : uvec2(2 * pair, 2 * pair + 1);
}

vec2 rope_rotate(vec2 x, vec2 cs)
{
    return vec2(x.x * cs.x - x.y * cs.y, x.x * cs.y + x.y * cs.x);
}

/* The same with an angle of its own for the second element. */
vec2 rope_rotate_divided(vec2 x, vec2 first, vec2 second)
{
    return vec2(x.x * first.x - x.y * first.y, x.x * second.y + x.y * second.x);
}
