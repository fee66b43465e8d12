#version 450
/*
 * Sampling, first half: every logit is read once, by many workgroups a row.
 *
 * Each looks at a chunk of the vocabulary. Biases and penalties are applied here: the tokens that
 * the sequence has seen are counted into shared memory as far as they lie in the chunk, from the
 * history that embed_rows keeps (or a list of the host's), so nothing about them needs to be kept
 * between steps. Rows that will be drawn from get their changed logits written back.
 *
 * What remains of a chunk: its largest logit, the largest of each block of 32 (by which sample_draw
 * finds candidates without reading the row again), and, where the draw needs them, sums of weights
 * relative to the chunk's largest.
 *
 * Greedy rows end here: the last workgroup of a row to arrive compares the chunks.
 *
 * Grid: (chunks, rows).
 */
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#include "sample_rows.glsl"
#include "sample_sums.glsl"

const uint QUADS = BLOCK / 4;

/* Of each token of the chunk: bits 0..19 times generated (positions fit 20 bits), bit 20 in the
 * prompt, bits 21..31 number of its bias plus 1 (of at most 1024). */
shared uint seen[CHUNK];
const uint SEEN_PROMPT = 1u << 20, SEEN_GENERATED = SEEN_PROMPT - 1, SEEN_BIAS = 21;

shared bool is_last;
uvec4 bits[QUADS];
SampleRecord record;

/* --- bias and penalties --- */

void count_history(uint row, uint first)
{
    uint step_row = StepWords(push.logit_rows).at[row];
    uint sequence = StepRows(push.rows).at[step_row].sequence;
    uint table = StepSequences(push.sequences).at[sequence].table[0];
    for (uint i = gl_LocalInvocationID.x; i < record.position; i += gl_WorkGroupSize.x) {
        uint block = StepWords(push.tables).at[table + i / KV_BLOCK_TOKENS];
        uint64_t tokens = push.history + uint64_t(block) * (4 * KV_BLOCK_TOKENS);
        uint offset = SampleWords(tokens).at[i % KV_BLOCK_TOKENS] - first;
        if (offset >= CHUNK)
            continue;
        if (i >= record.first_generated)
            atomicAdd(seen[offset], 1);
        else
            atomicOr(seen[offset], SEEN_PROMPT);
    }
}

void count_list(uint first)
{
    for (uint i = gl_LocalInvocationID.x; i < record.count_count; i += gl_WorkGroupSize.x) {
        uvec2 entry = SampleEntries(push.entries).at[record.count_first + i];
        if (entry.x - first < CHUNK)
            atomicOr(seen[entry.x - first], entry.y);
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

uint adjusted(uint bits, uint note)
{
    precise float logit = uintBitsToFloat(bits);
    if (note >> SEEN_BIAS != 0) {
        uint entry = record.bias_first + (note >> SEEN_BIAS) - 1;
        logit = logit + uintBitsToFloat(SampleEntries(push.entries).at[entry].y);
    }
    if ((record.flags & ROW_PENALTIES) == 0 || (note & (SEEN_PROMPT | SEEN_GENERATED)) == 0)
        return floatBitsToUint(logit);
    if (record.repetition != 1.0)
        logit = logit > 0.0 ? divide(logit, record.repetition) : logit * record.repetition;
    uint generated = note & SEEN_GENERATED;
    precise float penalty = record.frequency * float(generated);
    penalty = record.presence + penalty;
    if (generated > 0)
        logit = logit - penalty;
    return floatBitsToUint(logit);
}

void adjust(uint row, uint first)
{
    for (uint i = gl_LocalInvocationID.x; i < CHUNK; i += gl_WorkGroupSize.x)
        seen[i] = 0;
    barrier();
    if ((record.flags & ROW_PENALTIES) != 0) {
        if ((record.flags & ROW_HISTORY) != 0)
            count_history(row, first);
        else
            count_list(first);
    }
    note_biases(first);
    barrier();
    uint64_t logits = push.logits + 4 * (uint64_t(row) * push.vocab_tokens + first);
    for (uint quad = 0; quad < QUADS; quad++)
        for (uint i = 0; i < 4; i++) {
            uint offset = 4 * (quad * SCANNERS + gl_LocalInvocationID.x) + i;
            uint note = seen[offset];
            if (note == 0 || (bits[quad][i] & PLUS_INFINITY) == PLUS_INFINITY)
                continue; /* not a finite number: nothing changes it */
            bits[quad][i] = adjusted(bits[quad][i], note);
            if (record.temperature > 0.0)
                SampleWords(logits).at[offset] = bits[quad][i];
        }
}

/* --- what remains of a chunk --- */

/* Sum of this invocation's weights, in an order of its own. */
uint64_t block_mass(float largest, float temperature)
{
    precise vec4 sums = vec4(0.0);
    for (uint quad = 0; quad < QUADS; quad++)
        for (uint i = 0; i < 4; i++)
            sums[i] += weight(bits[quad][i], largest, temperature);
    precise float sum = sums.x + sums.y + (sums.z + sums.w);
    return units(sum);
}

SamplePart look(uint first, uint block_key)
{
    SamplePart part;
    part.best_key = block_key;
    part.best_token = 0xFFFFFFFFu;
    for (uint quad = 0; quad < QUADS; quad++)
        for (uint i = 0; i < 4; i++)
            if (key(bits[quad][i]) == block_key)
                part.best_token = min(part.best_token,
                                      first + 4 * (quad * SCANNERS + gl_LocalInvocationID.x) + i);
    group_best(part.best_key, part.best_token);
    part.mass = 0;
    part.natural_mass = 0;
    if (part.best_key == LOWEST_KEY)
        return part;
    float largest = logit_of(part.best_key);
    if ((record.flags & ROW_MASS) != 0)
        part.mass = group_sum(block_mass(largest, record.temperature));
    if ((record.flags & ROW_LOGPROB) != 0)
        part.natural_mass = group_sum(block_mass(largest, 1.0));
    return part;
}

/* Puts the chunk's part where the others lie; true for the workgroup that is the row's last. */
bool arrive(uint row, SamplePart part)
{
    if (gl_LocalInvocationID.x == 0) {
        SampleParts(parts_of(row)).at[gl_WorkGroupID.x] = part;
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
    uint64_t parts = parts_of(row);
    uint best_key = 0;
    uint best_token = 0xFFFFFFFFu;
    for (uint i = gl_LocalInvocationID.x; i < push.chunk_count; i += gl_WorkGroupSize.x) {
        uint part_key = SampleParts(parts).at[i].best_key;
        uint part_token = SampleParts(parts).at[i].best_token;
        if (part_key > best_key) {
            best_key = part_key;
            best_token = part_token;
        }
    }
    group_best(best_key, best_token);
    if (gl_LocalInvocationID.x != 0)
        return;
    uint token = best_key == LOWEST_KEY ? 0 : best_token;
    SampleWords(push.drawn).at[row] = token;
    SampleResults(push.results).at[row].token = token;
}

void main()
{
    uint row = gl_WorkGroupID.y;
    uint first = gl_WorkGroupID.x * CHUNK;
    record = SampleRecords(push.records).at[row];
    for (uint quad = 0; quad < QUADS; quad++)
        bits[quad] = load_raw_quad(row, first + 4 * (quad * SCANNERS + gl_LocalInvocationID.x));
    if ((record.flags & ROW_PENALTIES) != 0 || record.bias_count > 0)
        adjust(row, first);
    uint block_key = LOWEST_KEY;
    for (uint quad = 0; quad < QUADS; quad++) {
        bits[quad] = clean_quad(bits[quad]);
        for (uint i = 0; i < 4; i++)
            block_key = max(block_key, key(bits[quad][i]));
    }
    if (record.temperature > 0.0) {
        uint block = gl_WorkGroupID.x * SCANNERS + gl_LocalInvocationID.x;
        SampleWords(push.block_keys).at[row * push.chunk_count * SCANNERS + block] = block_key;
    }
    SamplePart part = look(first, block_key);
    bool greedy = record.temperature == 0.0 && (record.flags & ROW_LOGPROB) == 0;
    if (arrive(row, part) && greedy)
        finish_greedy(row);
}
