/*
 * A worker that dies takes everything with it that its step was computing; most of that is
 * innocent. What tells them apart is progress: the same tokens are computed again after a replay,
 * so a request that kills a worker does it at the same place every time, and a neighbour gets past
 * the place where it was.
 *
 * So crashes count while no token comes between them; enough of them make a suspect, which is then
 * retried alone (request_dispatch.h), and only a crash alone convicts. There is one way around
 * that: a request that lets a token or two through before each crash. Such crashes are counted too,
 * up to many times the first number, because neighbours of somebody else's crashes look like that
 * as well when they are unlucky; but nobody may kill workers without end.
 */
#include "frontend/serve/poison_policy.h"

#define SLOW_TOKENS 8u  /* a request that gets as many between two crashes is well */
#define SLOW_FACTOR 16u /* times the crashes that make a suspect */

enum poison_verdict poison_policy_judge(struct crash_record *record, uint32_t generated_tokens,
                                        uint32_t most_crashes)
{
    uint32_t progress = generated_tokens - record->generated_tokens;
    if (progress > 0)
        record->stuck = 0;
    if (progress >= SLOW_TOKENS)
        record->slow = 0;
    record->stuck++;
    record->slow++;
    record->generated_tokens = generated_tokens;
    if (record->slow >= SLOW_FACTOR * most_crashes)
        return POISON_GUILTY;
    return record->stuck >= most_crashes ? POISON_SUSPECT : POISON_NEIGHBOUR;
}
