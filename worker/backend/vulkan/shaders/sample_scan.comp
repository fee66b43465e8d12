#version 450
/*
 * Sampling, first half: many workgroups per row read every logit once.
 *
 * Each workgroup reads a chunk of the vocabulary. It applies biases, penalties and a mask: it counts the tokens
 * that the sequence has seen, as far as they lie in the chunk, in shared memory, from the history that
 * embed_rows keeps (or from a list of the host), so no counts are kept between steps. The few
 * changed logits are written back.
 *
 * The result of a chunk: its largest logit, the largest of each block of 32 (with which sample_draw
 * finds candidates without reading the row again), and, if the draw needs them, sums of weights
 * relative to the chunk's largest.
 *
 * A row that changes and that sample_explain reports is copied before; the copy has the same results.
 *
 * Greedy rows and forced tokens end here: the last workgroup of a row to arrive compares the chunks.
 *
 * Grid: (chunks, rows).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;
/* All rows are greedy, without bias, penalty and sum. The variant without that code needs fewer
 * registers and less shared memory, so more workgroups fit at once. */
layout(constant_id = 2) const bool PLAIN = false;

#include "sample_rows.glsl"
#include "sample_sums.glsl"

const uint QUADS = BLOCK / 4;

/* Of each token of the chunk: bits 0..19 times in the context of the frequency penalty (positions
 * fit 20 bits), bit 20 in that of the repetition penalty, bits 21..31 number of its bias plus 1 (of
 * at most 1041); and a bit for being in that of the presence penalty. */
shared uint seen[PLAIN ? 1 : CHUNK];
shared uint present[PLAIN ? 1 : CHUNK / 32];
const uint SEEN_REPEATED = 1u << 20, SEEN_FREQUENCY = SEEN_REPEATED - 1, SEEN_BIAS = 21;
const uint LISTED_PRESENT = 1u << 21; /* in the host's list of counts */

shared bool is_last;
uvec4 bits[QUADS];
SampleRecord record;

/* The chunk's token 4 * (quad * SCANNERS + invocation) is the first of this invocation's quad. */
uint quad_offset(uint quad)
{
    return 4 * (quad * SCANNERS + gl_LocalInvocationID.x);
}

/* --- bias and penalties --- */

/* a / b rounded as IEEE 754 says: the device's own may be 2.5 units off. */
float divide(float a, float b)
{
    precise float quotient = a / b;
    precise float left = fma(-quotient, b, a);
    precise float exact = fma(left, 1.0 / b, quotient);
    return (floatBitsToUint(quotient) & PLUS_INFINITY) == PLUS_INFINITY ? quotient : exact;
}

void note_token(uint token, uint position, uint first)
{
    uint offset = token - first;
    if (offset >= CHUNK || position >= record.position)
        return;
    if (position >= record.frequency_from)
        atomicAdd(seen[offset], 1);
    if (position >= record.repetition_from)
        atomicOr(seen[offset], SEEN_REPEATED);
    if (position >= record.presence_from)
        atomicOr(present[offset / 32], 1u << offset % 32);
}

/* Four tokens at a time, and several of those on their way at once. */
void count_history(uint row, uint first)
{
    const uint AT_ONCE = 4;
    uint step_row = StepWords(push.logit_rows).at[row];
    uint sequence = StepRows(push.rows).at[step_row].sequence;
    uint table = StepSequences(push.sequences).at[sequence].table[0];
    uint last = (record.position - 1) / 4;
    for (uint begin = gl_LocalInvocationID.x; begin <= last; begin += AT_ONCE * SCANNERS) {
        uvec4 tokens[AT_ONCE];
        [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
            uint quad = min(begin + i * SCANNERS, last);
            uint block = StepWords(push.tables).at[table + 4 * quad / KV_BLOCK_TOKENS];
            uint64_t at = push.history + uint64_t(block) * (4 * KV_BLOCK_TOKENS);
            tokens[i] = SampleQuads(at + 16 * (quad % (KV_BLOCK_TOKENS / 4))).value;
        }
        [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
            uint quad = begin + i * SCANNERS;
            if (quad <= last)
                for (uint j = 0; j < 4; j++)
                    note_token(tokens[i][j], 4 * quad + j, first);
        }
    }
}

void count_list(uint first)
{
    for (uint i = gl_LocalInvocationID.x; i < record.count_count; i += gl_WorkGroupSize.x) {
        uvec2 entry = SampleEntries(push.entries).at[record.count_first + i];
        uint offset = entry.x - first;
        if (offset >= CHUNK)
            continue;
        atomicOr(seen[offset], entry.y & (SEEN_REPEATED | SEEN_FREQUENCY));
        if ((entry.y & LISTED_PRESENT) != 0)
            atomicOr(present[offset / 32], 1u << offset % 32);
    }
}

void note_biases(uint first)
{
    for (uint i = gl_LocalInvocationID.x; i < record.bias_count; i += gl_WorkGroupSize.x) {
        uint offset = SampleEntries(push.entries).at[record.bias_first + i].x - first;
        if (offset < CHUNK)
            atomicOr(seen[offset], i + 1 << SEEN_BIAS);
    }
}

/* The bits of its bias; those of -infinity: the token is barred. */
uint bias_of(uint note)
{
    uint entry = record.bias_first + (note >> SEEN_BIAS) - 1;
    return note >> SEEN_BIAS != 0 ? SampleEntries(push.entries).at[entry].y : 0;
}

/* `repetition` is 1 and the others 0 for tokens without penalty.
 *
 * Takes parameters, not the record: glslang tracks `precise` through every use of an object, which
 * takes minutes for one as large as the record. */
float adjusted(float raw, float bias, float repetition, float presence, float often)
{
    precise float logit = raw + bias;
    if (repetition != 1.0)
        logit = logit > 0.0 ? divide(logit, repetition) : logit * repetition;
    precise float penalty = presence + often;
    logit = logit - penalty;
    return logit;
}

/* In memory: each invocation changes only logits that it alone will read. */
void adjust(uint row, uint first)
{
    for (uint i = gl_LocalInvocationID.x; i < CHUNK; i += gl_WorkGroupSize.x)
        seen[i] = 0;
    for (uint i = gl_LocalInvocationID.x; i < CHUNK / 32; i += gl_WorkGroupSize.x)
        present[i] = 0;
    barrier();
    if ((record.flags & ROW_PENALTIES) != 0) {
        if ((record.flags & ROW_HISTORY) != 0)
            count_history(row, first);
        else
            count_list(first);
    }
    note_biases(first);
    barrier();
    uint64_t logits = logits_of(row) + 4 * first;
    for (uint i = 0; i < BLOCK; i++) {
        uint offset = quad_offset(i / 4) + i % 4;
        uint note = seen[offset];
        bool is_present = (present[offset / 32] >> offset % 32 & 1) != 0;
        if (note == 0 && !is_present)
            continue;
        uint raw = SampleWords(logits).at[offset];
        uint bias = bias_of(note);
        if (bias == MINUS_INFINITY)
            SampleWords(logits).at[offset] = bias;
        else if ((raw & PLUS_INFINITY) != PLUS_INFINITY) /* else it is no number and stays */
            SampleWords(logits).at[offset] = floatBitsToUint(
                adjusted(uintBitsToFloat(raw), uintBitsToFloat(bias),
                         (note & SEEN_REPEATED) != 0 ? record.repetition : 1.0,
                         is_present ? record.presence : 0.0,
                         record.frequency * float(note & SEEN_FREQUENCY)));
    }
}

/* Tokens that the row's mask leaves out. Likewise in memory. */
void apply_mask(uint row, uint first)
{
    uint64_t mask = push.entries + 8 * uint64_t(record.mask_first);
    for (uint quad = 0; quad < QUADS; quad++) {
        uint token = first + quad_offset(quad);
        if (token >= push.vocab_tokens)
            continue;
        uint allowed = SampleWords(mask).at[token / 32] >> token % 32 & 15u;
        for (uint i = 0; i < 4 && allowed != 15u; i++)
            if ((allowed >> i & 1u) == 0 && token + i < push.vocab_tokens)
                SampleWords(logits_of(row)).at[token + i] = MINUS_INFINITY;
    }
}

/* This invocation's logits, into a copy. */
void copy_logits(uint64_t copy, uint first)
{
    [[unroll]] for (uint quad = 0; quad < QUADS; quad++) {
        uint token = first + quad_offset(quad);
        if (token < push.vocab_tokens)
            SampleQuads(copy + 4 * token).value = bits[quad];
    }
}

/* --- results of a chunk --- */

/* The largest key of this invocation's block. Uses the raw bits, which is correct except for NaN,
 * +infinity and -0; these are replaced only if one of them seems to be the largest. */
uint largest_key()
{
    uint largest = 0;
    [[unroll]] for (uint quad = 0; quad < QUADS; quad++)
        [[unroll]] for (uint i = 0; i < 4; i++)
            largest = max(largest, key(bits[quad][i]));
    if (largest <= HIGHEST_KEY && largest >= LOWEST_KEY && largest != key(0x80000000u))
        return largest;
    largest = LOWEST_KEY;
    [[unroll]] for (uint quad = 0; quad < QUADS; quad++)
        [[unroll]] for (uint i = 0; i < 4; i++)
            largest = max(largest, key(clean(bits[quad][i])));
    return largest;
}

/* The lowest of this invocation's tokens with that key. */
uint token_with(uint wanted_key, uint first)
{
    uint token = NO_TOKEN;
    [[unroll]] for (uint quad = 0; quad < QUADS; quad++)
        [[unroll]] for (uint i = 0; i < 4; i++)
            if (key(clean(bits[quad][i])) == wanted_key)
                token = min(token, first + quad_offset(quad) + i);
    return token;
}

/* Sum of this invocation's weights, in the order of sum_chunk() in worker/sample/logit_walk.c. */
uint64_t block_mass(float largest, float inverse_temperature)
{
    precise vec4 sums = vec4(0.0);
    [[unroll]] for (uint quad = 0; quad < QUADS; quad++)
        [[unroll]] for (uint i = 0; i < 4; i++)
            sums[i] += weight(clean(bits[quad][i]), largest, inverse_temperature);
    precise float sum = sums.x + sums.y + (sums.z + sums.w);
    return units(sum);
}

bool wants_blocks()
{
    return record.temperature > 0.0 || (record.flags & ROW_EXPLAIN) != 0;
}

/* `flags`: which sums are wanted. */
SamplePart look(uint first, uint block_key, uint flags)
{
    SamplePart part;
    part.best_key = subgroupMax(block_key);
    part.best_token = NO_TOKEN;
    if (block_key == part.best_key) /* of the subgroup: the rest need not search */
        part.best_token = token_with(block_key, first);
    group_best(part.best_key, part.best_token);
    part.lowest_key = NO_TOKEN;
    part.unused = 0;
    part.mass = 0;
    part.natural_mass = 0;
    if (part.best_key == LOWEST_KEY)
        return part;
    float largest = logit_of(part.best_key);
    if (PLAIN)
        return part;
    if (wants_blocks())
        part.lowest_key = group_lowest(block_key == LOWEST_KEY ? NO_TOKEN : block_key);
    if ((flags & ROW_MASS) != 0)
        part.mass = group_sum(block_mass(largest, record.inverse_temperature));
    if ((flags & (ROW_LOGPROB | ROW_EXPLAIN)) != 0)
        part.natural_mass = group_sum(block_mass(largest, 1.0));
    return part;
}

/* True for the last workgroup of the row, which sees the writes of the others. */
bool arrive(uint row)
{
    if (gl_LocalInvocationID.x == 0) {
        memoryBarrierBuffer();
        uint before = atomicAdd(SampleWords(push.arrivals).at[row], 1);
        is_last = before == push.chunk_count - 1;
        if (is_last)
            SampleWords(push.arrivals).at[row] = 0;
        memoryBarrierBuffer();
    }
    barrier();
    return is_last;
}

void finish_greedy(uint row)
{
    uint best_key = 0;
    uint best_token = NO_TOKEN;
    for (uint i = gl_LocalInvocationID.x; i < push.chunk_count; i += gl_WorkGroupSize.x) {
        uint part_key = SampleParts(parts_of(row)).at[i].best_key;
        uint part_token = SampleParts(parts_of(row)).at[i].best_token;
        if (part_key > best_key) {
            best_key = part_key;
            best_token = part_token;
        }
    }
    group_best(best_key, best_token);
    if (gl_LocalInvocationID.x != 0)
        return;
    uint token = best_key == LOWEST_KEY ? 0 : best_token;
    if (!PLAIN && record.forced != NO_TOKEN)
        token = record.forced;
    SampleWords(push.drawn).at[row] = token;
    SampleResults(push.results).at[row].token = token;
}

/* Computes the chunk's results from the given logits, for the following kernels. */
void scan(uint64_t logits, uint64_t parts, uint64_t keys, uint64_t copy, uint flags)
{
    uint first = gl_WorkGroupID.x * CHUNK;
    [[unroll]] for (uint quad = 0; quad < QUADS; quad++)
        bits[quad] = load_raw_quad(logits, first + quad_offset(quad));
    if (!PLAIN && copy != 0)
        copy_logits(copy, first);
    uint block_key = largest_key();
    if (!PLAIN && wants_blocks())
        SampleWords(keys).at[gl_WorkGroupID.x * SCANNERS + gl_LocalInvocationID.x] = block_key;
    SamplePart part = look(first, block_key, flags);
    if (gl_LocalInvocationID.x == 0)
        SampleParts(parts).at[gl_WorkGroupID.x] = part;
}

void main()
{
    uint row = gl_WorkGroupID.y;
    uint flags = 0;
    if (!PLAIN) {
        record = SampleRecords(push.records).at[row];
        flags = record.flags;
        uint at = record.raw_at;
        if (at != NO_TOKEN) {
            scan(logits_of(row), copy_parts(at), copy_keys(at), copy_of(at), ROW_EXPLAIN);
            flags &= ~ROW_EXPLAIN;
        }
        if ((flags & ROW_PENALTIES) != 0 || record.bias_count > 0)
            adjust(row, gl_WorkGroupID.x * CHUNK);
        if (record.mask_first != NO_TOKEN)
            apply_mask(row, gl_WorkGroupID.x * CHUNK);
    }
    scan(logits_of(row), parts_of(row), keys_of(row), 0, flags);
    bool is_greedy = PLAIN || (record.temperature == 0.0 && (flags & ROW_LOGPROB) == 0);
    if (is_greedy && arrive(row))
        finish_greedy(row);
}
