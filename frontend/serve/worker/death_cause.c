/*
 * Signals that the kernel raises for a fault of the process itself are crash signals. Every other
 * signal comes from another process or from the kernel's OOM killer; these two look the same.
 */
#include "frontend/serve/worker/death_cause.h"

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

static bool is_crash_signal(int number)
{
    static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
    for (size_t i = 0; i < sizeof crash_signals / sizeof crash_signals[0]; i++) {
        if (number == crash_signals[i])
            return true;
    }
    return false;
}

enum death_cause death_cause_from_status(int wait_status)
{
    if (!WIFSIGNALED(wait_status))
        return DEATH_EXIT;
    return is_crash_signal(WTERMSIG(wait_status)) ? DEATH_CRASH_SIGNAL : DEATH_OUTSIDE_SIGNAL;
}

enum death_cause death_cause_from_marks(uint32_t crash_signal, bool said_why)
{
    if (is_crash_signal((int)crash_signal))
        return DEATH_CRASH_SIGNAL;
    return said_why ? DEATH_EXIT : DEATH_OUTSIDE_SIGNAL;
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
