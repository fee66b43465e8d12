/*
 * Activations as 8-bit codes: the q8 form that kernels hand to linear ops. Per 32 columns
 * d = largest magnitude / 127, code = round(x / d), and {d, d * sum of codes} beside them; per row
 * the codes are contiguous bytes.
 *
 * Here a group of 32 columns is quantized by neighbouring invocations of a subgroup, each holding
 * `count` consecutive columns (4, 8, 16 or 32; q8_lanes(count) of them share a group), so that any
 * subgroup of at least 8 can do it with 4 columns each. All invocations of a subgroup take part.
 *
 *     float largest = largest magnitude of this invocation's columns
 *     Q8Scale s = q8_scale(q8_group_max(largest, lanes));
 *     uint codes = q8_pack(x, s);                      of 4 columns
 *     vec2 terms = q8_terms(s, q8_group_sum(sum of q8_code_sum(codes), lanes));
 *
 * A group of zeros has d = 0. Infinite or NaN inputs give unspecified codes and no access
 * out of bounds.
 */
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#ifdef GL_EXT_integer_dot_product
#extension GL_EXT_integer_dot_product : require
#else
/* Compilers before glslang 15.2: the same instruction, OpSDot of SPIR-V 1.6, by its number. */
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(capabilities = [6019, 6018], id = 4450)
int dotPacked4x8EXT(int a, int b, spirv_literal int packed_4x8);
#define dotPacked4x8EXT(a, b) dotPacked4x8EXT(a, b, 0)
#endif

/* Columns that share a scale. */
const uint Q8_BLOCK = 32;

struct Q8Scale {
    float d;
    float inverse;
};

uint q8_lanes(uint count)
{
    return Q8_BLOCK / count;
}

/* Maximum over `lanes` (a power of two) neighbouring invocations, from a multiple of `lanes` on. */
float q8_group_max(float value, uint lanes)
{
    for (uint step = 1; step < lanes; step *= 2)
        value = max(value, subgroupShuffleXor(value, step));
    return value;
}

int q8_group_sum(int value, uint lanes)
{
    for (uint step = 1; step < lanes; step *= 2)
        value += subgroupShuffleXor(value, step);
    return value;
}

float q8_magnitude(vec4 x)
{
    vec4 a = abs(x);
    return max(max(a.x, a.y), max(a.z, a.w));
}

Q8Scale q8_scale(float largest)
{
    Q8Scale s;
    s.d = largest * (1.0 / 127.0);
    s.inverse = largest > 0.0 ? 127.0 / largest : 0.0;
    return s;
}

/* Codes of four columns, the first in the lowest byte. */
uint q8_pack(vec4 x, Q8Scale s)
{
    ivec4 codes = ivec4(clamp(roundEven(x * s.inverse), vec4(-127.0), vec4(127.0))) & 0xFF;
    return uint(codes.x | codes.y << 8 | codes.z << 16 | codes.w << 24);
}

int q8_code_sum(uint codes)
{
    return dotPacked4x8EXT(int(codes), 0x01010101);
}

vec2 q8_terms(Q8Scale s, int code_sum)
{
    return vec2(s.d, s.d * float(code_sum));
}
