/*
 * A dying worker takes down all requests of its step, most of them innocent. Progress tells them
 * apart: a replay computes the same tokens again, so a request that crashes workers does it at the
 * same place every time, while the others get past the place where they were.
 *
 * Crashes (a crash signal, a hang, an exit) without a token in between are counted. Enough of them
 * make a suspect, which is retried alone (request_dispatch.h); one crash alone convicts. A request
 * with a token or two before each crash looks like an unlucky neighbour, so such crashes are
 * counted too, with a much higher limit. For the same reason a suspect must generate some tokens
 * alone before it is acquitted.
 *
 * A death from outside is a SIGKILL of another process or of the kernel's OOM killer. Only the
 * second can be the request's fault, and nothing tells the two apart in a single death. Computed
 * prompt rows count as progress here: a request that exhausts the memory does so at the same row
 * each time. A suspect is convicted by two deaths alone at the same place, and between them workers
 * must survive for some seconds without it. If one is killed from outside in this time, kills do
 * not depend on the request, and it is no longer suspected. Each further trial doubles the time, so
 * that kills at long intervals are recognized as well. The number of these clearings is bounded:
 * two requests that exhaust the memory would otherwise clear each other for ever.
 */
#include "frontend/serve/engine/poison_policy.h"

#define WELL_TOKENS     8u  /* tokens between two deaths that clear a request */
#define SLOW_FACTOR     16u /* factor on the number of deaths that make a suspect */
#define OUTSIDE_MAX     6u  /* deaths alone from outside, at whatever places, that convict */
#define CLEARINGS_MAX   256u
#define FIRST_WATCH_MS  5000
#define WATCH_DOUBLINGS 4u /* up to 80 s */

static enum poison_verdict verdict(uint32_t stuck, uint32_t slow, uint32_t most_crashes)
{
    return stuck >= most_crashes || slow >= SLOW_FACTOR * most_crashes ? POISON_SUSPECT
                                                                       : POISON_INNOCENT;
}

static enum poison_verdict judge_crash(struct crash_record *record,
                                       const struct poison_death *death, uint32_t most_crashes)
{
    if (death->alone)
        return POISON_GUILTY;
    uint32_t progress = death->place.generated_tokens - record->generated_tokens;
    if (progress > 0)
        record->stuck = 0;
    if (progress >= WELL_TOKENS)
        record->slow = 0;
    record->stuck++;
    record->slow++;
    record->generated_tokens = death->place.generated_tokens;
    return verdict(record->stuck, record->slow, most_crashes);
}

static enum poison_verdict judge_outside(struct crash_record *record,
                                         const struct poison_death *death, uint32_t most_crashes)
{
    uint32_t progress = death->place.generated_tokens - record->outside.generated_tokens;
    bool moved = progress > 0 || death->place.computed_tokens != record->outside.computed_tokens;
    record->outside = death->place;
    if (death->alone) {
        record->outside_alone++;
        bool repeated = record->outside_alone > 1 && !moved;
        return repeated || record->outside_alone >= OUTSIDE_MAX ? POISON_GUILTY : POISON_WATCHED;
    }
    if (moved)
        record->outside_stuck = 0;
    if (progress >= WELL_TOKENS)
        record->outside_slow = 0;
    record->outside_stuck++;
    record->outside_slow++;
    return verdict(record->outside_stuck, record->outside_slow, most_crashes);
}

enum poison_verdict poison_policy_judge(struct crash_record *record,
                                        const struct poison_death *death, uint32_t most_crashes)
{
    record->deaths++;
    return death->outside ? judge_outside(record, death, most_crashes)
                          : judge_crash(record, death, most_crashes);
}

int64_t poison_policy_watch_ms(const struct crash_record *record)
{
    uint32_t doublings = record->outside_alone > 0 ? record->outside_alone - 1 : 0;
    return (int64_t)FIRST_WATCH_MS << (doublings < WATCH_DOUBLINGS ? doublings : WATCH_DOUBLINGS);
}

bool poison_policy_clears(struct crash_record *record, uint32_t most_crashes)
{
    if (record->clearings == CLEARINGS_MAX)
        return false;
    record->clearings++;
    record->outside_stuck = record->outside_slow = record->outside_alone = 0;
    return verdict(record->stuck, record->slow, most_crashes) == POISON_INNOCENT;
}

bool poison_policy_acquits(const struct crash_record *record, uint32_t generated_tokens)
{
    uint32_t crash = record->generated_tokens, outside = record->outside.generated_tokens;
    return generated_tokens - (crash > outside ? crash : outside) >= WELL_TOKENS;
}

void poison_policy_forget(struct crash_record *record, uint32_t generated_tokens)
{
    *record = (struct crash_record){.deaths = record->deaths,
                                    .clearings = record->clearings,
                                    .generated_tokens = generated_tokens,
                                    .outside = {.generated_tokens = generated_tokens}};
}
