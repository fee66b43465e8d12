#version 450
/*
 * Sampling, second half: one workgroup draws one row's token, as specified in
 * worker/sample/row_sampler.h, and stores it for the host and for the next step.
 *
 * The row is not read again. sample_scan left the largest logit of each block of 32 tokens. At least k
 * tokens are at or above the k-th largest of those and, since large logits rarely share a block, few
 * more. So a first histogram over the blocks gives a distance from the largest logit within which at
 * least `wanted` tokens lie. The few blocks that reach into it are read, and the tokens within the
 * distance are gathered, sorted and weighted: they are all tokens down to it, in order. If filters and
 * draw end inside this list, the token is exact. If not, the list is made longer once; after that, or if
 * it overflows, the whole row is searched (sample_search.glsl).
 *
 * Grid: (rows).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in; /* a power of two, at most 512 */

#include "sample_rows.glsl"
#include "sample_sums.glsl"

const uint WANTED_FIRST = 128; /* most draws end far before */
const uint WANTED_MORE = 1024; /* leaves room for what shares the last bin */

uint row;
SampleRecord record;
float largest;
float span;        /* from the largest logit to the lowest block's largest */
uint64_t mass;     /* of the tokens that top_k leaves; without top_k of the whole row, if ROW_MASS */
uint uniform_bits; /* u in units of 2^-24 */
bool is_cut;       /* top_k */
bool is_whole;     /* no filter */

uint block_count()
{
    return push.chunk_count * SCANNERS;
}

#include "sample_parts.glsl"
#include "sample_uniform.glsl"
#include "sample_list.glsl"

/* A search covers the whole row. */
bool may_reach(uint block_bits)
{
    return true;
}

bool takes_part(uint bits, uint token)
{
    return true;
}

void meet_other(uint bits, uint token, float w)
{
}

#include "sample_search.glsl"
#include "sample_top.glsl"

/* --- the draw from a sorted list --- */

/* The draw is the first token whose running sum exceeds this. */
uint64_t draw_limit(uint64_t kept)
{
    bool exact;
    return scale_down(kept, uniform_bits, 24, exact);
}

/* The rank from which on filters keep nothing; NO_TOKEN when the list is too short to tell. */
uint first_dropped(uint count)
{
    uint dropped = is_cut && record.top_k <= count ? record.top_k : NO_TOKEN;
    uint64_t least = scale_up(mass, record.top_p); /* what the running sum must reach for top_p */
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint at = held_at(i);
        bool is_too_light = held_weight[i] == 0.0 || (!is_whole && held_weight[i] < record.min_p);
        if (at < count && at > 0 && is_too_light)
            dropped = min(dropped, at);
        if (at < count && record.top_p < 1.0 && held_sum[i] >= least)
            dropped = min(dropped, at + 1);
    }
    return group_lowest(dropped);
}

/* Draws from the sorted list of `count` candidates; false when it is too short. `is_all`: no other
 * token weighs anything. */
bool draw_from_list(uint count, bool is_all)
{
    weigh_candidates(count);
    if (is_cut) {
        find_candidate(min(count, record.top_k) - 1, 0);
        mass = found_sum;
    }
    uint kept = first_dropped(count);
    bool is_sure = is_all || kept <= count;
    kept = min(kept, count);
    find_candidate(kept - 1, 0);
    uint64_t kept_weight = found_sum;
    uint64_t limit = draw_limit(is_whole ? mass : kept_weight);
    if (!is_sure && !(is_whole && kept_weight > limit))
        return false;
    pick_candidate(kept, false, 0, 0, limit);
    return true;
}

/* Draws from a list of at least `wanted` tokens. */
bool draw_from_top(uint wanted)
{
    bool is_all;
    uint count = list_top(wanted, is_all);
    return count <= CAPACITY && draw_from_list(count, is_all);
}

/* The kept tokens are a prefix of the order, so their weight determines them. */
void draw_from_row()
{
    const uint TOP_K = 0, TOP_P = 1, DRAW = 2;
    uint64_t likely = deal_row(record.min_p);
    uint64_t kept = is_whole ? mass : record.min_p > 0.0 ? likely : ~uint64_t(0);
    for (uint stage = is_cut ? TOP_K : TOP_P; stage <= DRAW; stage++) {
        if (stage == TOP_P && !(record.top_p < 1.0))
            continue;
        uint64_t limit = record.top_k - 1;
        if (stage == TOP_P)
            limit = scale_up(mass, record.top_p) - 1;
        else if (stage == DRAW)
            limit = draw_limit(kept);
        search(stage == TOP_K, limit);
        if (stage == TOP_K)
            mass = found_sum;
        if (stage != DRAW)
            kept = min(kept, found_sum);
    }
}

void draw()
{
    uniform_bits = draw_uniform();
    is_cut = record.top_k > 0 && record.top_k < push.vocab_tokens;
    is_whole = !is_cut && record.top_p >= 1.0 && record.min_p <= 0.0;
    uint wanted = is_cut ? record.top_k : WANTED_FIRST;
    while (wanted <= WANTED_MORE) {
        if (draw_from_top(wanted))
            return;
        wanted = is_cut || wanted == WANTED_MORE ? WANTED_MORE + 1 : WANTED_MORE;
    }
    draw_from_row();
}

/* --- the row --- */

/* The mass of a row that sample_filter draws, which sample_filter does not compute. */
void tell_mass(uint64_t natural_mass)
{
    if (gl_LocalInvocationID.x == 0)
        SampleResults(push.results).at[row].natural_mass = natural_mass;
}

void finish(uint token, float distance, uint64_t natural_mass)
{
    if (gl_LocalInvocationID.x != 0)
        return;
    SampleWords(push.drawn).at[row] = token;
    SampleResults(push.results).at[row].token = token;
    SampleResults(push.results).at[row].distance = distance;
    SampleResults(push.results).at[row].natural_mass = natural_mass;
}

void main()
{
    begin_row();
    bool is_greedy = record.temperature == 0.0;
    bool is_filtered = (record.flags & ROW_FILTERS) != 0;
    if ((is_greedy || is_filtered) && (record.flags & ROW_LOGPROB) == 0)
        return; /* finished by sample_scan, or drawn by sample_filter */
    uint best_key, best_token, lowest_key;
    scan_parts(best_key, best_token, lowest_key);
    if (best_key == LOWEST_KEY && !is_filtered) {
        finish(0, 0.0, 0);
        return;
    }
    largest = logit_of(best_key);
    span = largest - logit_of(lowest_key);
    uint64_t natural_mass = 0;
    mass = 0;
    if ((record.flags & ROW_LOGPROB) != 0)
        natural_mass = row_mass(true);
    if (is_filtered) {
        tell_mass(natural_mass);
        return;
    }
    if ((record.flags & ROW_MASS) != 0)
        mass = row_mass(false);
    if (is_greedy) {
        finish(best_token, 0.0, natural_mass);
        return;
    }
    draw();
    finish(uint(found_code), logit_of(~uint(found_code >> 32)) - largest, natural_mass);
}
