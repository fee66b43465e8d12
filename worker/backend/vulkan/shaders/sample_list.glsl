/*
 * A list of candidates in shared memory: gathered in any order, sorted, weighted.
 *
 * After weighting, invocation t holds candidates EACH * t to EACH * t + EACH - 1: their weights, and the
 * running sums from the beginning of the list, each included.
 *
 * The includer has `largest` and `record`.
 */

/* As little code as possible, for drivers that compile slowly. */
layout(constant_id = 3) const bool COMPACT = false;

const uint CAPACITY = 2048;
const uint BINS = 512;
const uint EACH = CAPACITY / gl_WorkGroupSize.x;

/* Codes in two words. Used for bins before codes are gathered and after they are used. */
shared uint pool[2 * CAPACITY];
shared uint gathered_count;
shared uint64_t found_code;
shared uint64_t found_sum; /* of the weights up to and with it, in units */

float held_weight[EACH];
uint64_t held_sum[EACH];

/* --- distances from the largest logit, as bins --- */

/* Grows with the distance; the same for equal logits. */
float bin_position(float logit, float bins_per_logit)
{
    precise float distance = largest - logit;
    precise float position = distance * bins_per_logit;
    return position;
}

uint bin_at(float position)
{
    return position < float(BINS - 1) ? uint(position) : BINS - 1;
}

/* Bins within a bin. */
uint bin_within(float position, uint bin)
{
    precise float within = (position - float(bin)) * float(BINS);
    return bin_at(within);
}

/* --- gathering and sorting --- */

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

/* One candidate an invocation: its place is the number of lower codes. */
void sort_few(uint count)
{
    uint at = gl_LocalInvocationID.x;
    uint64_t own = at < count ? candidate(at) : 0;
    uint place = 0;
    for (uint i = 0; i < count; i++)
        place += candidate(i) < own ? 1 : 0;
    barrier();
    if (at < count)
        put_candidate(place, own);
    barrier();
}

/* Sorts by merging runs that ascend and descend alternately. */
void sort_many(uint count)
{
    uint padded = 2;
    while (padded < count)
        padded *= 2;
    for (uint at = count + gl_LocalInvocationID.x; at < padded; at += gl_WorkGroupSize.x)
        put_candidate(at, ~uint64_t(0));
    barrier();
    for (uint run = 2; run <= padded; run *= 2)
        for (uint step = run / 2; step > 0; step /= 2) {
            for (uint i = gl_LocalInvocationID.x; i < padded / 2; i += gl_WorkGroupSize.x) {
                uint low = (i & ~(step - 1)) << 1 | i & step - 1;
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
}

/* Sorts by ascending code; `count` <= CAPACITY. */
void sort_candidates(uint count)
{
    if (count <= gl_WorkGroupSize.x)
        sort_few(count);
    else
        sort_many(count);
}

/* --- weighing --- */

uint held_at(uint i)
{
    return gl_LocalInvocationID.x * EACH + i;
}

void weigh_candidates(uint count)
{
    uint64_t sum = 0;
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint at = held_at(i);
        uint bits = floatBitsToUint(logit_of(~uint(candidate(min(at, count - 1)) >> 32)));
        held_weight[i] = at < count ? weight(bits, largest, record.inverse_temperature) : 0.0;
        sum += units(held_weight[i]);
        held_sum[i] = sum;
    }
    uint64_t before = group_prefix(sum);
    [[unroll]] for (uint i = 0; i < EACH; i++)
        held_sum[i] += before;
}

/* Sets the result to candidate `at`. */
void find_candidate(uint at, uint64_t sum_before)
{
    barrier();
    [[unroll]] for (uint i = 0; i < EACH; i++)
        if (held_at(i) == at) {
            found_code = candidate(at);
            found_sum = sum_before + held_sum[i];
        }
    barrier();
}

/* Finds the first of `count` candidates with which the number of tokens, or their weight, exceeds
 * `limit`, including those before the list; the last one if none does. */
void pick_candidate(uint count, bool by_tokens, uint64_t tokens_before, uint64_t weight_before,
                    uint64_t limit)
{
    uint crossing = count - 1;
    [[unroll]] for (uint i = 0; i < EACH; i++) {
        uint at = held_at(i);
        uint64_t reached = by_tokens ? tokens_before + at + 1 : weight_before + held_sum[i];
        if (at < count && reached > limit)
            crossing = min(crossing, at);
    }
    find_candidate(group_lowest(crossing), weight_before);
}
