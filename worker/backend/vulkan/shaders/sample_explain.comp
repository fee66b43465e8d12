#version 450
/*
 * Log-probabilities of rows for which the draw's result is not enough: rows that report the most likely
 * tokens, rows with a forced token, and rows that biases and penalties have changed. Reports the row as
 * the model gives it: the logit of the drawn or forced token and its rank, the largest logit, the sum
 * that softmax divides by, and the best tokens with their logits. The host takes logarithms
 * (vulkan_sampler.c).
 *
 * The best tokens come from the same list as draws; if it overflows (flat rows, many equal logits), a
 * search finds the last of them.
 *
 * Grid: (rows), after the draws.
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in; /* a power of two, at most 512 */

#include "sample_rows.glsl"
#include "sample_sums.glsl"

uint row;
SampleRecord record;
float largest;
float span; /* from the largest logit to the lowest block's largest */

uint block_count()
{
    return push.chunk_count * SCANNERS;
}

#include "sample_parts.glsl"
#include "sample_list.glsl"

uint64_t last_code; /* of the best tokens */

bool may_reach(uint block_bits)
{
    return code(key(block_bits), 0) <= last_code;
}

bool takes_part(uint bits, uint token)
{
    return code(key(bits), token) <= last_code;
}

void add_candidate(uint64_t value);

void meet_other(uint bits, uint token, float w)
{
    add_candidate(code(key(bits), token));
}

#include "sample_search.glsl"
#include "sample_top.glsl"

/* Makes a sorted list that begins with the `wanted` best tokens; returns their number. */
uint list_best(uint wanted)
{
    bool is_all;
    uint count = list_top(wanted, is_all);
    if (count <= CAPACITY)
        return min(count, wanted);
    deal_row(0.0);
    search(true, wanted - 1);
    last_code = found_code;
    barrier();
    pass_over_row(PASS_OTHER, Range(0, NO_BIN, 0, 0, 0));
    count = gathered_count;
    sort_candidates(count);
    return count;
}

/* Reports those of the list's first `count` tokens that have a weight. */
void report_best(uint count)
{
    uint at = gl_LocalInvocationID.x;
    uint end = count;
    if (at < count) {
        uint64_t found = candidate(at);
        uint bits = floatBitsToUint(logit_of(~uint(found >> 32)));
        SampleResults(push.results).at[row].best[at] = uvec2(uint(found), bits);
        if (!(weight(bits, largest, 1.0) > 0.0))
            end = at;
    }
    end = group_lowest(end);
    if (at == 0)
        SampleResults(push.results).at[row].best_count = end;
}

void tell_token(uint64_t natural_mass)
{
    if (gl_LocalInvocationID.x != 0)
        return;
    uint token = SampleWords(push.drawn).at[row];
    uint bits = clean(SampleWords(row_logits).at[token]);
    SampleResults(push.results).at[row].natural_mass = natural_mass;
    SampleResults(push.results).at[row].largest = largest;
    SampleResults(push.results).at[row].logit = uintBitsToFloat(bits);
}

uint count_from(uvec4 bits, uint lowest)
{
    uint count = 0;
    for (uint j = 0; j < 4; j++)
        count += key(bits[j]) >= lowest ? 1 : 0;
    return count;
}

/* Counts the tokens whose logit is at least the token's. Reads only blocks that have one. */
void tell_rank()
{
    uint token = SampleWords(push.drawn).at[row];
    uint lowest = key(clean(SampleWords(row_logits).at[token]));
    uint count = 0;
    for (uint block = gl_LocalInvocationID.x; block < block_count(); block += gl_WorkGroupSize.x)
        if (lowest != LOWEST_KEY && SampleWords(row_keys).at[block] >= lowest)
            [[dont_unroll]] for (uint quad = 0; quad < BLOCK / 4; quad++)
                count += count_from(
                    clean_quad(load_raw_quad(row_logits, block_token(block, quad))), lowest);
    uint rank = uint(group_sum(count));
    if (gl_LocalInvocationID.x == 0) /* logits past the vocabulary are -infinity, too */
        SampleResults(push.results).at[row].rank =
            lowest == LOWEST_KEY ? push.vocab_tokens : rank;
}

void main()
{
    begin_row();
    if ((record.flags & ROW_EXPLAIN) == 0)
        return;
    if (record.raw_at != NO_TOKEN) {
        row_logits = copy_of(record.raw_at);
        row_parts = copy_parts(record.raw_at);
        row_keys = copy_keys(record.raw_at);
    }
    record.temperature = record.inverse_temperature = 1.0;
    last_code = ~uint64_t(0);
    uint best_key, best_token, lowest_key;
    scan_parts(best_key, best_token, lowest_key);
    largest = logit_of(best_key);
    span = largest - logit_of(lowest_key);
    bool is_empty = best_key == LOWEST_KEY;
    tell_token(row_mass(true));
    tell_rank();
    report_best(is_empty || record.top_logprobs == 0 ? 0 : list_best(record.top_logprobs));
}
