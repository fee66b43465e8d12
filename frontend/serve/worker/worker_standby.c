/*
 * The standby's link is its own from the start. Until it takes over it may send no events: its owner
 * refuses each, which ends the link and the process.
 */
#include "frontend/serve/worker/worker_standby.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "frontend/base/monotonic_clock.h"
#include "proto/log.h"
#include "proto/must.h"
#include "shm/peer_watch.h"

#define LOOK_MS  250  /* at the heartbeat while it loads */
#define PAUSE_MS 1000 /* before the next one after a death */
#define RETRIES  2u

enum standby_state { STANDBY_NONE, STANDBY_LOADING, STANDBY_WAITING };

struct worker_standby {
    const struct worker_settings *settings;
    uint32_t *generation;
    enum standby_state state;
    struct worker_run run;
    int event_fd; /* rung once */
    int prefix_save;
    struct event *death_event;
    struct event *timer; /* LOADING: looks at the heartbeat; NONE: begins again */
    struct heartbeat_watch heartbeat;
    uint32_t failures; /* in a row, while loading */
};

static void timer_set(struct worker_standby *standby, int after_ms)
{
    struct timeval after = {.tv_sec = after_ms / 1000,
                            .tv_usec = (suseconds_t)(after_ms % 1000) * 1000};
    event_add(standby->timer, &after);
}

static void on_bell(void *context)
{
    struct worker_standby *standby = context;
    const struct worker_gauges *gauges = worker_link_gauges(standby->run.link);
    uint32_t state = atomic_load_explicit(&gauges->state, memory_order_acquire);
    if (standby->state != STANDBY_LOADING || state != WORKER_STANDBY)
        return;
    standby->state = STANDBY_WAITING;
    standby->failures = 0;
    event_del(standby->timer);
    log_info("worker %u has a standby, pid %d", standby->settings->index,
             (int)standby->run.process.pid);
}

static void on_corrupt(void *context, const char *why)
{
    struct worker_standby *standby = context;
    log_error("the standby of worker %u is killed: %s", standby->settings->index, why);
    child_process_kill(&standby->run.process);
}

static void on_ready(void *context)
{
    (void)context;
}

static enum result on_event(void *context, uint32_t worker, const struct token_event *event)
{
    (void)context;
    (void)worker;
    (void)event;
    return RESULT_CORRUPT;
}

/* Everything but the process, which is dead or another's. */
static void clear(struct worker_standby *standby)
{
    if (standby->death_event)
        event_free(standby->death_event); /* before its descriptor is closed */
    standby->death_event = NULL;
    if (standby->event_fd >= 0)
        close(standby->event_fd);
    standby->event_fd = -1;
    event_del(standby->timer);
    standby->run = (struct worker_run){.process.pid_fd = -1};
    standby->state = STANDBY_NONE;
}

static void end(struct worker_standby *standby, struct error_text *how)
{
    event_free(standby->death_event);
    standby->death_event = NULL;
    (void)child_process_reap(&standby->run.process, how);
    worker_run_clear(&standby->run);
    clear(standby);
}

static void on_death(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct worker_standby *standby = context;
    struct error_text how;
    bool loading = standby->state == STANDBY_LOADING;
    end(standby, &how);
    standby->failures += loading;
    if (standby->failures >= RETRIES) {
        log_warn("worker %u has no standby: it ended while it loaded: %s", standby->settings->index,
                 how.text);
        return;
    }
    log_warn("the standby of worker %u ended: %s", standby->settings->index, how.text);
    timer_set(standby, PAUSE_MS);
}

static void start(struct worker_standby *standby)
{
    struct error_text error;
    const struct worker_launch launch = {.generation = ++*standby->generation,
                                         .owner = {.context = standby,
                                                   .bell = on_bell,
                                                   .corrupt = on_corrupt,
                                                   .listener = {.context = standby,
                                                                .ready = on_ready,
                                                                .event = on_event,
                                                                .batch_end = on_ready}},
                                         .prefix_load = -1,
                                         .prefix_save = standby->prefix_save,
                                         .standby_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    enum result result = RESULT_IO;
    if (launch.standby_fd < 0)
        (void)error_set(&error, result, "eventfd: %s", strerror(errno));
    else
        result = worker_launch(standby->settings, &launch, &standby->run, &error);
    standby->event_fd = launch.standby_fd;
    if (result != RESULT_OK) {
        log_warn("worker %u has no standby: %s", standby->settings->index, error.text);
        clear(standby);
        return;
    }
    standby->death_event =
        event_new(standby->settings->base, standby->run.process.pid_fd, EV_READ, on_death, standby);
    must(standby->death_event && event_add(standby->death_event, NULL) == 0);
    standby->state = STANDBY_LOADING;
    standby->heartbeat = (struct heartbeat_watch){0};
    timer_set(standby, LOOK_MS);
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct worker_standby *standby = context;
    if (standby->state == STANDBY_NONE) {
        start(standby);
        return;
    }
    const struct worker_gauges *gauges = worker_link_gauges(standby->run.link);
    uint64_t beat = atomic_load_explicit(&gauges->heartbeat, memory_order_relaxed);
    int64_t limit_ms = (int64_t)standby->settings->options->worker_timeout_s * 1000;
    if (heartbeat_watch_hung(&standby->heartbeat, beat, true, monotonic_clock_ms(), limit_ms))
        on_corrupt(standby, "its heartbeat stands still");
    timer_set(standby, LOOK_MS);
}

struct worker_standby *worker_standby_create(const struct worker_settings *settings,
                                             uint32_t *generation)
{
    struct worker_standby *standby = must_alloc(1, sizeof *standby);
    standby->settings = settings;
    standby->generation = generation;
    standby->event_fd = standby->prefix_save = standby->run.process.pid_fd = -1;
    standby->timer = event_new(settings->base, -1, 0, on_timer, standby);
    must(standby->timer != NULL);
    return standby;
}

void worker_standby_destroy(struct worker_standby *standby)
{
    if (!standby)
        return;
    worker_standby_drop(standby);
    event_free(standby->timer);
    free(standby);
}

void worker_standby_begin(struct worker_standby *standby, int prefix_save)
{
    if (standby->state != STANDBY_NONE)
        return;
    standby->prefix_save = prefix_save;
    standby->failures = 0;
    start(standby);
}

void worker_standby_drop(struct worker_standby *standby)
{
    struct error_text how;
    event_del(standby->timer);
    if (standby->state == STANDBY_NONE)
        return;
    child_process_kill(&standby->run.process);
    end(standby, &how);
}

bool worker_standby_take(struct worker_standby *standby, const struct worker_link_owner *owner,
                         struct worker_run *run)
{
    uint64_t one = 1;
    if (standby->state == STANDBY_NONE || peer_watch_ended(standby->run.process.pid_fd) ||
        write(standby->event_fd, &one, sizeof one) != sizeof one)
        return false;
    *run = standby->run;
    worker_link_set_owner(run->link, owner);
    clear(standby);
    return true;
}

bool worker_standby_waits(const struct worker_standby *standby)
{
    return standby->state == STANDBY_WAITING && !peer_watch_ended(standby->run.process.pid_fd);
}

int worker_standby_pid(const struct worker_standby *standby)
{
    return (int)standby->run.process.pid;
}

const char *worker_standby_state_name(const struct worker_standby *standby)
{
    static const char *const names[] = {
        [STANDBY_NONE] = "none", [STANDBY_LOADING] = "loading", [STANDBY_WAITING] = "waiting"};
    return names[standby->state];
}
