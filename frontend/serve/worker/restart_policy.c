/*
 * Decides the pause before a dead worker is replaced.
 *
 * A worker that worked and died left requests that wait to continue, and the next one will most
 * likely work as well: it starts at once. A worker that died before its first token would most
 * likely do so again, and a start is expensive: each such death doubles the delay, from 0.1 s up to
 * 10 s. The delay resets once a token arrives.
 *
 * A death from outside (a SIGKILL of another process, or of the kernel's OOM killer) says nothing
 * about the next worker, so it is never a failed start. If the worker had not been ready, the
 * delays grow too, up to 1.6 s, so that a machine without memory does not only load models.
 */
#include "frontend/serve/worker/restart_policy.h"

#define FIRST_DELAY_MS      100
#define FAILED_DELAY_MAX_MS 10000
#define KILLED_DELAY_MAX_MS 1600
#define DOUBLINGS_MAX       7u  /* 100 << 7 is past the longest delay */
#define FIRST_START_TRIES   3u  /* before any worker was ready */
#define HOPELESS_TRIES      7u  /* more than 6 s of delays */
#define HOPELESS_KILL_TRIES 64u /* about 100 s of delays */

void restart_policy_note_ready(struct restart_record *record)
{
    record->ready = true;
    record->killed_starts = 0;
}

void restart_policy_note_progress(struct restart_record *record)
{
    *record = (struct restart_record){.ready = true, .progressed = true};
}

void restart_policy_note_death(struct restart_record *record, bool outside)
{
    if (outside && !record->ready)
        record->killed_starts++;
    else if (!outside && !record->progressed)
        record->failed_starts++;
    record->ready = record->progressed = false;
}

static int delay_ms(uint32_t deaths, int longest_ms)
{
    if (deaths == 0)
        return 0;
    uint32_t doublings = deaths - 1 < DOUBLINGS_MAX ? deaths - 1 : DOUBLINGS_MAX;
    int delay = FIRST_DELAY_MS << doublings;
    return delay < longest_ms ? delay : longest_ms;
}

int restart_policy_delay_ms(const struct restart_record *record)
{
    int failed_ms = delay_ms(record->failed_starts, FAILED_DELAY_MAX_MS);
    int killed_ms = delay_ms(record->killed_starts, KILLED_DELAY_MAX_MS);
    return failed_ms > killed_ms ? failed_ms : killed_ms;
}

bool restart_policy_gives_up(const struct restart_record *record)
{
    return record->failed_starts >= FIRST_START_TRIES ||
           record->killed_starts >= HOPELESS_KILL_TRIES;
}

bool restart_policy_is_hopeless(const struct restart_record *record)
{
    return record->failed_starts >= HOPELESS_TRIES || record->killed_starts >= HOPELESS_KILL_TRIES;
}
