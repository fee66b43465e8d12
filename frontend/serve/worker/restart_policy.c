/*
 * A worker that worked and died left requests behind that wait to go on, and nothing says that the
 * next one will not work as well: it starts at once. One that died before it told a single token
 * would most likely do so again, and a start costs a machine a lot: each such death doubles the
 * pause, from a tenth of a second up to ten seconds. The first token forgives all.
 */
#include "frontend/serve/worker/restart_policy.h"

#define FIRST_DELAY_MS 100
#define LAST_DELAY_MS  10000
#define DOUBLINGS_MOST 7u /* 100 << 7 is past the last */

void restart_policy_note_progress(struct restart_record *record)
{
    *record = (struct restart_record){.progressed = true};
}

void restart_policy_note_death(struct restart_record *record)
{
    if (!record->progressed)
        record->failed_starts++;
    record->progressed = false;
}

int restart_policy_delay_ms(const struct restart_record *record)
{
    if (record->failed_starts == 0)
        return 0;
    uint32_t doublings = record->failed_starts - 1;
    if (doublings > DOUBLINGS_MOST)
        doublings = DOUBLINGS_MOST;
    int delay_ms = FIRST_DELAY_MS << doublings;
    return delay_ms < LAST_DELAY_MS ? delay_ms : LAST_DELAY_MS;
}
