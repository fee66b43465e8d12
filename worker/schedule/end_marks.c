/*
 * The kernel closes a dead process's descriptors from the highest number down (measured on Linux 6.18: of
 * a pipe above and below a file of 3 GB), each only once the one before is done. So the pipe's end has a
 * number above those that a driver opens. Where a kernel does otherwise, the end is seen with the reaping.
 */
#include "worker/schedule/end_marks.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LIFE_FD_MAX 4096u

static struct device_work *marks;

/* The signal is blocked here and its action is the default one again: it ends the process on return. */
static void on_crash(int number)
{
    atomic_store_explicit(&marks->crash_signal, (uint32_t)number, memory_order_release);
    raise(number);
}

static void catch_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_crash;
    action.sa_flags = (int)SA_RESETHAND;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        (void)sigaction(signals[i], &action, NULL);
}

static void hold(int life_fd)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    int highest = (int)(limit.rlim_cur < LIFE_FD_MAX ? limit.rlim_cur : LIFE_FD_MAX) - 1;
    if (highest > life_fd && dup3(life_fd, highest, O_CLOEXEC) == highest)
        close(life_fd);
}

enum result end_marks_open(int life_fd, int work_fd, struct device_work **work,
                           struct error_text *error)
{
    *work = NULL;
    if (life_fd >= 0)
        hold(life_fd);
    if (work_fd < 0)
        return RESULT_OK;
    enum result result = device_work_open(work_fd, work, error);
    if (result != RESULT_OK)
        return result;
    marks = *work;
    catch_crashes();
    return RESULT_OK;
}
