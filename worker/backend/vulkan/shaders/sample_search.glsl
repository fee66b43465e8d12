/*
 * Finding a token by how much weight, or how many tokens, come before it in descending order, over
 * the whole row: for distributions so flat that what is looked for lies beyond the candidates that
 * fit a list.
 *
 * Nothing is sorted. Tokens are dealt into BINS by their distance from the largest logit; bins are
 * in order, so sums of bins tell in which one the token is. A bin of at most CAPACITY tokens is
 * gathered and sorted. A fuller one is narrowed by the bits of its tokens' codes, up to nine at a
 * time: codes are all different, so at the latest 64 bits on there is one token in each bin.
 *
 * Sums are integers, so it does not matter in which order invocations add. Tokens of weight 0 do
 * not exist here.
 *
 * The includer has `row`, `record`, `largest` and CAPACITY; found_code is the answer.
 */

const uint BINS = 512;
const float REACH = 88.0; /* temperatures below the largest logit, past which every weight is 0 */

/* First the list of candidates (codes in two words), or the bins of a narrowed search. */
shared uint pool[2 * CAPACITY];
/* Of each bin of distance: tokens, and their weight in two words. */
shared uint distance_bins[3 * BINS];
shared uint gathered_count;
shared uint chosen_bin;
shared uint64_t chosen_before[2]; /* tokens and weight of the bins before it */
shared uint64_t found_code;
shared uint64_t found_sum;

struct Found {
    uint64_t code;
    uint64_t sum; /* of the weights up to and with it */
};

/* --- the list of candidates --- */

uint64_t candidate(uint at)
{
    return uint64_t(pool[2 * at + 1]) << 32 | pool[2 * at];
}

void put_candidate(uint at, uint64_t value)
{
    pool[2 * at] = uint(value);
    pool[2 * at + 1] = uint(value >> 32);
}

void add_candidate(uint64_t value)
{
    uint at = atomicAdd(gathered_count, 1);
    if (at < CAPACITY)
        put_candidate(at, value);
}

uint bits_of_code(uint64_t value)
{
    return floatBitsToUint(logit_of(~uint(value >> 32)));
}

/* In units. */
uint64_t units_at(uint at)
{
    return units(weight(bits_of_code(candidate(at)), largest, record.temperature));
}

/* Ascending; `count` <= CAPACITY is padded to the returned power of two. */
uint sort_candidates(uint count)
{
    uint padded = 1;
    while (padded < count)
        padded *= 2;
    for (uint at = count + gl_LocalInvocationID.x; at < padded; at += gl_WorkGroupSize.x)
        put_candidate(at, ~uint64_t(0));
    barrier();
    for (uint run = 2; run <= padded; run *= 2)
        for (uint step = run / 2; step > 0; step /= 2) {
            for (uint i = gl_LocalInvocationID.x; i < padded / 2; i += gl_WorkGroupSize.x) {
                uint low = i / step * 2 * step + i % step;
                uint high = low + step;
                uint64_t a = candidate(low);
                uint64_t b = candidate(high);
                if ((a > b) == ((low & run) == 0)) {
                    put_candidate(low, b);
                    put_candidate(high, a);
                }
            }
            barrier();
        }
    return padded;
}

/* --- bins --- */

/* Grows with the distance; the same for equal logits. */
uint distance_bin(float logit, float bins_per_logit)
{
    precise float bin = (largest - logit) * bins_per_logit;
    return bin < float(BINS - 1) ? uint(bin) : BINS - 1;
}

void clear_bins()
{
    for (uint i = gl_LocalInvocationID.x; i < 3 * BINS; i += gl_WorkGroupSize.x)
        distance_bins[i] = 0;
}

/* Narrowed bins lie in the pool, in the same way. */
void clear_pool()
{
    for (uint i = gl_LocalInvocationID.x; i < 3 * BINS; i += gl_WorkGroupSize.x)
        pool[i] = 0;
}

void count_distance(uint bin, uint64_t weight)
{
    atomicAdd(distance_bins[3 * bin], 1);
    uint low = uint(weight);
    uint before = atomicAdd(distance_bins[3 * bin + 1], low);
    atomicAdd(distance_bins[3 * bin + 2], uint(weight >> 32) + (before + low < before ? 1 : 0));
}

void count_pool(uint bin, uint64_t weight)
{
    atomicAdd(pool[3 * bin], 1);
    uint low = uint(weight);
    uint before = atomicAdd(pool[3 * bin + 1], low);
    atomicAdd(pool[3 * bin + 2], uint(weight >> 32) + (before + low < before ? 1 : 0));
}

uint64_t bin_tokens(uint bin, bool narrowed)
{
    return narrowed ? pool[3 * bin] : distance_bins[3 * bin];
}

uint64_t bin_weight(uint bin, bool narrowed)
{
    uint at = 3 * bin;
    return narrowed ? uint64_t(pool[at + 2]) << 32 | pool[at + 1]
                    : uint64_t(distance_bins[at + 2]) << 32 | distance_bins[at + 1];
}

/*
 * The first bin with which the running sum (of tokens or of weight), begun at `before`, exceeds
 * `limit`; the last bin with tokens when none does. Leaves it in chosen_*.
 */
void choose_bin(bool narrowed, bool by_tokens, uint64_t tokens_before, uint64_t weight_before,
                uint64_t limit)
{
    uint each = BINS / gl_WorkGroupSize.x;
    uint first = gl_LocalInvocationID.x * each;
    uint64_t tokens = 0;
    uint64_t weight = 0;
    uint last = 0;
    for (uint bin = first; bin < first + each; bin++) {
        tokens += bin_tokens(bin, narrowed);
        weight += bin_weight(bin, narrowed);
        last = bin_tokens(bin, narrowed) > 0 ? bin : last;
    }
    tokens = tokens_before + group_prefix(tokens);
    weight = weight_before + group_prefix(weight);
    uint64_t my_tokens = tokens;
    uint64_t my_weight = weight;
    uint crossing = BINS;
    for (uint bin = first; bin < first + each && crossing == BINS; bin++) {
        my_tokens += bin_tokens(bin, narrowed);
        my_weight += bin_weight(bin, narrowed);
        if (bin_tokens(bin, narrowed) > 0 && (by_tokens ? my_tokens : my_weight) > limit)
            crossing = bin;
    }
    uint chosen = group_lowest(crossing);
    if (chosen == BINS)
        chosen = BINS - 1 - group_lowest(BINS - 1 - last);
    barrier();
    for (uint bin = first; bin < first + each; bin++) {
        if (bin == chosen) {
            chosen_bin = chosen;
            chosen_before[0] = tokens;
            chosen_before[1] = weight;
        }
        tokens += bin_tokens(bin, narrowed);
        weight += bin_weight(bin, narrowed);
    }
    barrier();
}

/* --- passes over the row --- */

uint block_count()
{
    return push.chunk_count * SCANNERS;
}

bool block_weighs(uint block)
{
    uint largest_key = SampleWords(push.block_keys).at[row * block_count() + block];
    return weight(floatBitsToUint(logit_of(largest_key)), largest, record.temperature) > 0.0;
}

float bins_per_logit()
{
    return float(BINS) / (REACH * record.temperature);
}

/* Fills distance_bins; gives the sum of all weights of at least `least`. */
uint64_t deal_by_distance(float least)
{
    uint64_t sum = 0;
    clear_bins();
    barrier();
    for (uint block = gl_LocalInvocationID.x; block < block_count(); block += gl_WorkGroupSize.x) {
        if (!block_weighs(block))
            continue;
        for (uint quad = 0; quad < BLOCK / 4; quad++) {
            uvec4 bits = clean_quad(load_raw_quad(row, block_token(block, quad)));
            for (uint i = 0; i < 4; i++) {
                float w = weight(bits[i], largest, record.temperature);
                if (w > 0.0)
                    count_distance(distance_bin(uintBitsToFloat(bits[i]), bins_per_logit()),
                                   units(w));
                if (w >= least)
                    sum += units(w);
            }
        }
    }
    return group_sum(sum);
}

/* Which tokens a narrowed search still looks at. */
struct Range {
    uint bin; /* of distance */
    uint64_t lowest;
    uint64_t highest;
};

const uint PASS_RANGE = 0, PASS_COUNT = 1, PASS_GATHER = 2;
uint range_lowest;  /* PASS_RANGE: keys' complements, of this invocation */
uint range_highest;

void meet_token(uint pass, Range range, uint shift, uint bits, uint token)
{
    float w = weight(bits, largest, record.temperature);
    if (!(w > 0.0))
        return;
    uint64_t value = code(key(bits), token);
    if (value < range.lowest || value > range.highest)
        return;
    if (pass == PASS_RANGE) {
        range_lowest = min(range_lowest, uint(value >> 32));
        range_highest = max(range_highest, uint(value >> 32));
    } else if (pass == PASS_COUNT) {
        count_pool(uint(value - range.lowest >> shift), units(w));
    } else {
        add_candidate(value);
    }
}

void pass_over_row(uint pass, Range range, uint shift)
{
    float per_logit = bins_per_logit();
    for (uint block = gl_LocalInvocationID.x; block < block_count(); block += gl_WorkGroupSize.x) {
        uint largest_key = SampleWords(push.block_keys).at[row * block_count() + block];
        if (largest_key == LOWEST_KEY ||
            distance_bin(logit_of(largest_key), per_logit) > range.bin)
            continue;
        for (uint quad = 0; quad < BLOCK / 4; quad++) {
            uint token = block_token(block, quad);
            uvec4 bits = clean_quad(load_raw_quad(row, token));
            for (uint i = 0; i < 4; i++)
                if (bits[i] != MINUS_INFINITY &&
                    distance_bin(uintBitsToFloat(bits[i]), per_logit) == range.bin)
                    meet_token(pass, range, shift, bits[i], token + i);
        }
    }
    barrier();
}

/* --- the search --- */

/* The candidate in the sorted list with which the running sum exceeds `limit`, or the last. */
Found pick_from_list(uint count, bool by_tokens, uint64_t tokens_before, uint64_t weight_before,
                     uint64_t limit)
{
    uint each = (count + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    uint first = min(gl_LocalInvocationID.x * each, count);
    uint end = min(first + each, count);
    uint64_t sum = 0;
    for (uint at = first; at < end; at++)
        sum += units_at(at);
    sum = weight_before + group_prefix(sum);
    uint crossing = count - 1;
    for (uint at = first; at < end; at++) {
        sum += units_at(at);
        if ((by_tokens ? tokens_before + at + 1 : sum) > limit || at == count - 1) {
            crossing = at;
            break;
        }
    }
    uint chosen = group_lowest(crossing);
    if (chosen >= first && chosen < end) {
        found_code = candidate(chosen);
        found_sum = sum;
    }
    barrier();
    return Found(found_code, found_sum);
}

uint shift_of(Range range)
{
    uint64_t width = range.highest - range.lowest;
    uint shift = 0;
    while (width >> shift >= BINS)
        shift++;
    return shift;
}

/* Makes room for what the pass leaves. */
void prepare(uint pass)
{
    range_lowest = 0xFFFFFFFFu;
    range_highest = 0;
    if (pass == PASS_COUNT)
        clear_pool();
    if (gl_LocalInvocationID.x == 0)
        gathered_count = 0;
    barrier();
}

/*
 * The first token in descending order with which the number of tokens, or their weight, exceeds
 * `limit`; the last one of any weight when none does. distance_bins are filled.
 */
Found search(bool by_tokens, uint64_t limit)
{
    Range range = Range(0, 0, ~uint64_t(0));
    uint64_t tokens_before = 0;
    uint64_t weight_before = 0;
    uint count = 0;
    uint shift = 0;
    bool narrowed = false;
    uint pass = PASS_COUNT;
    while (pass != PASS_GATHER) {
        choose_bin(narrowed, by_tokens, tokens_before, weight_before, limit);
        tokens_before = chosen_before[0];
        weight_before = chosen_before[1];
        count = uint(bin_tokens(chosen_bin, narrowed));
        if (narrowed) {
            range.lowest += uint64_t(chosen_bin) << shift;
            range.highest = min(range.highest, range.lowest + ((1ul << shift) - 1ul));
        } else {
            range.bin = chosen_bin;
        }
        pass = count <= CAPACITY ? PASS_GATHER : narrowed ? PASS_COUNT : PASS_RANGE;
        /* The bin's codes are measured once, then counted by their bits. */
        for (bool again = true; again;) {
            shift = shift_of(range);
            barrier();
            prepare(pass);
            pass_over_row(pass, range, shift);
            again = pass == PASS_RANGE;
            if (again) {
                range.lowest = uint64_t(group_lowest(range_lowest)) << 32;
                range.highest = uint64_t(~group_lowest(~range_highest)) << 32 | 0xFFFFFFFFu;
                pass = PASS_COUNT;
            }
        }
        narrowed = true;
    }
    sort_candidates(count);
    return pick_from_list(count, by_tokens, tokens_before, weight_before, limit);
}
