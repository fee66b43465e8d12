/*
 * A worker that dies takes everything with it that its step was computing; most of that is
 * innocent. What tells them apart is progress: the same tokens are computed again after a replay,
 * so a request that kills a worker does it at the same place every time, and a neighbour gets past
 * the place where it was.
 *
 * So crashes count while no token comes between them; enough of them make a suspect, which is then
 * retried alone (request_dispatch.h), and only a crash alone convicts. A request that lets a token
 * or two through before each crash looks like a neighbour who is unlucky, so such crashes are
 * counted too, but it takes many more of them. Alone, a few tokens are asked for before it is
 * acquitted, for the same reason.
 */
#include "frontend/serve/engine/poison_policy.h"

#define WELL_TOKENS 8u  /* a request that gets as many between two crashes is well */
#define SLOW_FACTOR 16u /* times the crashes that make a suspect */

bool poison_policy_suspects(struct crash_record *record, uint32_t generated_tokens,
                            uint32_t most_crashes)
{
    uint32_t progress = generated_tokens - record->generated_tokens;
    if (progress > 0)
        record->stuck = 0;
    if (progress >= WELL_TOKENS)
        record->slow = 0;
    record->stuck++;
    record->slow++;
    record->generated_tokens = generated_tokens;
    return record->stuck >= most_crashes || record->slow >= SLOW_FACTOR * most_crashes;
}

bool poison_policy_acquits(const struct crash_record *record, uint32_t generated_tokens)
{
    return generated_tokens - record->generated_tokens >= WELL_TOKENS;
}
