/*
 * Detects whether the other process is alive and whether it makes progress.
 *
 * Death is read from a pidfd, which names one process for ever: a reused pid cannot be mistaken for
 * it, and it fits in any poll loop. A live process is judged by its heartbeat count, and only while
 * it has work, so an idle process and one stopped in a debugger without work are not reported as
 * hung.
 *
 * Nothing is killed here: the supervisor decides.
 */
#include "shm/peer_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum result peer_watch_open(pid_t pid, int *pid_fd, struct error_text *error)
{
    /* Through syscall(2): the C library has had a wrapper only since glibc 2.36. Close-on-exec by
     * definition. */
    long fd = syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno == ESRCH)
        return error_set(error, RESULT_PEER_GONE, "process %d has ended", (int)pid);
    if (fd < 0)
        return error_set(error, RESULT_IO, "pidfd_open(%d): %s", (int)pid, strerror(errno));
    *pid_fd = (int)fd;
    return RESULT_OK;
}

bool peer_watch_ended(int pid_fd)
{
    struct pollfd watched = {.fd = pid_fd, .events = POLLIN};
    return poll(&watched, 1, 0) > 0 && watched.revents != 0;
}

enum result peer_watch_die_with_parent(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return RESULT_IO;
    /* The parent may have died before the request took hold; then this process has been given to
     * another. */
    return getppid() == parent ? RESULT_OK : RESULT_PEER_GONE;
}

bool heartbeat_watch_hung(struct heartbeat_watch *watch, uint64_t beat, bool needed, int64_t now_ms,
                          int64_t limit_ms)
{
    if (!watch->started || !needed || beat != watch->last_beat) {
        *watch =
            (struct heartbeat_watch){.last_beat = beat, .last_change_ms = now_ms, .started = true};
        return false;
    }
    return now_ms - watch->last_change_ms >= limit_ms;
}
