/*
 * One worker at a time, for as long as the server runs.
 *
 * Death is a readable pidfd. A hang is a heartbeat that stands still while the worker loads or owes
 * something; then it is killed, and dies like any other. What the worker published before it died
 * is still taken; then its segment is thrown away, so nothing that it wrote reaches the next one,
 * which starts on a fresh segment after a pause: 100 ms, doubled at every death up to 10 s, and
 * back to 100 ms once a worker was ready for a minute.
 *
 * A worker that says itself why it cannot load (WORKER_FAILED) before any was ever ready is
 * believed: the same file would fail again. One that dies without a word before any was ever ready
 * gets a few more tries.
 *
 * The timer runs only while there is something to watch (a start, or work owed): an idle server
 * does not wake up.
 */
#include "frontend/serve/worker_supervisor.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/serve/child_process.h"
#include "frontend/serve/monotonic_clock.h"
#include "proto/log.h"
#include "proto/must.h"
#include "shm/peer_watch.h"

#define START_LOOK_MS       10
#define WATCH_LOOK_MS       250
#define BACKOFF_FIRST_MS    100
#define BACKOFF_LAST_MS     10000
#define HEALTHY_MS          60000
#define FIRST_START_TRIES   3
#define DRAIN_EXIT_LIMIT_MS 5000

struct worker_supervisor {
    struct worker_supervisor_config config;
    enum supervisor_state state;
    struct child_process process;
    struct worker_link *link;
    struct event *death_event;
    struct event *timer;
    struct heartbeat_watch heartbeat;
    bool work_expected;
    bool ever_ready;
    uint32_t starts;
    uint32_t weights_generation; /* of the vault that the worker was given */
    int64_t ready_at_ms;
    int64_t drain_at_ms;
    int backoff_ms;
    char condemned[256]; /* why it is being killed; "" when it is not */
};

static void on_death(int fd, short what, void *context);
static void on_timer(int fd, short what, void *context);

static void timer_set(struct worker_supervisor *supervisor, int timeout_ms)
{
    struct timeval after = {.tv_sec = timeout_ms / 1000,
                            .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    event_add(supervisor->timer, &after);
}

static void on_link_corrupt(void *context, const char *why)
{
    worker_supervisor_condemn(context, why);
}

static enum result on_link_event(void *context, const struct token_event *event)
{
    struct worker_supervisor *supervisor = context;
    return supervisor->config.event(supervisor->config.context, event);
}

static void on_link_batch_end(void *context)
{
    struct worker_supervisor *supervisor = context;
    supervisor->config.batch_end(supervisor->config.context);
}

static enum result worker_start(struct worker_supervisor *supervisor, struct error_text *error)
{
    const struct options *options = supervisor->config.options;
    struct worker_link_config link = {.base = supervisor->config.base,
                                      .generation = ++supervisor->starts,
                                      .live_requests = supervisor->config.live_requests,
                                      .slab_bytes = options->slab_bytes,
                                      .context = supervisor,
                                      .event = on_link_event,
                                      .batch_end = on_link_batch_end,
                                      .corrupt = on_link_corrupt};
    enum result result = worker_link_create(&link, &supervisor->link, error);
    if (result != RESULT_OK)
        return result;
    struct worker_link_fds fds = worker_link_fds(supervisor->link);
    supervisor->weights_generation = weight_holder_generation(supervisor->config.weights);
    result = child_process_spawn(options, &fds, weight_holder_fd(supervisor->config.weights), 0,
                                 &supervisor->process, error);
    if (result != RESULT_OK) {
        worker_link_destroy(supervisor->link);
        supervisor->link = NULL;
        return result;
    }
    supervisor->death_event = event_new(supervisor->config.base, supervisor->process.pid_fd,
                                        EV_READ, on_death, supervisor);
    must(supervisor->death_event && event_add(supervisor->death_event, NULL) == 0);
    supervisor->state = SUPERVISOR_STARTING;
    supervisor->heartbeat = (struct heartbeat_watch){0};
    supervisor->condemned[0] = '\0';
    log_info("worker started, pid %d", (int)supervisor->process.pid);
    timer_set(supervisor, START_LOOK_MS);
    return RESULT_OK;
}

enum result worker_supervisor_create(const struct worker_supervisor_config *config,
                                     struct worker_supervisor **supervisor,
                                     struct error_text *error)
{
    struct worker_supervisor *made = must_alloc(1, sizeof *made);
    made->config = *config;
    made->process.pid_fd = -1;
    made->backoff_ms = BACKOFF_FIRST_MS;
    made->timer = event_new(config->base, -1, 0, on_timer, made);
    must(made->timer != NULL);
    enum result result = worker_start(made, error);
    if (result != RESULT_OK) {
        worker_supervisor_destroy(made);
        return result;
    }
    *supervisor = made;
    return RESULT_OK;
}

/* Frees what belonged to the worker that has ended. */
static void worker_clear(struct worker_supervisor *supervisor)
{
    if (supervisor->death_event)
        event_free(supervisor->death_event);
    supervisor->death_event = NULL;
    worker_link_destroy(supervisor->link);
    supervisor->link = NULL;
}

void worker_supervisor_destroy(struct worker_supervisor *supervisor)
{
    if (!supervisor)
        return;
    if (supervisor->process.pid > 0) {
        struct error_text how;
        if (supervisor->death_event)
            event_del(supervisor->death_event); /* before its descriptor is closed */
        child_process_kill(&supervisor->process);
        (void)child_process_reap(&supervisor->process, &how);
    }
    worker_clear(supervisor);
    event_free(supervisor->timer);
    free(supervisor);
}

enum supervisor_state worker_supervisor_state(const struct worker_supervisor *supervisor)
{
    return supervisor->state;
}

struct worker_link *worker_supervisor_link(const struct worker_supervisor *supervisor)
{
    return supervisor->link;
}

uint32_t worker_supervisor_restarts(const struct worker_supervisor *supervisor)
{
    return supervisor->starts > 0 ? supervisor->starts - 1 : 0;
}

double worker_supervisor_load_progress(const struct worker_supervisor *supervisor)
{
    if (supervisor->state == SUPERVISOR_READY)
        return 1;
    if (!supervisor->link)
        return 0;
    const struct worker_gauges *gauges = worker_link_gauges(supervisor->link);
    uint64_t done = atomic_load_explicit(&gauges->load_done_bytes, memory_order_relaxed);
    uint64_t total = atomic_load_explicit(&gauges->load_total_bytes, memory_order_relaxed);
    return total == 0 ? 0 : done >= total ? 1 : (double)done / (double)total;
}

/* --- death ----------------------------------------------------------------------------------- */

/* The worker's own words when it said that it cannot start. */
static bool failure_read(const struct worker_supervisor *supervisor, struct error_text *words)
{
    const struct worker_gauges *gauges = worker_link_gauges(supervisor->link);
    /* Pairs with the worker's release store after it wrote `failure`. */
    if (atomic_load_explicit(&gauges->state, memory_order_acquire) != WORKER_FAILED)
        return false;
    memcpy(words->text, gauges->failure, sizeof words->text);
    words->text[sizeof words->text - 1] = '\0';
    return true;
}

static void stop_for_good(struct worker_supervisor *supervisor, const char *why)
{
    supervisor->state = SUPERVISOR_STOPPED;
    event_del(supervisor->timer);
    supervisor->config.failed(supervisor->config.context, why);
}

static void backoff_begin(struct worker_supervisor *supervisor)
{
    bool was_healthy = supervisor->state == SUPERVISOR_READY &&
                       monotonic_clock_ms() - supervisor->ready_at_ms >= HEALTHY_MS;
    if (was_healthy)
        supervisor->backoff_ms = BACKOFF_FIRST_MS;
    supervisor->state = SUPERVISOR_BACKOFF;
    timer_set(supervisor, supervisor->backoff_ms);
    supervisor->backoff_ms *= 2;
    if (supervisor->backoff_ms > BACKOFF_LAST_MS)
        supervisor->backoff_ms = BACKOFF_LAST_MS;
}

static void on_death(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct worker_supervisor *supervisor = context;
    struct error_text how;
    struct error_text words;
    bool said_why = failure_read(supervisor, &words);
    event_free(supervisor->death_event); /* before its descriptor is closed */
    supervisor->death_event = NULL;
    bool clean = child_process_reap(&supervisor->process, &how);
    if (supervisor->condemned[0])
        memcpy(how.text, supervisor->condemned, sizeof how.text);
    if (supervisor->state == SUPERVISOR_DRAINING) {
        log_info("worker ended: %s", how.text);
        worker_link_take_rest(supervisor->link);
        worker_clear(supervisor);
        supervisor->state = SUPERVISOR_STOPPED;
        event_del(supervisor->timer);
        supervisor->config.drained(supervisor->config.context);
        return;
    }
    log_error("worker died%s: %s%s%s", clean ? " (unasked)" : "", how.text, said_why ? ": " : "",
              said_why ? words.text : "");
    supervisor->config.died(supervisor->config.context, how.text);
    worker_clear(supervisor);
    if (!supervisor->ever_ready && said_why)
        stop_for_good(supervisor, words.text);
    else if (!supervisor->ever_ready && supervisor->starts >= FIRST_START_TRIES)
        stop_for_good(supervisor, how.text);
    else
        backoff_begin(supervisor);
}

void worker_supervisor_condemn(struct worker_supervisor *supervisor, const char *why)
{
    if (supervisor->process.pid <= 0 || supervisor->condemned[0])
        return;
    log_error("worker is killed: %s", why);
    snprintf(supervisor->condemned, sizeof supervisor->condemned, "killed: %.200s", why);
    child_process_kill(&supervisor->process);
}

/* --- watching -------------------------------------------------------------------------------- */

static void look_at_start(struct worker_supervisor *supervisor)
{
    const struct worker_gauges *gauges = worker_link_gauges(supervisor->link);
    /* Pairs with the worker's release store of READY: the other gauges are set. */
    if (atomic_load_explicit(&gauges->state, memory_order_acquire) != WORKER_READY)
        return;
    uint32_t vocab = atomic_load_explicit(&gauges->vocab_tokens, memory_order_relaxed);
    if (vocab == 0 || vocab > LIMIT_VOCAB_TOKENS) {
        worker_supervisor_condemn(supervisor, "it is ready with an impossible vocabulary");
        return;
    }
    if (atomic_load_explicit(&gauges->weights, memory_order_relaxed) == WORKER_WEIGHTS_REFUSED)
        weight_holder_replace(supervisor->config.weights, supervisor->weights_generation);
    worker_link_set_vocab(supervisor->link, vocab);
    supervisor->state = SUPERVISOR_READY;
    supervisor->ever_ready = true;
    supervisor->ready_at_ms = monotonic_clock_ms();
    log_info("worker ready");
    supervisor->config.ready(supervisor->config.context);
}

static void look_at_heartbeat(struct worker_supervisor *supervisor)
{
    const struct worker_gauges *gauges = worker_link_gauges(supervisor->link);
    uint64_t beat = atomic_load_explicit(&gauges->heartbeat, memory_order_relaxed);
    bool needed = supervisor->state == SUPERVISOR_STARTING || supervisor->work_expected;
    int64_t limit_ms = (int64_t)supervisor->config.options->worker_timeout_s * 1000;
    if (heartbeat_watch_hung(&supervisor->heartbeat, beat, needed, monotonic_clock_ms(), limit_ms))
        worker_supervisor_condemn(supervisor, "it hangs: its heartbeat stands still");
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct worker_supervisor *supervisor = context;
    if (supervisor->state == SUPERVISOR_BACKOFF) {
        struct error_text error;
        if (worker_start(supervisor, &error) != RESULT_OK) {
            log_error("%s", error.text);
            backoff_begin(supervisor);
        }
        return;
    }
    if (!supervisor->link)
        return;
    if (supervisor->state == SUPERVISOR_STARTING)
        look_at_start(supervisor);
    look_at_heartbeat(supervisor);
    if (supervisor->state == SUPERVISOR_DRAINING &&
        monotonic_clock_ms() - supervisor->drain_at_ms >= DRAIN_EXIT_LIMIT_MS)
        worker_supervisor_condemn(supervisor, "it does not end when asked to");
    if (supervisor->state == SUPERVISOR_STARTING)
        timer_set(supervisor, START_LOOK_MS);
    else if (supervisor->work_expected || supervisor->state == SUPERVISOR_DRAINING)
        timer_set(supervisor, WATCH_LOOK_MS);
}

void worker_supervisor_expect_work(struct worker_supervisor *supervisor, bool expected)
{
    if (expected && !supervisor->work_expected && supervisor->state == SUPERVISOR_READY) {
        supervisor->heartbeat = (struct heartbeat_watch){0};
        timer_set(supervisor, WATCH_LOOK_MS);
    }
    supervisor->work_expected = expected;
}

void worker_supervisor_drain(struct worker_supervisor *supervisor)
{
    if (supervisor->state == SUPERVISOR_DRAINING)
        return;
    bool running = supervisor->link != NULL;
    bool asked =
        supervisor->state == SUPERVISOR_READY && worker_link_drain(supervisor->link) == RESULT_OK;
    supervisor->state = running ? SUPERVISOR_DRAINING : SUPERVISOR_STOPPED;
    supervisor->drain_at_ms = monotonic_clock_ms();
    if (running && !asked)
        child_process_kill(&supervisor->process); /* it has nothing to finish */
    if (running)
        timer_set(supervisor, WATCH_LOOK_MS);
    else
        supervisor->config.drained(supervisor->config.context);
}
