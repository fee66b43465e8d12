/*
 * What a workgroup of the sampler finds out together. Every function is called by all of its
 * invocations, in uniform control flow, and gives all of them the same answer (but the prefix).
 */
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

shared uint64_t group_sums[gl_WorkGroupSize.x];
shared uint group_words[2];

/* The largest key and the lowest token that has it. */
void group_best(inout uint best_key, inout uint best_token)
{
    uint subgroup_key = subgroupMax(best_key);
    barrier();
    if (gl_LocalInvocationID.x == 0) {
        group_words[0] = 0;
        group_words[1] = 0xFFFFFFFFu;
    }
    barrier();
    if (subgroupElect())
        atomicMax(group_words[0], subgroup_key);
    barrier();
    uint largest = group_words[0];
    uint token = subgroupMin(best_key == largest ? best_token : 0xFFFFFFFFu);
    if (subgroupElect())
        atomicMin(group_words[1], token);
    barrier();
    best_key = largest;
    best_token = group_words[1];
}

/* Sum of all values. */
uint64_t group_sum(uint64_t value)
{
    /* In pieces whose sums fit 32 bits, because subgroups may not know longer integers. */
    uint64_t sum = 0;
    for (uint piece = 0; piece < 4; piece++)
        sum += uint64_t(subgroupAdd(uint(value >> 16 * piece) & 0xFFFFu)) << 16 * piece;
    barrier();
    if (subgroupElect())
        group_sums[gl_SubgroupID] = sum;
    barrier();
    sum = 0;
    for (uint i = 0; i < gl_NumSubgroups; i++)
        sum += group_sums[i];
    return sum;
}

/* Sum of the values of lower invocations. */
uint64_t group_prefix(uint64_t value)
{
    uint at = gl_LocalInvocationID.x;
    barrier();
    group_sums[at] = value;
    barrier();
    for (uint step = 1; step < gl_WorkGroupSize.x; step *= 2) {
        uint64_t before = at >= step ? group_sums[at - step] : 0;
        barrier();
        group_sums[at] += before;
        barrier();
    }
    return group_sums[at] - value;
}

/* The lowest of all values. */
uint group_lowest(uint value)
{
    uint lowest = subgroupMin(value);
    barrier();
    if (gl_LocalInvocationID.x == 0)
        group_words[0] = 0xFFFFFFFFu;
    barrier();
    if (subgroupElect())
        atomicMin(group_words[0], lowest);
    barrier();
    return group_words[0];
}
