/*
 * The time of a restart is not known: a CPU worker is ready in some 10 ms, a GPU worker in seconds, a worker whose program is
 * gone never. The request waits as long as computing its tokens again would take, by the price of its own prompt. So the pause
 * is at most twice what the better choice would have given, whatever the restart takes.
 */
#include "frontend/serve/engine/resume_policy.h"

int64_t resume_policy_wait_ms(const struct resume_facts *facts)
{
    if (facts->held_tokens < RESUME_LEAST_TOKENS)
        return 0;
    int64_t spent_us = facts->spent_us < 0 ? 0 : facts->spent_us;
    if (spent_us > (int64_t)RESUME_MOST_MS * 1000)
        spent_us = (int64_t)RESUME_MOST_MS * 1000; /* keeps the product below 2^55 */
    int64_t computed_tokens = facts->computed_tokens > 0 ? facts->computed_tokens : 1;
    int64_t wait_ms = spent_us * facts->held_tokens / computed_tokens / 1000;
    if (wait_ms < RESUME_LEAST_MS)
        return RESUME_LEAST_MS;
    return wait_ms < RESUME_MOST_MS ? wait_ms : RESUME_MOST_MS;
}
