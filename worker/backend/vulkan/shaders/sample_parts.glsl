/*
 * A row as the sum of the parts that sample_scan computed for its chunks. Every function is called by
 * all invocations.
 *
 * The includer has `row`, `record` and, for sums, `largest`, and begins with begin_row().
 */

/* Addresses of the row's logits and parts. */
uint64_t row_logits;
uint64_t row_parts;
uint64_t row_keys;

void begin_row()
{
    row = gl_WorkGroupID.x;
    record = SampleRecords(push.records).at[row];
    row_logits = logits_of(row);
    row_parts = parts_of(row);
    row_keys = keys_of(row);
}

/* Finds the best token and the lowest block over all chunks' parts. */
void scan_parts(out uint best_key, out uint best_token, out uint lowest_key)
{
    best_key = LOWEST_KEY;
    best_token = NO_TOKEN;
    lowest_key = NO_TOKEN;
    for (uint i = gl_LocalInvocationID.x; i < push.chunk_count; i += gl_WorkGroupSize.x) {
        SamplePart part = SampleParts(row_parts).at[i];
        if (part.best_key > best_key) {
            best_key = part.best_key;
            best_token = part.best_token;
        }
        lowest_key = min(lowest_key, part.lowest_key);
    }
    group_best(best_key, best_token);
    lowest_key = group_lowest(lowest_key);
}

uint64_t row_mass(bool is_natural)
{
    uint64_t sum = 0;
    for (uint i = gl_LocalInvocationID.x; i < push.chunk_count; i += gl_WorkGroupSize.x) {
        SamplePart part = SampleParts(row_parts).at[i];
        float factor = weight(floatBitsToUint(logit_of(part.best_key)), largest,
                              is_natural ? 1.0 : record.inverse_temperature);
        bool exact;
        if (part.best_key != LOWEST_KEY)
            sum += scale_by(is_natural ? part.natural_mass : part.mass, factor, exact);
    }
    return group_sum(sum);
}
