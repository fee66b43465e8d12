/*
 * The best division of the first p pieces among the first d devices follows from those among d - 1
 * devices: the table has LIMIT_SPLIT_DEVICES times LIMIT_LAYERS entries, each found in at most
 * LIMIT_LAYERS steps.
 *
 * A division is as good as its worst device. A device whose weights fit is judged by the number of
 * tokens whose keys and values fit beside them; so equal devices get equal layers, and a head or an
 * embedding counts as what it takes. If the weights fit nowhere, the number of bytes missing decides.
 */
#include "worker/backend/split/split_policy.h"

#include <stdlib.h>

#include "proto/must.h"

/* Larger is better; below 0: minus the bytes that are missing. */
static double rate(uint64_t memory_bytes, uint64_t weight_bytes, uint64_t kv_bytes)
{
    double left = (double)memory_bytes - (double)weight_bytes;
    return left < 0 || kv_bytes == 0 ? left : left / (double)kv_bytes;
}

struct table {
    double worst;
    uint32_t begin; /* of the last device's run */
};

uint64_t split_policy_divide(const struct split_piece *pieces, uint32_t piece_count,
                             const uint64_t *memory_bytes, uint32_t devices,
                             uint32_t ends[LIMIT_SPLIT_DEVICES])
{
    must(devices > 0 && devices <= LIMIT_SPLIT_DEVICES && piece_count >= devices);
    struct table *table = must_alloc((size_t)devices * (piece_count + 1), sizeof *table);
    for (uint32_t d = 0; d < devices; d++) {
        struct table *row = table + (size_t)d * (piece_count + 1);
        for (uint32_t end = d + 1; end <= piece_count; end++) {
            uint64_t weight_bytes = 0, kv_bytes = 0;
            bool found = false;
            for (uint32_t begin = end; begin-- > d;) {
                weight_bytes += pieces[begin].weight_bytes;
                kv_bytes += pieces[begin].kv_bytes;
                if (d == 0 && begin > 0)
                    continue;
                double worst = rate(memory_bytes[d], weight_bytes, kv_bytes);
                double before = d > 0 ? row[-(ptrdiff_t)(piece_count + 1) + begin].worst : worst;
                worst = before < worst ? before : worst;
                if (!found || worst > row[end].worst)
                    row[end] = (struct table){worst, begin};
                found = true;
            }
        }
    }
    double worst = table[(size_t)devices * (piece_count + 1) - 1].worst;
    uint32_t end = piece_count;
    for (uint32_t d = devices; d-- > 0;) {
        ends[d] = end;
        end = table[(size_t)d * (piece_count + 1) + end].begin;
    }
    free(table);
    return worst < 0 ? (uint64_t)-worst : 0;
}
