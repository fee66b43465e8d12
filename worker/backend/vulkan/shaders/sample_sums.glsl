/*
 * Reductions over a workgroup of the sampler: each subgroup first, then all through shared memory. Every
 * function is called by all invocations, in uniform control flow, and returns the same result to all of
 * them (except the prefix sum).
 */
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

/* One per subgroup; a subgroup has at least four invocations. */
shared uint64_t group_sums[gl_WorkGroupSize.x / 4];
shared uint group_keys[gl_WorkGroupSize.x / 4];
shared uint group_tokens[gl_WorkGroupSize.x / 4];

/* The largest key and the lowest token that has it. */
void group_best(inout uint best_key, inout uint best_token)
{
    uint subgroup_key = subgroupMax(best_key);
    uint subgroup_token = subgroupMin(best_key == subgroup_key ? best_token : NO_TOKEN);
    barrier();
    if (subgroupElect()) {
        group_keys[gl_SubgroupID] = subgroup_key;
        group_tokens[gl_SubgroupID] = subgroup_token;
    }
    barrier();
    best_key = 0;
    best_token = NO_TOKEN;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
        if (group_keys[i] > best_key)
            best_token = NO_TOKEN;
        if (group_keys[i] >= best_key)
            best_token = min(best_token, group_tokens[i]);
        best_key = max(best_key, group_keys[i]);
    }
    uint own_key = best_key;
    best_key = subgroupMax(best_key);
    best_token = subgroupMin(own_key == best_key ? best_token : NO_TOKEN);
}

/* The lowest of all values. */
uint group_lowest(uint value)
{
    uint lowest = subgroupMin(value);
    barrier();
    if (subgroupElect())
        group_keys[gl_SubgroupID] = lowest;
    barrier();
    lowest = NO_TOKEN;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize)
        lowest = min(lowest, group_keys[i]);
    return subgroupMin(lowest);
}

/* 64-bit sums are computed in pieces of 22 bits, whose sums over a subgroup fit 32, because subgroup
 * operations on 64-bit integers are optional. */
uint64_t subgroup_sum(uint64_t value)
{
    uint64_t low = subgroupAdd(uint(value) & 0x3FFFFFu);
    uint64_t middle = subgroupAdd(uint(value >> 22) & 0x3FFFFFu);
    uint64_t high = subgroupAdd(uint(value >> 44));
    return low + (middle << 22) + (high << 44);
}

uint64_t subgroup_prefix(uint64_t value)
{
    uint64_t low = subgroupExclusiveAdd(uint(value) & 0x3FFFFFu);
    uint64_t middle = subgroupExclusiveAdd(uint(value >> 22) & 0x3FFFFFu);
    uint64_t high = subgroupExclusiveAdd(uint(value >> 44));
    return low + (middle << 22) + (high << 44);
}

/* Sum of all values. */
uint64_t group_sum(uint64_t value)
{
    uint64_t sum = subgroup_sum(value);
    barrier();
    if (subgroupElect())
        group_sums[gl_SubgroupID] = sum;
    barrier();
    sum = 0;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize)
        sum += group_sums[i];
    return subgroup_sum(sum);
}

/* Sum of the values of lower invocations. */
uint64_t group_prefix(uint64_t value)
{
    uint64_t before = subgroup_prefix(value);
    barrier();
    if (gl_SubgroupInvocationID == gl_SubgroupSize - 1)
        group_sums[gl_SubgroupID] = before + value;
    barrier();
    uint64_t lower = 0;
    for (uint i = gl_SubgroupInvocationID; i < gl_SubgroupID; i += gl_SubgroupSize)
        lower += group_sums[i];
    return subgroup_sum(lower) + before;
}
