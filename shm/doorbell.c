/*
 * Wakes a sleeping peer; costs no syscall if the peer is awake.
 *
 * An eventfd write costs a syscall, so it is made only if the peer has announced that it is about
 * to sleep. Records may arrive between the announcement and the sleep; the two full fences make
 * sure that at least one side notices (steps D1-D5 and R1-R4 in doorbell.h, proof in
 * shm/README.md). Spurious wake-ups are allowed, lost ones are not.
 *
 * A broken peer can write to the flag and the eventfd. The effect is a spurious wake-up, or a
 * missing one for that peer's own records. O_NONBLOCK belongs to the open file description, which
 * the peer shares and can clear, so no call here relies on it: reads use RWF_NOWAIT, and a write is
 * made only if poll(2) reports room.
 */
#include "shm/doorbell.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/uio.h>
#include <unistd.h>

/* Under -fsanitize=thread gcc warns that the tool does not model fences. The fence is still
 * emitted, and no plain memory is ordered by it alone (the ring's acquire and release do that), so
 * no race can be missed or imagined. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
static void full_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

static bool event_ready(int fd, short events)
{
    struct pollfd watched = {.fd = fd, .events = events};
    return poll(&watched, 1, 0) == 1 && (watched.revents & events);
}

bool doorbell_ring(struct doorbell *bell)
{
    /* R1 was the caller's commit. */
    full_fence(); /* R2: pairs with D2 in doorbell_prepare_sleep() */
    /* R3 */
    if (atomic_load_explicit(&bell->shared->asleep, memory_order_relaxed) == 0)
        return false;
    /* R4: only one ringer's exchange gets the 1, and the sleeper may have taken it back. */
    if (atomic_exchange_explicit(&bell->shared->asleep, 0, memory_order_relaxed) == 0)
        return false;
    /* An eventfd that takes no more is at its maximum, hence readable: the sleeper wakes all the
     * same. */
    if (event_ready(bell->event_fd, POLLOUT)) {
        const uint64_t one = 1;
        while (write(bell->event_fd, &one, sizeof one) < 0 && errno == EINTR)
            continue;
    }
    return true;
}

void doorbell_prepare_sleep(struct doorbell *bell)
{
    atomic_store_explicit(&bell->shared->asleep, 1, memory_order_relaxed); /* D1 */
    full_fence(); /* D2: pairs with R2 in doorbell_ring() */
}

void doorbell_cancel_sleep(struct doorbell *bell)
{
    /* A ringer that saw the 1 may still write the eventfd: the next wait returns at once, and finds
     * nothing. */
    atomic_store_explicit(&bell->shared->asleep, 0, memory_order_relaxed);
}

void doorbell_woken(struct doorbell *bell)
{
    /* D5 */
    atomic_store_explicit(&bell->shared->asleep, 0, memory_order_relaxed);
    uint64_t count = 0;
    struct iovec into = {.iov_base = &count, .iov_len = sizeof count};
    if (preadv2(bell->event_fd, &into, 1, -1, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP &&
        event_ready(bell->event_fd, POLLIN))
        (void)!read(bell->event_fd, &count, sizeof count); /* kernels before 5.13 */
}

bool doorbell_wait(struct doorbell *bell, int other_fd, int timeout_ms)
{
    /* A negative fd is skipped by poll. */
    struct pollfd watched[2] = {{.fd = bell->event_fd, .events = POLLIN},
                                {.fd = other_fd, .events = POLLIN}};
    /* D4. A signal counts as a wake-up: the caller looks at its stop flag and its work, and comes
     * back. */
    int ready = poll(watched, 2, timeout_ms);
    doorbell_woken(bell);
    return ready > 0 && watched[1].revents != 0;
}
