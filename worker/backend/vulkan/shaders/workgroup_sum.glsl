/*
 * Sums over a workgroup, in an order that depends on the workgroup's shape only.
 */
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

shared float workgroup_sums[gl_WorkGroupSize.x];

/* The sum of every invocation's `value`, returned to all. Called by the whole workgroup, any number of
 * times. */
float workgroup_sum(float value)
{
    value = subgroupAdd(value);
    barrier();
    if (gl_SubgroupInvocationID == 0)
        workgroup_sums[gl_SubgroupID] = value;
    barrier();
    float total = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize)
        total += workgroup_sums[i];
    return subgroupAdd(total);
}
