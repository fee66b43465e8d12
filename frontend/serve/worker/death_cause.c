/*
 * Signals that the kernel raises for a fault of the process itself are crash signals. Every other
 * signal comes from another process or from the kernel's OOM killer; these two look the same.
 */
#include "frontend/serve/worker/death_cause.h"

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

enum death_cause death_cause_from_status(int wait_status)
{
    static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
    if (!WIFSIGNALED(wait_status))
        return DEATH_EXIT;
    for (size_t i = 0; i < sizeof crash_signals / sizeof crash_signals[0]; i++) {
        if (WTERMSIG(wait_status) == crash_signals[i])
            return DEATH_CRASH_SIGNAL;
    }
    return DEATH_OUTSIDE_SIGNAL;
}

const char *death_cause_name(enum death_cause cause)
{
    static const char *const names[] = {[DEATH_CRASH_SIGNAL] = "crash_signal",
                                        [DEATH_HUNG] = "hung",
                                        [DEATH_BROKE_PROTOCOL] = "broke_protocol",
                                        [DEATH_EXIT] = "exit",
                                        [DEATH_OUTSIDE_SIGNAL] = "outside_signal"};
    return names[cause];
}

bool death_cause_is_outside(enum death_cause cause)
{
    return cause == DEATH_OUTSIDE_SIGNAL;
}
