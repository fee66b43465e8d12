#include "frontend/serve/worker/worker_lifeline.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/must.h"
#include "shm/device_work.h"

#define LOOK_US 500 /* at the device's work once the process has ended */

struct worker_lifeline {
    struct event_base *base;
    int life[2]; /* a pipe: our end, the process's end */
    int work_fd;
    const struct device_work *work;
    struct event *life_event; /* end of file: no thread of the process runs */
    struct event *timer;
    const struct child_process *process;
    void (*ended)(void *context);
    void *context;
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

enum result worker_lifeline_create(struct event_base *base, struct worker_lifeline **lifeline,
                                   struct error_text *error)
{
    struct worker_lifeline *made = must_alloc(1, sizeof *made);
    *made = (struct worker_lifeline){.base = base, .life = {-1, -1}, .work_fd = -1};
    enum result result = RESULT_OK;
    if (pipe2(made->life, O_CLOEXEC | O_NONBLOCK) != 0)
        result = error_set(error, RESULT_IO, "pipe: %s", strerror(errno));
    if (result == RESULT_OK)
        result = device_work_create(&made->work_fd, &made->work, error);
    if (result != RESULT_OK) {
        worker_lifeline_destroy(made);
        return result;
    }
    *lifeline = made;
    return RESULT_OK;
}

void worker_lifeline_destroy(struct worker_lifeline *lifeline)
{
    if (!lifeline)
        return;
    if (lifeline->life_event)
        event_free(lifeline->life_event); /* before its descriptor is closed */
    if (lifeline->timer)
        event_free(lifeline->timer);
    close_end(&lifeline->life[0]);
    worker_lifeline_begin(lifeline);
    device_work_close(lifeline->work);
    free(lifeline);
}

struct child_lifeline_fds worker_lifeline_fds(const struct worker_lifeline *lifeline)
{
    return (struct child_lifeline_fds){.life = lifeline->life[1], .work = lifeline->work_fd};
}

void worker_lifeline_begin(struct worker_lifeline *lifeline)
{
    close_end(&lifeline->life[1]);
    close_end(&lifeline->work_fd);
}

/* Looks again until the device has finished or the owner has reaped the process. */
static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct worker_lifeline *lifeline = context;
    static const struct timeval after = {.tv_usec = LOOK_US};
    if (device_work_is_finished(lifeline->work))
        lifeline->ended(lifeline->context);
    else
        event_add(lifeline->timer, &after);
}

static void on_life_end(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct worker_lifeline *lifeline = context;
    event_del(lifeline->life_event);
    child_process_kill(lifeline->process); /* changes nothing if it is dead */
    if (atomic_load_explicit(&lifeline->work->marked, memory_order_relaxed) == 1)
        on_timer(-1, 0, lifeline);
}

void worker_lifeline_watch(struct worker_lifeline *lifeline, const struct child_process *process,
                           void (*ended)(void *context), void *context)
{
    must(!lifeline->life_event);
    lifeline->process = process;
    lifeline->ended = ended;
    lifeline->context = context;
    lifeline->timer = event_new(lifeline->base, -1, 0, on_timer, lifeline);
    lifeline->life_event =
        event_new(lifeline->base, lifeline->life[0], EV_READ | EV_PERSIST, on_life_end, lifeline);
    must(lifeline->timer && lifeline->life_event && event_add(lifeline->life_event, NULL) == 0);
}

uint32_t worker_lifeline_crash_signal(const struct worker_lifeline *lifeline)
{
    return atomic_load_explicit(&lifeline->work->crash_signal, memory_order_acquire);
}
