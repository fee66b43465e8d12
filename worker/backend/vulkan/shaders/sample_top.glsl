/*
 * The top of a row as a sorted list, reading only the blocks whose largest logit reaches into it.
 *
 * The includer includes sample_search.glsl before.
 */

shared uint listed_count; /* blocks that have candidates: the first words of distance_bins */
const uint LISTED_MAX = 3 * BINS;

const uint KEYS_AT_ONCE = COMPACT ? 1 : 8; /* blocks' keys on their way */

/* Keys of KEYS_AT_ONCE blocks from `first` on, in steps of the workgroup's size. */
void load_block_keys(uint first, out uint keys[KEYS_AT_ONCE])
{
    [[unroll]] for (uint i = 0; i < KEYS_AT_ONCE; i++) {
        uint block = first + i * gl_WorkGroupSize.x;
        uint loaded = SampleWords(row_keys).at[min(block, block_count() - 1)];
        keys[i] = block < block_count() ? loaded : LOWEST_KEY;
    }
}

/* The number of bins, counted from the largest logit, that hold the largest logits of at least `wanted`
 * blocks; all bins if there are fewer blocks. */
uint bins_with(uint wanted, float per_logit)
{
    for (uint i = gl_LocalInvocationID.x; i < BINS; i += gl_WorkGroupSize.x)
        pool[i] = 0;
    if (gl_LocalInvocationID.x == 0)
        listed_count = gathered_count = 0;
    barrier();
    for (uint first = gl_LocalInvocationID.x; first < block_count();
         first += KEYS_AT_ONCE * gl_WorkGroupSize.x) {
        uint keys[KEYS_AT_ONCE];
        load_block_keys(first, keys);
        [[unroll]] for (uint i = 0; i < KEYS_AT_ONCE; i++)
            if (keys[i] != LOWEST_KEY)
                atomicAdd(pool[bin_at(bin_position(logit_of(keys[i]), per_logit))], 1);
    }
    barrier();
    uint each = BINS / gl_WorkGroupSize.x;
    uint begin = gl_LocalInvocationID.x * each;
    uint count = 0;
    for (uint bin = begin; bin < begin + each; bin++)
        count += pool[bin];
    uint before = uint(group_prefix(count));
    uint enough = BINS;
    for (uint bin = begin; bin < begin + each && enough == BINS; bin++) {
        before += pool[bin];
        if (before >= wanted)
            enough = bin + 1;
    }
    return group_lowest(enough);
}

/* The blocks that reach into the first `bins` bins. */
void list_blocks(uint bins, float per_logit)
{
    for (uint first = gl_LocalInvocationID.x; first < block_count();
         first += KEYS_AT_ONCE * gl_WorkGroupSize.x) {
        uint keys[KEYS_AT_ONCE];
        load_block_keys(first, keys);
        [[unroll]] for (uint i = 0; i < KEYS_AT_ONCE; i++)
            if (keys[i] != LOWEST_KEY && bin_at(bin_position(logit_of(keys[i]), per_logit)) < bins) {
                uint at = atomicAdd(listed_count, 1);
                if (at < LISTED_MAX)
                    distance_bins[at] = first + i * gl_WorkGroupSize.x;
            }
    }
    barrier();
}

/* Gathers all tokens of the listed blocks within the first `bins` bins. */
void gather(uint bins, float per_logit)
{
    const uint QUADS = BLOCK / 4;
    uint quads = min(listed_count, LISTED_MAX) * QUADS;
    for (uint i = gl_LocalInvocationID.x; i < quads; i += gl_WorkGroupSize.x) {
        uint token = block_token(distance_bins[i / QUADS], i % QUADS);
        uvec4 bits = clean_quad(load_raw_quad(row_logits, token));
        for (uint j = 0; j < 4; j++)
            if (bits[j] != MINUS_INFINITY &&
                bin_at(bin_position(uintBitsToFloat(bits[j]), per_logit)) < bins)
                add_candidate(code(key(bits[j]), token + j));
    }
    barrier();
}

/* Makes a sorted list of all tokens down to some logit, at least `wanted` if there are as many;
 * is_all: it has all tokens above -infinity. Returns their number; if it exceeds CAPACITY, no list is
 * made. */
uint list_top(uint wanted, out bool is_all)
{
    float per_logit = 0.999 * float(BINS) / max(span, 1e-30);
    uint bins = bins_with(wanted, per_logit);
    is_all = bins == BINS;
    list_blocks(bins, per_logit);
    gather(bins, per_logit);
    uint count = listed_count > LISTED_MAX ? CAPACITY + 1 : gathered_count;
    barrier(); /* before the next list is begun */
    if (count <= CAPACITY)
        sort_candidates(count);
    return count;
}
