/*
 * A dying worker takes down all requests of its step, most of them innocent. Progress tells them
 * apart: a replay computes the same tokens again, so a request that crashes workers does it at the
 * same place every time, while the others get past the place where they were.
 *
 * So crashes without a token in between are counted. Enough of them make a suspect, which is
 * retried alone (request_dispatch.h); only a crash alone convicts. A request with a token or two
 * before each crash looks like an unlucky neighbour, so such crashes are counted too, with a much
 * higher limit. For the same reason a suspect must generate some tokens alone before it is
 * acquitted.
 */
#include "frontend/serve/engine/poison_policy.h"

#define WELL_TOKENS 8u  /* tokens between two crashes that clear a request */
#define SLOW_FACTOR 16u /* factor on the number of crashes that make a suspect */

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
