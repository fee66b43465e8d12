/*
 * The paged cache: per layer one region for keys and one for values, each f16
 * [physical block][kv head][KV_BLOCK_TOKENS][head_dim]. A sequence's block table gives the physical
 * block of each KV_BLOCK_TOKENS positions (step.glsl).
 *
 * Values are clamped to the finite range of f16 (a NaN becomes 0), so no stored number is infinite.
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "step.glsl"

const float KV_LARGEST = 65504.0;

layout(buffer_reference, std430, buffer_reference_align = 16) buffer KvPieces { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer KvElements { float16_t at[]; };

/* Address of the first element of one position's key or value in a region. */
uint64_t kv_address(uint64_t region, uint block, uint kv_heads, uint kv_head, uint slot,
                    uint head_dim)
{
    uint64_t row = (uint64_t(block) * kv_heads + kv_head) * KV_BLOCK_TOKENS + slot;
    return region + row * (2 * head_dim);
}

float kv_hold(float x)
{
    float held = min(max(x, -KV_LARGEST), KV_LARGEST);
    return held == held ? held : 0.0;
}
