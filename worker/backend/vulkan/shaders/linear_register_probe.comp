#version 450
// needs: GL_KHR_cooperative_matrix
/*
 * Which lane of a subgroup holds which element of a matrix unit's fragments, for linear_register.comp:
 * loads 256 numbered elements as A [16, 16], as B [16, 8] and as sums [16, 8]. Every lane writes the 8,
 * 4 and 4 elements that it holds as out[lane][16].
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require

layout(local_size_x_id = 0) in;
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Elements { uint at[]; };
layout(push_constant) uniform Push { uint64_t elements; } push; /* [lanes][16] */

shared float16_t halves[256];
shared float floats[256];

void main()
{
    for (uint i = gl_LocalInvocationIndex; i < 256; i += gl_WorkGroupSize.x) {
        halves[i] = float16_t(i);
        floats[i] = float(i);
    }
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> b;
    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums;
    coopMatLoad(a, halves, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, halves, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(sums, floats, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    uint first = gl_SubgroupInvocationID * 16;
    if (gl_SubgroupID != 0)
        return;
    for (int i = 0; i < 8; i++)
        Elements(push.elements).at[first + i] = i < a.length() ? uint(a[i]) : ~0u;
    for (int i = 0; i < 4; i++)
        Elements(push.elements).at[first + 8 + i] = i < b.length() ? uint(b[i]) : ~0u;
    for (int i = 0; i < 4; i++)
        Elements(push.elements).at[first + 12 + i] = i < sums.length() ? uint(sums[i]) : ~0u;
}
