#version 450
/*
 * Sampling, second half, of rows with typical_p or top_n_sigma: one workgroup draws one row's token, as
 * specified in worker/sample/row_sampler.h, and stores it for the host and for the next step. sample_draw
 * draws the other rows, and computes these rows' sums for log-probabilities.
 *
 * Each filter leaves a part of the descending order: top_n_sigma the tokens within a distance of the
 * largest, top_k those before a code, typical_p those within a distance of the mean. takes_part()
 * combines them, and the stages go over the row in the passes of sample_search.glsl: the last token of
 * top_k; sums of the remaining tokens, which give their mean; typical_p's distance, nine bits at a time;
 * the last token of top_p; the draw. A pass reads only the blocks of 32 tokens whose largest logit may
 * take part.
 *
 * Distances are integers in units of 2^-24 and weights those of sample_rows.glsl, so every token equals
 * the CPU's (worker/sample/row_sampler.c).
 *
 * Grid: (rows), after sample_spread.
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
#include "sample_uniform.glsl"
#include "sample_list.glsl"

/* --- tokens that take part --- */

const float FAR = 88.0; /* distance of tokens of weight 0 */
const uint FARTHEST = 0x7FFFFFFFu;

float border_scale; /* top_n_sigma: a distance d is left unless d * d * scale > limit */
float border_limit;
uint64_t last_code; /* top_k */
uint mean;          /* typical_p: tokens' distances differ from it by nearest to farthest */
uint nearest;
uint farthest;

/* Distance below the largest logit, in units of 2^-24. Not written as 0 - x, which drivers may turn
 * into -0. */
uint distance_of(uint bits)
{
    float x = log_weight(bits, largest, record.inverse_temperature);
    precise float distance = min(abs(x), FAR);
    precise float scaled = distance * 16777216.0;
    return uint(scaled);
}

bool is_within_border(uint bits)
{
    precise float distance = largest - uintBitsToFloat(bits);
    precise float square = distance * distance * border_scale;
    return !(square > border_limit);
}

uint from_mean(uint distance)
{
    return distance > mean ? distance - mean : mean - distance;
}

bool may_reach(uint block_bits)
{
    return is_within_border(block_bits) && code(key(block_bits), 0) <= last_code &&
           distance_of(block_bits) <= mean + farthest;
}

bool takes_part(uint bits, uint token)
{
    uint away = from_mean(distance_of(bits));
    return is_within_border(bits) && code(key(bits), token) <= last_code && away >= nearest &&
           away <= farthest;
}

/* --- sums of the tokens that take part, and bins for searches --- */

bool is_reaching; /* looking for typical_p's reach */
uint reach_shift; /* by its bits from this one on */
uint64_t met_weight; /* of this invocation's tokens */
uint64_t met_entropy;
uint met_key; /* the largest */

void count_in_pool(uint bin, uint64_t weight);

void meet_other(uint bits, uint token, float w)
{
    if (is_reaching) {
        count_in_pool(from_mean(distance_of(bits)) - nearest >> reach_shift, units(w));
        return;
    }
    float x = log_weight(bits, largest, record.inverse_temperature);
    precise float entropy = w * abs(x);
    met_weight += units(w);
    met_entropy += units(entropy);
    met_key = max(met_key, key(bits));
}

#include "sample_search.glsl"

/* --- top_n_sigma: the border (worker/sample/logit_spread.c) --- */

/* The chunks' spreads into the pool, their centers as distances from the row's largest logit. */
void load_spreads()
{
    for (uint i = gl_LocalInvocationID.x; i < push.chunk_count; i += gl_WorkGroupSize.x) {
        SampleSpread spread = SampleSpreads(spreads_of(row)).at[i];
        precise float below = largest - logit_of(SampleParts(row_parts).at[i].best_key);
        precise float center = min(below, 1073741824.0) + spread.center;
        pool[4 * i] = floatBitsToUint(spread.count);
        pool[4 * i + 1] = floatBitsToUint(center);
        pool[4 * i + 2] = floatBitsToUint(spread.sum);
        pool[4 * i + 3] = floatBitsToUint(spread.squares);
    }
    barrier();
}

/* Each invocation by itself: all chunks in their order, moved to one center. */
void find_border(float top_n_sigma)
{
    precise float count = 0.0;
    precise float center = 0.0;
    precise float sum = 0.0;
    precise float squares = 0.0;
    load_spreads();
    for (uint i = 0; i < push.chunk_count; i++) {
        float chunk_count = uintBitsToFloat(pool[4 * i]);
        float chunk_center = uintBitsToFloat(pool[4 * i + 1]);
        float chunk_sum = uintBitsToFloat(pool[4 * i + 2]);
        if (chunk_count == 0.0)
            continue;
        center = count == 0.0 ? chunk_center : center;
        precise float gap = chunk_center - center;
        precise float shift = chunk_count * gap;
        sum = sum + (chunk_sum + shift);
        squares = squares +
                  (uintBitsToFloat(pool[4 * i + 3]) + (2.0 * gap * chunk_sum + shift * gap));
        count = count + chunk_count;
    }
    precise float variance = count * squares - sum * sum;
    precise float limit = top_n_sigma * top_n_sigma * max(variance, 0.0);
    precise float scale = count * count;
    border_scale = scale;
    border_limit = limit;
    barrier();
}

/* --- typical_p --- */

/* The row's numbers, from the chunks' sums. */
uint64_t row_entropy()
{
    uint64_t sum = 0;
    for (uint i = gl_LocalInvocationID.x; i < push.chunk_count; i += gl_WorkGroupSize.x) {
        SamplePart part = SampleParts(row_parts).at[i];
        float x = log_weight(floatBitsToUint(logit_of(part.best_key)), largest,
                             record.inverse_temperature);
        float factor = exp_negative(x);
        precise float distance = abs(x) * (1.0 / 128.0);
        bool exact;
        if (part.best_key == LOWEST_KEY || factor == 0.0)
            continue;
        sum += scale_by(SampleSpreads(spreads_of(row)).at[i].entropy, factor, exact);
        sum += scale_by(scale_by(part.mass, factor, exact) << 7, distance, exact);
    }
    return group_sum(sum);
}

/* entropy / weight in units of 2^-24, rounded down. */
uint mean_distance(uint64_t entropy, uint64_t weight)
{
    uint quotient = 0;
    uint64_t left = entropy;
    for (int bit = 6; bit >= 0; bit--) {
        quotient *= 2;
        if (left >> bit >= weight) {
            left -= weight << bit;
            quotient++;
        }
    }
    for (uint bit = 0; bit < 24; bit++) {
        quotient *= 2;
        left *= 2;
        if (left >= weight) {
            left -= weight;
            quotient++;
        }
    }
    return quotient;
}

const uint REACH_BITS = 9;
const uint REACH_FIRST = 22;

/* Narrows the tokens that take part to typical_p's; `weight` and `entropy` are their sums. */
void keep_typical(uint64_t weight, uint64_t entropy)
{
    uint64_t limit = scale_up(weight, record.typical_p) - 1;
    mean = mean_distance(entropy, weight);
    is_reaching = true;
    barrier();
    if (gl_LocalInvocationID.x == 0)
        chosen_before[0] = chosen_before[1] = 0;
    for (int shift = int(REACH_FIRST); shift > -int(REACH_BITS); shift -= int(REACH_BITS)) {
        reach_shift = uint(max(shift, 0));
        pass_over_row(PASS_OTHER, Range(0, NO_BIN, 0, 0, 0));
        choose_bin(true, false, limit);
        nearest += chosen_bin << reach_shift;
        farthest = nearest + (1u << reach_shift) - 1;
    }
    is_reaching = false;
    nearest = 0;
}

/* --- the draw --- */

uint64_t mass;    /* weight of the tokens that take part */
uint64_t entropy; /* the same times distances */
uint64_t kept;    /* the mass that top_p and min_p leave */

void sum_up()
{
    met_weight = 0;
    met_entropy = 0;
    met_key = 0;
    pass_over_row(PASS_OTHER, Range(0, NO_BIN, 0, 0, 0));
    mass = group_sum(met_weight);
    entropy = group_sum(met_entropy);
    met_key = ~group_lowest(~met_key);
}

/* Distributes tokens to bins for the following searches; `heaviest`: maximum weight of a token that
 * takes part. */
void deal(float min_p, float heaviest)
{
    precise float least = min_p * heaviest;
    uint64_t likely = deal_row(least);
    mass = group_sum(dealt_weight);
    kept = min_p > 0.0 ? min(mass, likely) : mass;
}

/* In the order of their work. */
const uint STAGE_DEAL = 0, STAGE_TOP_K = 1, STAGE_SUMS = 2, STAGE_TYPICAL = 3, STAGE_HEAVIEST = 4,
           STAGE_DEAL_LEFT = 5, STAGE_TOP_P = 6, STAGE_DRAW = 7;

bool needs_stage(uint stage)
{
    bool is_cut = record.top_k > 0 && record.top_k < push.vocab_tokens;
    bool is_typical = record.typical_p < 1.0;
    switch (stage) {
    case STAGE_DEAL:
    case STAGE_TOP_K: return is_cut;
    case STAGE_SUMS: return is_typical && (is_cut || record.top_n_sigma > 0.0);
    case STAGE_TYPICAL: return is_typical;
    case STAGE_HEAVIEST: return is_typical && record.min_p > 0.0;
    case STAGE_DEAL_LEFT: return is_typical || !is_cut;
    case STAGE_TOP_P: return record.top_p < 1.0;
    default: return true;
    }
}

void look_for(uint stage, uint uniform_bits)
{
    bool exact;
    uint64_t limit = record.top_k - 1;
    if (stage == STAGE_TOP_P)
        limit = scale_up(mass, record.top_p) - 1;
    else if (stage == STAGE_DRAW)
        limit = scale_down(kept, uniform_bits, 24, exact);
    search(stage == STAGE_TOP_K, limit);
    if (stage == STAGE_DRAW)
        return;
    kept = min(kept, found_sum);
    if (stage == STAGE_TOP_K)
        mass = found_sum;
    /* Otherwise nothing is dealt again, and searches end before it by their limits. */
    if (stage == STAGE_TOP_K && record.typical_p < 1.0)
        last_code = found_code;
}

/* Each kind of work has one place here: functions are compiled into every place that calls them. */
void draw()
{
    uint uniform_bits = draw_uniform();
    float heaviest = 1.0;
    for (uint stage = STAGE_DEAL; stage <= STAGE_DRAW; stage++) {
        if (!needs_stage(stage))
            continue;
        if (stage == STAGE_SUMS || stage == STAGE_HEAVIEST) {
            sum_up();
            heaviest = weight(floatBitsToUint(logit_of(met_key)), largest,
                              record.inverse_temperature);
        } else if (stage == STAGE_TYPICAL) {
            keep_typical(mass, entropy);
        } else if (stage == STAGE_DEAL || stage == STAGE_DEAL_LEFT) {
            deal(record.min_p, heaviest);
        } else {
            look_for(stage, uniform_bits);
        }
    }
}

/* --- the row --- */

void finish(uint token, float distance)
{
    if (gl_LocalInvocationID.x != 0)
        return;
    SampleWords(push.drawn).at[row] = token;
    SampleResults(push.results).at[row].token = token;
    SampleResults(push.results).at[row].distance = distance;
}

void main()
{
    begin_row();
    if ((record.flags & ROW_FILTERS) == 0)
        return;
    uint best_key, best_token, lowest_key;
    scan_parts(best_key, best_token, lowest_key);
    if (best_key == LOWEST_KEY) {
        finish(0, 0.0);
        return;
    }
    largest = logit_of(best_key);
    span = largest - logit_of(lowest_key);
    border_scale = border_limit = 0.0;
    last_code = ~uint64_t(0);
    mean = nearest = 0;
    farthest = FARTHEST;
    is_reaching = false;
    if (record.top_n_sigma > 0.0)
        find_border(record.top_n_sigma);
    mass = entropy = 0;
    if ((record.flags & ROW_MASS) != 0) {
        mass = row_mass(false);
        entropy = row_entropy();
    }
    draw();
    finish(uint(found_code), logit_of(~uint(found_code >> 32)) - largest);
}
