#version 450
/*
 * Sampling, second half: one workgroup draws one row's token, as worker/sample/row_sampler.h says,
 * and leaves it for the host and for the next step.
 *
 * The row is not read again. sample_scan left the largest logit of each block of 32 tokens; the k-th
 * largest of those has at least k tokens at or above it and, since large logits rarely share a
 * block, few more. So a first histogram over the blocks gives a distance from the largest within
 * which at least `wanted` tokens lie, the few blocks that reach into it are read, and what lies
 * within is gathered, sorted and weighed: all tokens down to there, in order. When filters and the
 * draw end inside that list, the token is exact. When they do not, the list is made longer once;
 * after that, or when it overflows, the whole row is searched (sample_search.glsl).
 *
 * Grid: (rows).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in; /* a power of two, at most 512 */

#include "sample_rows.glsl"
#include "sample_sums.glsl"

const uint CAPACITY = 2048;     /* candidates in shared memory */
const uint WANTED_FIRST = 128;  /* most draws end far before */
const uint WANTED_MORE = 1024;  /* leaves room for what shares the last bin */

uint row;
SampleRecord record;
float largest;
uint64_t mass; /* of the whole row, where ROW_MASS */
uint uniform_bits; /* u in units of 2^-24 */
bool is_cut;       /* top_k */
bool is_whole;     /* no filter */

#include "sample_search.glsl"

/* --- the random number: Philox4x32-10 (worker/sample/uniform.c) --- */

uint draw_uniform()
{
    uvec4 x = uvec4(record.position, 0, 0, 0);
    uvec2 round_key = uvec2(record.seed_low, record.seed_high);
    for (uint round = 0; round < 10; round++) {
        uint high0, low0, high1, low1;
        umulExtended(0xD2511F53u, x.x, high0, low0);
        umulExtended(0xCD9E8D57u, x.z, high1, low1);
        x = uvec4(high1 ^ x.y ^ round_key.x, low1, high0 ^ x.w ^ round_key.y, low0);
        round_key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return x.x >> 8;
}

/* --- what the chunks said --- */

uint64_t row_mass(bool natural)
{
    uint64_t sum = 0;
    uint64_t parts = parts_of(row);
    for (uint i = gl_LocalInvocationID.x; i < push.chunk_count; i += gl_WorkGroupSize.x) {
        uint part_key = SampleParts(parts).at[i].best_key;
        uint64_t part_mass =
            natural ? SampleParts(parts).at[i].natural_mass : SampleParts(parts).at[i].mass;
        bool exact;
        if (part_key != LOWEST_KEY)
            sum += scale_by(part_mass,
                            weight(floatBitsToUint(logit_of(part_key)), largest,
                                   natural ? 1.0 : record.temperature),
                            exact);
    }
    return group_sum(sum);
}

void finish(uint token, float distance, uint64_t natural_mass)
{
    if (gl_LocalInvocationID.x != 0)
        return;
    SampleWords(push.drawn).at[row] = token;
    SampleResult result;
    result.token = token;
    result.distance = distance;
    result.natural_mass = natural_mass;
    SampleResults(push.results).at[row] = result;
}

/* --- candidates --- */

shared uint block_bins[BINS];

/* How many bins, counted from the largest logit, hold at least `wanted` blocks' largest; all of
 * them when there are not as many. */
uint bins_with(uint wanted, float per_logit)
{
    for (uint i = gl_LocalInvocationID.x; i < BINS; i += gl_WorkGroupSize.x)
        block_bins[i] = 0;
    barrier();
    uint first = row * block_count();
    for (uint block = gl_LocalInvocationID.x; block < block_count(); block += gl_WorkGroupSize.x) {
        uint block_key = SampleWords(push.block_keys).at[first + block];
        if (block_key != LOWEST_KEY)
            atomicAdd(block_bins[distance_bin(logit_of(block_key), per_logit)], 1);
    }
    barrier();
    uint each = BINS / gl_WorkGroupSize.x;
    uint begin = gl_LocalInvocationID.x * each;
    uint count = 0;
    for (uint bin = begin; bin < begin + each; bin++)
        count += block_bins[bin];
    uint before = uint(group_prefix(count));
    uint enough = BINS;
    for (uint bin = begin; bin < begin + each && enough == BINS; bin++) {
        before += block_bins[bin];
        if (before >= wanted)
            enough = bin + 1;
    }
    return group_lowest(enough);
}

/* Logits of the blocks span from the largest to this: bins are made to cover it. */
float lowest_block()
{
    uint lowest = 0xFFFFFFFFu;
    uint first = row * block_count();
    for (uint block = gl_LocalInvocationID.x; block < block_count(); block += gl_WorkGroupSize.x) {
        uint block_key = SampleWords(push.block_keys).at[first + block];
        if (block_key != LOWEST_KEY)
            lowest = min(lowest, block_key);
    }
    return logit_of(group_lowest(lowest));
}

/* Gathers all tokens within the first `bins` bins; gathered_count says how many there are. */
void gather(uint bins, float per_logit)
{
    if (gl_LocalInvocationID.x == 0)
        gathered_count = 0;
    barrier();
    uint first = row * block_count();
    for (uint block = gl_LocalInvocationID.x; block < block_count(); block += gl_WorkGroupSize.x) {
        uint block_key = SampleWords(push.block_keys).at[first + block];
        if (block_key == LOWEST_KEY || distance_bin(logit_of(block_key), per_logit) >= bins)
            continue;
        for (uint quad = 0; quad < BLOCK / 4; quad++) {
            uint token = block_token(block, quad);
            uvec4 bits = clean_quad(load_raw_quad(row, token));
            for (uint i = 0; i < 4; i++)
                if (bits[i] != MINUS_INFINITY &&
                    distance_bin(uintBitsToFloat(bits[i]), per_logit) < bins)
                    add_candidate(code(key(bits[i]), token + i));
        }
    }
    barrier();
}

/* --- the draw from a sorted list --- */

shared uint64_t kept_weight;

/* sum * p of the kept tokens, for the comparison "cumulative sum >= p * mass". */
uint64_t top_p_least()
{
    bool exact;
    uint64_t least = scale_by(mass, record.top_p, exact);
    return exact ? least : least + 1;
}

uint64_t draw_limit(uint64_t weight)
{
    bool exact;
    return scale_down(weight, uniform_bits, 24, exact);
}

/* Weight of the first `count` of the list, for everybody; `sum` is that before `first`. */
uint64_t weight_of_first(uint count, uint first, uint end, uint64_t sum)
{
    for (uint at = first; at < end; at++) {
        sum += units_at(at);
        if (at == count - 1)
            kept_weight = sum;
    }
    barrier();
    uint64_t weight = kept_weight;
    barrier();
    return weight;
}

/* The first rank at which the list is known to end for the filters: past it nothing is kept.
 * 0xFFFFFFFF when the list is too short to tell. */
uint first_dropped(uint count, uint first, uint end, uint64_t sum)
{
    uint dropped = 0xFFFFFFFFu;
    uint64_t least = top_p_least();
    if (is_cut && record.top_k <= count)
        dropped = record.top_k;
    for (uint at = first; at < end; at++) {
        float w = weight(bits_of_code(candidate(at)), largest, record.temperature);
        if (at > 0 && (w == 0.0 || (!is_whole && w < record.min_p)))
            dropped = min(dropped, at);
        sum += units(w);
        if (record.top_p < 1.0 && sum >= least)
            dropped = min(dropped, at + 1);
    }
    return group_lowest(dropped);
}

/* Draws from the list of `count` candidates; false when it is too short. `is_all`: no other token
 * weighs anything. */
bool draw_from_list(uint count, bool is_all)
{
    uint each = (count + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    uint first = min(gl_LocalInvocationID.x * each, count);
    uint end = min(first + each, count);
    uint64_t sum = 0;
    for (uint at = first; at < end; at++)
        sum += units_at(at);
    sum = group_prefix(sum);
    if (is_cut)
        mass = weight_of_first(min(count, record.top_k), first, end, sum);
    uint kept = first_dropped(count, first, end, sum);
    bool is_sure = is_all || kept <= count;
    kept = min(kept, count);
    uint64_t weight = weight_of_first(kept, first, end, sum);
    uint64_t limit = draw_limit(is_whole ? mass : weight);
    if (!is_sure && !(is_whole && weight > limit))
        return false;
    uint crossing = kept - 1;
    for (uint at = first; at < end; at++) {
        sum += units_at(at);
        if (sum > limit)
            crossing = min(crossing, at);
    }
    crossing = group_lowest(crossing);
    if (gl_LocalInvocationID.x == 0)
        found_code = candidate(crossing);
    barrier();
    return true;
}

/* Makes a list of at least `wanted` tokens where there are as many, and draws from it. */
bool draw_from_top(uint wanted, float per_logit)
{
    uint bins = bins_with(wanted, per_logit);
    gather(bins, per_logit);
    uint count = gathered_count;
    if (count > CAPACITY)
        return false;
    sort_candidates(count);
    return draw_from_list(count, bins == BINS);
}

/* The kept tokens are a prefix of the order, so their weight tells all about them. */
void draw_from_row()
{
    const uint TOP_K = 0, TOP_P = 1, DRAW = 2;
    uint64_t weight_of_likely = deal_by_distance(record.min_p);
    uint64_t kept = is_whole ? mass : record.min_p > 0.0 ? weight_of_likely : ~uint64_t(0);
    for (uint stage = is_cut ? TOP_K : TOP_P; stage <= DRAW; stage++) {
        if (stage == TOP_P && !(record.top_p < 1.0))
            continue;
        uint64_t limit = record.top_k - 1;
        if (stage == TOP_P)
            limit = top_p_least() - 1;
        else if (stage == DRAW)
            limit = draw_limit(kept);
        uint64_t sum = search(stage == TOP_K, limit).sum;
        if (stage == TOP_K)
            mass = sum;
        if (stage != DRAW)
            kept = min(kept, sum);
    }
}

void draw()
{
    uniform_bits = draw_uniform();
    is_cut = record.top_k > 0 && record.top_k < push.vocab_tokens;
    is_whole = !is_cut && record.top_p >= 1.0 && record.min_p <= 0.0;
    float span = largest - lowest_block();
    float per_logit = float(BINS) / max(span, 1e-30) * 0.999;
    uint wanted = is_cut ? record.top_k : WANTED_FIRST;
    while (wanted <= WANTED_MORE) {
        if (draw_from_top(wanted, per_logit))
            return;
        wanted = is_cut || wanted == WANTED_MORE ? WANTED_MORE + 1 : WANTED_MORE;
    }
    draw_from_row();
}

void main()
{
    row = gl_WorkGroupID.x;
    record = SampleRecords(push.records).at[row];
    bool is_greedy = record.temperature == 0.0;
    if (is_greedy && (record.flags & ROW_LOGPROB) == 0)
        return; /* sample_scan has finished it */
    uint best_key = LOWEST_KEY;
    uint best_token = 0xFFFFFFFFu;
    uint64_t parts = parts_of(row);
    for (uint i = gl_LocalInvocationID.x; i < push.chunk_count; i += gl_WorkGroupSize.x) {
        uint part_key = SampleParts(parts).at[i].best_key;
        if (part_key > best_key) {
            best_key = part_key;
            best_token = SampleParts(parts).at[i].best_token;
        }
    }
    group_best(best_key, best_token);
    largest = logit_of(best_key);
    if (best_key == LOWEST_KEY) {
        finish(0, 0.0, 0);
        return;
    }
    uint token = best_token;
    mass = 0;
    uint64_t natural_mass = 0;
    if ((record.flags & ROW_LOGPROB) != 0)
        natural_mass = row_mass(true);
    if ((record.flags & ROW_MASS) != 0)
        mass = row_mass(false);
    if (!is_greedy) {
        draw();
        token = uint(found_code);
    }
    float logit = is_greedy ? largest : logit_of(~uint(found_code >> 32));
    finish(token, logit - largest, natural_mass);
}
