/*
 * Finds a token by the weight, or the number, of the tokens that precede it in descending order, over
 * the whole row: for distributions so flat that the token is not among the candidates that fit a list.
 *
 * Nothing is sorted. Tokens are distributed to BINS bins by their distance from the largest logit; bins
 * are in order, so sums of bins tell which one has the token. A bin of at most CAPACITY tokens is
 * gathered and sorted. A fuller one is distributed again, by the distance within it; if its tokens are
 * equal or almost equal, by the bits of their codes, up to nine at a time. All codes differ, so after 64
 * bits at the latest each bin has one token.
 *
 * Sums are integers, so their order does not matter. Tokens of weight 0 are ignored.
 *
 * The includer has `row`, `record`, `largest`, `span` and sample_list.glsl; the resulting list holds the
 * token. The includer defines takes_part(bits, token): the token is part of the search; and
 * may_reach(bits): some token of a block with this largest logit may be. PASS_OTHER calls the
 * includer's own function for every token.
 */

/* For each bin of distance the number of tokens, and their weight in two words. Bins of a bin that is
 * distributed again are in the pool, in the same form. Before a search: a list of blocks. */
shared uint distance_bins[3 * BINS];
shared uint chosen_bin;
shared uint64_t chosen_before[2]; /* tokens and weight of the bins before it */

/* What a pass over the row does with the remaining tokens. */
const uint PASS_DEAL = 0;   /* all tokens, by distance */
const uint PASS_WITHIN = 1; /* a bin's, by distance within it */
const uint PASS_MEASURE = 2; /* range of the codes */
const uint PASS_CODES = 3;  /* by bits of their codes */
const uint PASS_GATHER = 4;
const uint PASS_OTHER = 5;  /* all tokens, by meet_other(bits, token, weight) */

struct Range {
    uint bin; /* of distance */
    uint within; /* bin within that; NO_BIN: any */
    uint64_t lowest; /* codes */
    uint64_t highest;
    uint shift; /* codes of a range are dealt by their bits from this one on */
};
const uint NO_BIN = 0xFFFFFFFFu;

/* What PASS_DEAL and PASS_MEASURE find, of this invocation's tokens. */
float lightest;         /* minimum weight of the tokens that min_p leaves */
uint64_t likely_weight; /* of the tokens that it leaves */
uint64_t dealt_weight;  /* of all */
uint lowest_met;        /* upper words of codes */
uint highest_met;

/* --- bins --- */

void clear_bins(bool in_pool)
{
    for (uint i = gl_LocalInvocationID.x; i < 3 * BINS; i += gl_WorkGroupSize.x) {
        if (in_pool)
            pool[i] = 0;
        else
            distance_bins[i] = 0;
    }
}

void count_distance(uint bin, uint64_t weight)
{
    uint low = uint(weight);
    atomicAdd(distance_bins[3 * bin], 1);
    uint before = atomicAdd(distance_bins[3 * bin + 1], low);
    uint high = uint(weight >> 32) + (before + low < before ? 1 : 0);
    if (high != 0)
        atomicAdd(distance_bins[3 * bin + 2], high);
}

void count_in_pool(uint bin, uint64_t weight)
{
    uint low = uint(weight);
    atomicAdd(pool[3 * bin], 1);
    uint before = atomicAdd(pool[3 * bin + 1], low);
    uint high = uint(weight >> 32) + (before + low < before ? 1 : 0);
    if (high != 0)
        atomicAdd(pool[3 * bin + 2], high);
}

uint bin_tokens(uint bin, bool in_pool)
{
    return in_pool ? pool[3 * bin] : distance_bins[3 * bin];
}

uint64_t bin_weight(uint bin, bool in_pool)
{
    uint at = 3 * bin;
    return in_pool ? uint64_t(pool[at + 2]) << 32 | pool[at + 1]
                   : uint64_t(distance_bins[at + 2]) << 32 | distance_bins[at + 1];
}

/*
 * The first bin with which the running sum (of tokens or of weight), begun at chosen_before, exceeds
 * `limit`; the last bin with tokens if none does. Sets chosen_bin to it and chosen_before to the sum
 * before it.
 */
void choose_bin(bool in_pool, bool by_tokens, uint64_t limit)
{
    uint each = BINS / gl_WorkGroupSize.x;
    uint first = gl_LocalInvocationID.x * each;
    uint64_t tokens = 0;
    uint64_t weight = 0;
    uint last = 0;
    for (uint bin = first; bin < first + each; bin++) {
        tokens += bin_tokens(bin, in_pool);
        weight += bin_weight(bin, in_pool);
        last = bin_tokens(bin, in_pool) > 0 ? bin : last;
    }
    tokens = chosen_before[0] + group_prefix(tokens);
    weight = chosen_before[1] + group_prefix(weight);
    uint64_t my_tokens = tokens;
    uint64_t my_weight = weight;
    uint crossing = BINS;
    for (uint bin = first; bin < first + each && crossing == BINS; bin++) {
        my_tokens += bin_tokens(bin, in_pool);
        my_weight += bin_weight(bin, in_pool);
        if (bin_tokens(bin, in_pool) > 0 && (by_tokens ? my_tokens : my_weight) > limit)
            crossing = bin;
    }
    uint chosen = group_lowest(crossing);
    uint last_used = BINS - 1 - group_lowest(BINS - 1 - last);
    chosen = chosen == BINS ? last_used : chosen;
    barrier();
    for (uint bin = first; bin < first + each; bin++) {
        if (bin == chosen) {
            chosen_bin = chosen;
            chosen_before[0] = tokens;
            chosen_before[1] = weight;
        }
        tokens += bin_tokens(bin, in_pool);
        weight += bin_weight(bin, in_pool);
    }
    barrier();
}

/* --- passes over the row --- */

/* Bins are as fine as the row's spread allows: blocks' largest logits show the upper part of it. */
float search_bins_per_logit()
{
    return float(BINS) / min(88.0 * record.temperature, 2.0 * span + 1.0);
}

bool is_in(Range range, uint bin, float position)
{
    return bin == range.bin && (range.within == NO_BIN || bin_within(position, bin) == range.within);
}

bool goes_over_all(uint pass)
{
    return pass == PASS_DEAL || pass == PASS_OTHER;
}

void meet_token(uint pass, Range range, float per_logit, uint bits, uint token)
{
    float position = bin_position(uintBitsToFloat(bits), per_logit);
    uint bin = bin_at(position);
    bool is_wanted = goes_over_all(pass) || is_in(range, bin, position);
    if (bits == MINUS_INFINITY || !is_wanted || !takes_part(bits, token))
        return;
    float w = weight(bits, largest, record.inverse_temperature);
    if (!(w > 0.0))
        return;
    if (pass == PASS_OTHER) {
        meet_other(bits, token, w);
        return;
    }
    uint64_t value = code(key(bits), token);
    if (pass == PASS_DEAL) {
        count_distance(bin, units(w));
        likely_weight += w >= lightest ? units(w) : 0;
        dealt_weight += units(w);
    } else if (pass == PASS_WITHIN) {
        count_in_pool(bin_within(position, bin), units(w));
    } else if (value >= range.lowest && value <= range.highest) {
        if (pass == PASS_MEASURE) {
            lowest_met = min(lowest_met, uint(value >> 32));
            highest_met = max(highest_met, uint(value >> 32));
        } else if (pass == PASS_CODES) {
            count_in_pool(uint(value - range.lowest >> range.shift), units(w));
        } else {
            add_candidate(value);
        }
    }
}

void pass_over_row(uint pass, Range range)
{
    const uint AT_ONCE = COMPACT ? 1 : 4; /* loads on their way */
    float per_logit = search_bins_per_logit();
    lowest_met = 0xFFFFFFFFu;
    highest_met = 0;
    likely_weight = 0;
    dealt_weight = 0;
    clear_bins(pass != PASS_DEAL);
    if (gl_LocalInvocationID.x == 0)
        gathered_count = 0;
    barrier();
    for (uint block = gl_LocalInvocationID.x; block < block_count(); block += gl_WorkGroupSize.x) {
        uint block_key = SampleWords(row_keys).at[block];
        uint first_bin = bin_at(bin_position(logit_of(block_key), per_logit));
        if (block_key == LOWEST_KEY || (!goes_over_all(pass) && first_bin > range.bin) ||
            !may_reach(floatBitsToUint(logit_of(block_key))))
            continue;
        for (uint quad = 0; quad < BLOCK / 4; quad += AT_ONCE) {
            uvec4 bits[AT_ONCE];
            [[unroll]] for (uint i = 0; i < AT_ONCE; i++)
                bits[i] = clean_quad(load_raw_quad(row_logits, block_token(block, quad + i)));
            if (COMPACT) {
                [[dont_unroll]] for (uint j = 0; j < 4; j++)
                    meet_token(pass, range, per_logit, bits[0][j], block_token(block, quad) + j);
                continue;
            }
            [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
                [[unroll]] for (uint j = 0; j < 4; j++)
                    meet_token(pass, range, per_logit, bits[i][j],
                               block_token(block, quad + i) + j);
            }
        }
    }
    barrier();
}

/* --- the search --- */

/* Sums of the distribution by distance; gives the weight of the tokens that weigh at least
 * `least`. */
uint64_t deal_row(float least)
{
    lightest = least;
    pass_over_row(PASS_DEAL, Range(0, NO_BIN, 0, 0, 0));
    return group_sum(likely_weight);
}

void set_shift(inout Range range)
{
    uint64_t width = range.highest - range.lowest;
    range.shift = 0;
    while (width >> range.shift >= BINS)
        range.shift++;
}

/* Narrows the range to the chosen bin; `depth`: how the bins were made. */
void narrow(uint depth, inout Range range)
{
    if (depth == 0) {
        range.bin = chosen_bin;
    } else if (depth == 1) {
        range.within = chosen_bin;
    } else {
        range.lowest += uint64_t(chosen_bin) << range.shift;
        range.highest = min(range.highest, range.lowest + ((1ul << range.shift) - 1ul));
    }
}

/*
 * The first token in descending order with which the number of tokens, or their weight, exceeds
 * `limit`; the last one of any weight when none does. deal_row() came first. found_code and
 * found_sum are set.
 */
void search(bool by_tokens, uint64_t limit)
{
    Range range = Range(0, NO_BIN, 0, ~uint64_t(0), 0);
    uint count = 0;
    uint pass = PASS_DEAL;
    barrier();
    if (gl_LocalInvocationID.x == 0)
        chosen_before[0] = chosen_before[1] = 0;
    barrier();
    for (uint depth = 0; pass != PASS_GATHER; depth++) {
        choose_bin(depth > 0, by_tokens, limit);
        count = bin_tokens(chosen_bin, depth > 0);
        narrow(depth, range);
        pass = count <= CAPACITY ? PASS_GATHER
               : depth == 0      ? PASS_WITHIN
               : depth == 1      ? PASS_MEASURE
                                 : PASS_CODES;
        /* A bin's codes are measured once, before they are dealt by their bits. */
        for (bool again = true; again;) {
            set_shift(range);
            barrier();
            pass_over_row(pass, range);
            again = pass == PASS_MEASURE;
            if (again) {
                range.lowest = uint64_t(group_lowest(lowest_met)) << 32;
                range.highest = uint64_t(~group_lowest(~highest_met)) << 32 | 0xFFFFFFFFu;
                pass = PASS_CODES;
            }
        }
    }
    sort_candidates(count);
    weigh_candidates(count);
    pick_candidate(count, by_tokens, chosen_before[0], chosen_before[1], limit);
}
