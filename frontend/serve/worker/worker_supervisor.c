/*
 * Keeps one worker running as long as the server runs.
 *
 * Death is a readable pidfd. A hang is a heartbeat that stands still while the worker loads or has
 * requests: it grows with every piece of work, so a long step is no hang, while a worker that has
 * lost a request is one. A hung worker is killed and handled like a dead one. The events that it
 * published before are still taken; then its segment is discarded, so nothing that it wrote reaches
 * the next one.
 *
 * On a device worker_lifeline.h tells of a death before the process can be reaped. If a standby waits, it
 * takes over then, and the dead process is reaped beside it; its exit status is not known until then.
 *
 * restart_policy.h decides the pause before the next start. worker_standby.h has a process that can take
 * over instead of a new one; if deaths are doubted to come from what workers inherit, it is dropped.
 *
 * A worker that reports a load error (WORKER_FAILED) before any worker was ever ready is not
 * restarted: the same file would fail again. One that dies without a report before any was ever
 * ready gets a few more tries.
 *
 * The timer runs only during a start and while the worker has requests: an idle server does not
 * wake up.
 */
#include "frontend/serve/worker/worker_supervisor.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/base/monotonic_clock.h"
#include "frontend/serve/worker/restart_policy.h"
#include "frontend/serve/worker/worker_standby.h"
#include "proto/log.h"
#include "proto/must.h"
#include "shm/peer_watch.h"

#define START_LOOK_MS       50 /* for the heartbeat; the bell announces readiness */
#define WATCH_LOOK_MS       250
#define DRAIN_EXIT_LIMIT_MS 5000
#define VAULT_DEATHS_MOST   2 /* deaths before ready after which the vault is replaced */

struct worker_supervisor {
    struct worker_supervisor_config config;
    enum supervisor_state state;
    struct worker_run run;
    struct child_process leaving; /* dead, not reaped, and already replaced by the standby */
    struct event *leaving_event;
    enum death_cause leaving_cause; /* as assumed from its marks */
    struct worker_standby *standby;
    int prefix_save; /* the worker's unfinished file of its prefix cache, or -1 */
    struct event *death_event;
    struct event *timer;
    struct heartbeat_watch heartbeat;
    bool work_expected;
    bool ever_ready;
    bool reset_due; /* the next worker must drop what it takes over before its first request */
    char device[DEVICE_SET_BYTES];
    char
        backend[sizeof((struct worker_gauges *)0)->backend + 1]; /* "" before the first was ready */
    uint32_t starts;                                             /* of serving processes */
    uint32_t takeovers;                                          /* of these, by the standby */
    uint32_t generation;         /* of the newest process, standbys included */
    uint32_t weights_generation; /* of the vault that the worker was given */
    uint32_t unready_deaths;     /* in a row, before the worker was ready, not from outside */
    struct restart_record record;
    int64_t drain_at_ms;
    int64_t start_at_ms; /* BACKOFF: when the next one is started */
    int64_t died_at_ms;
    struct error_text last_death; /* "" before the first */
    char condemned[256];          /* why it is being killed; "" when it is not */
    enum death_cause condemned_cause;
};

static void on_death(int fd, short what, void *context);
static void on_early_end(void *context);
static void standby_begin(struct worker_supervisor *supervisor, const struct worker_gauges *gauges);
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

static void look_at_start(struct worker_supervisor *supervisor);

/* The worker's bell; it also rings when it becomes ready. */
static void on_link_bell(void *context)
{
    struct worker_supervisor *supervisor = context;
    if (supervisor->state == SUPERVISOR_STARTING)
        look_at_start(supervisor);
}

static void vault_renew(struct vault_holder *holder)
{
    if (holder)
        vault_holder_replace(holder, vault_holder_generation(holder));
}

/* What earlier workers left may be the reason of the deaths, for example if a driver cannot
 * import them. */
static void vault_doubt(struct worker_supervisor *supervisor)
{
    log_warn(
        "worker %u died %u times before it was ready; the next one gets nothing of earlier ones",
        supervisor->config.worker.index, supervisor->unready_deaths);
    vault_holder_replace(supervisor->config.worker.weights, supervisor->weights_generation);
    vault_renew(supervisor->config.worker.kv_memory);
    vault_renew(supervisor->config.worker.kv_device);
    supervisor->unready_deaths = 0;
}

/* Only the first worker loads what an earlier server saved: if it dies of it, the next one does not. */
static void prefix_files_choose(struct worker_supervisor *supervisor, struct worker_launch *launch)
{
    const struct prefix_files *files = &supervisor->config.prefix_files;
    uint32_t index = supervisor->config.worker.index;
    bool first = supervisor->starts == 1;
    if (first)
        supervisor->prefix_save = prefix_files_begin(files, index);
    launch->prefix_load = first ? prefix_files_open_saved(files, index) : -1;
    launch->prefix_save = supervisor->prefix_save;
}

static enum result process_launch(struct worker_supervisor *supervisor,
                                  const struct worker_link_owner *owner, struct error_text *error)
{
    struct worker_launch launch = {
        .generation = ++supervisor->generation, .owner = *owner, .standby_fd = -1};
    worker_standby_drop(supervisor->standby);
    supervisor->weights_generation = vault_holder_generation(supervisor->config.worker.weights);
    prefix_files_choose(supervisor, &launch);
    enum result result =
        worker_launch(&supervisor->config.worker, &launch, &supervisor->run, error);
    if (launch.prefix_load >= 0)
        close(launch.prefix_load);
    if (result == RESULT_OK)
        log_info("worker %u started, pid %d", supervisor->config.worker.index,
                 (int)supervisor->run.process.pid);
    return result;
}

static bool standby_take(struct worker_supervisor *supervisor,
                         const struct worker_link_owner *owner)
{
    if (!worker_standby_take(supervisor->standby, owner, &supervisor->run))
        return false;
    supervisor->takeovers++;
    log_info("worker %u: its standby takes over, pid %d", supervisor->config.worker.index,
             (int)supervisor->run.process.pid);
    return true;
}

static enum result worker_start(struct worker_supervisor *supervisor, struct error_text *error)
{
    const struct worker_link_owner owner = {.listener = supervisor->config.listener,
                                            .context = supervisor,
                                            .bell = on_link_bell,
                                            .corrupt = on_link_corrupt};
    supervisor->starts++;
    bool doubtful = supervisor->unready_deaths >= VAULT_DEATHS_MOST;
    if (doubtful)
        vault_doubt(supervisor);
    if (doubtful || !standby_take(supervisor, &owner)) {
        enum result result = process_launch(supervisor, &owner, error);
        if (result != RESULT_OK)
            return result;
    }
    supervisor->death_event =
        event_new(supervisor->config.worker.base, supervisor->run.process.pid_fd, EV_READ, on_death,
                  supervisor);
    must(supervisor->death_event && event_add(supervisor->death_event, NULL) == 0);
    if (supervisor->run.lifeline)
        worker_lifeline_watch(supervisor->run.lifeline, &supervisor->run.process, on_early_end,
                              supervisor);
    supervisor->state = SUPERVISOR_STARTING;
    supervisor->heartbeat = (struct heartbeat_watch){0};
    supervisor->condemned[0] = '\0';
    timer_set(supervisor, START_LOOK_MS);
    return RESULT_OK;
}

enum result worker_supervisor_create(const struct worker_supervisor_config *config,
                                     struct worker_supervisor **supervisor,
                                     struct error_text *error)
{
    struct worker_supervisor *made = must_alloc(1, sizeof *made);
    made->config = *config;
    made->run.process.pid_fd = made->leaving.pid_fd = -1;
    made->prefix_save = -1;
    device_set_write(options_device(config->worker.options, config->worker.index), made->device);
    made->timer = event_new(config->worker.base, -1, 0, on_timer, made);
    must(made->timer != NULL);
    made->standby = worker_standby_create(&made->config.worker, &made->generation);
    enum result result = worker_start(made, error);
    if (result != RESULT_OK) {
        worker_supervisor_destroy(made);
        return result;
    }
    *supervisor = made;
    return RESULT_OK;
}

/* Frees the resources of the ended worker. */
static void worker_clear(struct worker_supervisor *supervisor)
{
    if (supervisor->death_event)
        event_free(supervisor->death_event);
    supervisor->death_event = NULL;
    worker_run_clear(&supervisor->run);
}

static void prefix_save_end(struct worker_supervisor *supervisor, bool complete)
{
    prefix_files_end(&supervisor->config.prefix_files, supervisor->config.worker.index,
                     supervisor->prefix_save, complete);
    supervisor->prefix_save = -1;
}

/* Waits for the process that was replaced before it could be reaped, if there is one. */
static void leaving_reap(struct worker_supervisor *supervisor)
{
    struct error_text how;
    if (supervisor->leaving.pid <= 0)
        return;
    event_free(supervisor->leaving_event); /* before its descriptor is closed */
    supervisor->leaving_event = NULL;
    int pid = (int)supervisor->leaving.pid;
    enum death_cause cause =
        death_cause_from_status(child_process_reap(&supervisor->leaving, &how));
    log_info("worker %u: pid %d is reaped: %s", supervisor->config.worker.index, pid, how.text);
    bool assumed = supervisor->leaving_cause != DEATH_HUNG &&
                   supervisor->leaving_cause != DEATH_BROKE_PROTOCOL;
    if (assumed && cause != supervisor->leaving_cause)
        log_warn("worker %u: that death was taken for %s and is %s",
                 supervisor->config.worker.index, death_cause_name(supervisor->leaving_cause),
                 death_cause_name(cause));
}

void worker_supervisor_destroy(struct worker_supervisor *supervisor)
{
    if (!supervisor)
        return;
    if (supervisor->run.process.pid > 0) {
        struct error_text how;
        if (supervisor->death_event)
            event_del(supervisor->death_event); /* before its descriptor is closed */
        child_process_kill(&supervisor->run.process);
        (void)child_process_reap(&supervisor->run.process, &how);
    }
    leaving_reap(supervisor);
    worker_clear(supervisor);
    worker_standby_destroy(supervisor->standby);
    prefix_save_end(supervisor, false);
    event_free(supervisor->timer);
    free(supervisor);
}

enum supervisor_state worker_supervisor_state(const struct worker_supervisor *supervisor)
{
    return supervisor->state;
}

struct worker_link *worker_supervisor_link(const struct worker_supervisor *supervisor)
{
    return supervisor->run.link;
}

double worker_supervisor_load_progress(const struct worker_supervisor *supervisor)
{
    if (supervisor->state == SUPERVISOR_READY)
        return 1;
    if (!supervisor->run.link)
        return 0;
    const struct worker_gauges *gauges = worker_link_gauges(supervisor->run.link);
    uint64_t done = atomic_load_explicit(&gauges->load_done_bytes, memory_order_relaxed);
    uint64_t total = atomic_load_explicit(&gauges->load_total_bytes, memory_order_relaxed);
    return total == 0 ? 0 : done >= total ? 1 : (double)done / (double)total;
}

bool worker_supervisor_is_resuming(const struct worker_supervisor *supervisor)
{
    bool starts =
        supervisor->state == SUPERVISOR_STARTING || supervisor->state == SUPERVISOR_BACKOFF;
    return starts && supervisor->ever_ready && supervisor->record.failed_starts == 0;
}

bool worker_supervisor_is_resuming_with_cache(const struct worker_supervisor *supervisor)
{
    return worker_supervisor_is_resuming(supervisor) && supervisor->config.worker.kv_memory &&
           !supervisor->reset_due;
}

bool worker_supervisor_is_hopeless(const struct worker_supervisor *supervisor)
{
    return supervisor->state == SUPERVISOR_STOPPED ||
           restart_policy_is_hopeless(&supervisor->record);
}

void worker_supervisor_note_progress(struct worker_supervisor *supervisor)
{
    restart_policy_note_progress(&supervisor->record);
}

/* --- death ----------------------------------------------------------------------------------- */

/* The error text of a worker that reported WORKER_FAILED. */
static bool failure_read(const struct worker_supervisor *supervisor, struct error_text *words)
{
    const struct worker_gauges *gauges = worker_link_gauges(supervisor->run.link);
    /* Pairs with the worker's release store after it wrote `failure`. */
    if (atomic_load_explicit(&gauges->state, memory_order_acquire) != WORKER_FAILED)
        return false;
    worker_link_read_failure(supervisor->run.link, words);
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
    int delay_ms = restart_policy_delay_ms(&supervisor->record);
    supervisor->state = SUPERVISOR_BACKOFF;
    supervisor->start_at_ms = monotonic_clock_ms() + delay_ms;
    timer_set(supervisor, delay_ms);
}

static void start_next(struct worker_supervisor *supervisor)
{
    struct error_text error;
    if (worker_start(supervisor, &error) == RESULT_OK)
        return;
    log_error("%s", error.text);
    supervisor->last_death = error;
    /* Memory or processes are short, or the program is being replaced: like a kill from outside. */
    restart_policy_note_death(&supervisor->record, true);
    backoff_begin(supervisor);
}

static void end_drain(struct worker_supervisor *supervisor, int status)
{
    prefix_save_end(supervisor, WIFEXITED(status) && WEXITSTATUS(status) == 0);
    log_info("worker %u ended: %s", supervisor->config.worker.index, supervisor->last_death.text);
    worker_link_take_rest(supervisor->run.link);
    worker_clear(supervisor);
    supervisor->state = SUPERVISOR_STOPPED;
    event_del(supervisor->timer);
    supervisor->config.drained(supervisor->config.context);
}

/* The cause of death: why it was killed, its own error text, or its exit status. */
static void death_words(struct worker_supervisor *supervisor, const struct error_text *how,
                        const struct error_text *words)
{
    struct error_text *last = &supervisor->last_death;
    if (supervisor->condemned[0])
        snprintf(last->text, sizeof last->text, "%s", supervisor->condemned);
    else if (words->text[0])
        snprintf(last->text, sizeof last->text, "%.40s: %.200s", how->text, words->text);
    else
        *last = *how;
    supervisor->died_at_ms = monotonic_clock_ms();
}

/* Takes the requests from a dead process that does not drain, and starts the next one. `words`: its own
 * error text, or NULL. */
static void replace(struct worker_supervisor *supervisor, enum death_cause cause,
                    const struct error_text *how, const struct error_text *words)
{
    enum supervisor_state before = supervisor->state;
    bool outside = death_cause_is_outside(cause);
    log_error("worker %u died: %s", supervisor->config.worker.index, supervisor->last_death.text);
    restart_policy_note_death(&supervisor->record, outside);
    if (before != SUPERVISOR_STARTING)
        supervisor->unready_deaths = 0;
    else if (!outside)
        supervisor->unready_deaths++;
    supervisor->state = SUPERVISOR_BACKOFF;
    if (worker_link_reset_is_pending(supervisor->run.link))
        supervisor->reset_due = true;
    supervisor->config.died(supervisor->config.context, cause);
    worker_clear(supervisor);
    if (supervisor->state == SUPERVISOR_STOPPED)
        return; /* a drain waited for it */
    if (!supervisor->ever_ready && words) {
        stop_for_good(supervisor, words->text);
    } else if (!supervisor->ever_ready && restart_policy_gives_up(&supervisor->record)) {
        stop_for_good(supervisor, how->text);
    } else if (restart_policy_delay_ms(&supervisor->record) == 0) {
        start_next(supervisor);
    } else {
        backoff_begin(supervisor);
    }
}

static void on_death(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct worker_supervisor *supervisor = context;
    struct error_text how;
    struct error_text words = {""};
    bool said_why = failure_read(supervisor, &words);
    event_free(supervisor->death_event); /* before its descriptor is closed */
    supervisor->death_event = NULL;
    int status = child_process_reap(&supervisor->run.process, &how);
    enum death_cause cause =
        supervisor->condemned[0] ? supervisor->condemned_cause : death_cause_from_status(status);
    death_words(supervisor, &how, &words);
    if (supervisor->state == SUPERVISOR_DRAINING)
        end_drain(supervisor, status);
    else
        replace(supervisor, cause, &how, said_why ? &words : NULL);
}

static void on_leaving_end(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct worker_supervisor *supervisor = context;
    leaving_reap(supervisor);
    if (supervisor->state == SUPERVISOR_READY)
        standby_begin(supervisor, worker_link_gauges(supervisor->run.link));
}

/* The process has ended and cannot be reaped yet. Without a standby nothing is gained: a new process
 * takes longer. */
static void on_early_end(void *context)
{
    struct worker_supervisor *supervisor = context;
    struct error_text how;
    struct error_text words = {""};
    if (supervisor->state != SUPERVISOR_READY || supervisor->leaving.pid > 0 ||
        !worker_standby_waits(supervisor->standby))
        return;
    bool said_why = failure_read(supervisor, &words);
    uint32_t crash = worker_lifeline_crash_signal(supervisor->run.lifeline);
    enum death_cause cause = supervisor->condemned[0] ? supervisor->condemned_cause
                                                      : death_cause_from_marks(crash, said_why);
    snprintf(how.text, sizeof how.text, "%s",
             cause == DEATH_CRASH_SIGNAL ? strsignal((int)crash) : "its process ended");
    event_free(supervisor->death_event);
    supervisor->death_event = NULL;
    supervisor->leaving = supervisor->run.process;
    supervisor->leaving_cause = cause;
    supervisor->run.process = (struct child_process){.pid_fd = -1};
    supervisor->leaving_event =
        event_new(supervisor->config.worker.base, supervisor->leaving.pid_fd, EV_READ,
                  on_leaving_end, supervisor);
    must(supervisor->leaving_event && event_add(supervisor->leaving_event, NULL) == 0);
    death_words(supervisor, &how, &words);
    replace(supervisor, cause, &how, said_why ? &words : NULL);
}

static void condemn(struct worker_supervisor *supervisor, enum death_cause cause, const char *why)
{
    if (supervisor->run.process.pid <= 0 || supervisor->condemned[0])
        return;
    supervisor->condemned_cause = cause;
    log_error("worker %u is killed: %s", supervisor->config.worker.index, why);
    snprintf(supervisor->condemned, sizeof supervisor->condemned, "killed: %.200s", why);
    child_process_kill(&supervisor->run.process);
}

void worker_supervisor_condemn(struct worker_supervisor *supervisor, const char *why)
{
    condemn(supervisor, DEATH_BROKE_PROTOCOL, why);
}

/* --- watching -------------------------------------------------------------------------------- */

/* It shares weights and KV cache with the process that serves. */
static void standby_begin(struct worker_supervisor *supervisor, const struct worker_gauges *gauges)
{
    uint32_t weights = atomic_load_explicit(&gauges->weights, memory_order_relaxed);
    bool shared = weights == WORKER_WEIGHTS_FILLED || weights == WORKER_WEIGHTS_ADOPTED;
    bool on_gpu = atomic_load_explicit(&gauges->on_gpu, memory_order_relaxed) == 1;
    const char *setting = supervisor->config.worker.options->standby;
    bool wanted = strcmp(setting, "on") == 0 || (strcmp(setting, "auto") == 0 && on_gpu);
    if (supervisor->leaving.pid > 0)
        return; /* its device memory is not free yet; on_leaving_end() begins one */
    if (wanted && shared && supervisor->config.can_stand_by)
        worker_standby_begin(supervisor->standby, supervisor->prefix_save);
}

static void look_at_start(struct worker_supervisor *supervisor)
{
    const struct worker_gauges *gauges = worker_link_gauges(supervisor->run.link);
    /* Pairs with the worker's release store of READY: the other gauges are set. */
    if (atomic_load_explicit(&gauges->state, memory_order_acquire) != WORKER_READY)
        return;
    uint32_t vocab = atomic_load_explicit(&gauges->vocab_tokens, memory_order_relaxed);
    if (vocab == 0 || vocab > LIMIT_VOCAB_TOKENS) {
        worker_supervisor_condemn(supervisor, "it is ready with an impossible vocabulary");
        return;
    }
    if (atomic_load_explicit(&gauges->weights, memory_order_relaxed) == WORKER_WEIGHTS_REFUSED)
        vault_holder_replace(supervisor->config.worker.weights, supervisor->weights_generation);
    memcpy(supervisor->backend, gauges->backend, sizeof gauges->backend);
    worker_link_set_vocab(supervisor->run.link, vocab);
    supervisor->state = SUPERVISOR_READY;
    supervisor->ever_ready = true;
    restart_policy_note_ready(&supervisor->record);
    log_info("worker %u ready: %s", supervisor->config.worker.index, supervisor->backend);
    if (supervisor->reset_due) {
        supervisor->reset_due = false;
        (void)worker_supervisor_reset_cache(supervisor);
    }
    standby_begin(supervisor, gauges);
    supervisor->config.listener.ready(supervisor->config.listener.context);
}

static void look_at_heartbeat(struct worker_supervisor *supervisor)
{
    const struct worker_gauges *gauges = worker_link_gauges(supervisor->run.link);
    uint64_t beat = atomic_load_explicit(&gauges->heartbeat, memory_order_relaxed);
    bool needed = supervisor->state == SUPERVISOR_STARTING || supervisor->work_expected;
    int64_t limit_ms = (int64_t)supervisor->config.worker.options->worker_timeout_s * 1000;
    if (heartbeat_watch_hung(&supervisor->heartbeat, beat, needed, monotonic_clock_ms(), limit_ms))
        condemn(supervisor, DEATH_HUNG, "it hangs: its heartbeat stands still");
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct worker_supervisor *supervisor = context;
    if (supervisor->state == SUPERVISOR_BACKOFF) {
        start_next(supervisor);
        return;
    }
    if (!supervisor->run.link)
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

void worker_supervisor_end_saving(struct worker_supervisor *supervisor)
{
    prefix_save_end(supervisor, false);
}

bool worker_supervisor_reset_cache(struct worker_supervisor *supervisor)
{
    switch (supervisor->state) {
    case SUPERVISOR_STARTING:
    case SUPERVISOR_BACKOFF: supervisor->reset_due = true; return true;
    case SUPERVISOR_READY:
        if (worker_link_reset_cache(supervisor->run.link) != RESULT_OK)
            worker_supervisor_condemn(supervisor, "its submit ring is full");
        return true;
    case SUPERVISOR_DRAINING: prefix_save_end(supervisor, false); return false;
    case SUPERVISOR_STOPPED: break;
    }
    return false;
}

bool worker_supervisor_read_adapter(struct worker_supervisor *supervisor, struct adapter_id adapter)
{
    if (supervisor->state != SUPERVISOR_READY)
        return false;
    if (worker_link_read_adapter(supervisor->run.link, adapter) == RESULT_OK)
        return true;
    worker_supervisor_condemn(supervisor, "its submit ring is full");
    return false;
}

void worker_supervisor_drain(struct worker_supervisor *supervisor)
{
    if (supervisor->state == SUPERVISOR_DRAINING)
        return;
    worker_standby_drop(supervisor->standby);
    bool running = supervisor->run.process.pid > 0;
    bool asked = supervisor->state == SUPERVISOR_READY &&
                 worker_link_drain(supervisor->run.link) == RESULT_OK;
    supervisor->state = running ? SUPERVISOR_DRAINING : SUPERVISOR_STOPPED;
    supervisor->drain_at_ms = monotonic_clock_ms();
    if (running && !asked)
        child_process_kill(&supervisor->run.process); /* not ready: it has no requests */
    if (running)
        timer_set(supervisor, WATCH_LOOK_MS);
    else
        supervisor->config.drained(supervisor->config.context);
}

/* --- figures --------------------------------------------------------------------------------- */

static struct worker_device_status read_device(const struct worker_device_gauges *device)
{
    return (struct worker_device_status){
        .first_layer = (uint32_t)worker_gauge_bounded(
            atomic_load_explicit(&device->first_layer, memory_order_relaxed), LIMIT_LAYERS),
        .layers = (uint32_t)worker_gauge_bounded(
            atomic_load_explicit(&device->layers, memory_order_relaxed), LIMIT_LAYERS),
        .weights_bytes = worker_gauge_bounded(
            atomic_load_explicit(&device->weights_bytes, memory_order_relaxed), WORKER_GAUGE_BYTES),
        .kv_bytes = worker_gauge_bounded(
            atomic_load_explicit(&device->kv_bytes, memory_order_relaxed), WORKER_GAUGE_BYTES),
        .memory_bytes = worker_gauge_bounded(
            atomic_load_explicit(&device->memory_bytes, memory_order_relaxed), WORKER_GAUGE_BYTES)};
}

static void read_gauges(const struct worker_link *link, struct worker_status *status)
{
    const struct worker_gauges *gauges = worker_link_gauges(link);
    status->running = (uint32_t)worker_gauge_bounded(
        atomic_load_explicit(&gauges->running_sequences, memory_order_relaxed),
        WORKER_GAUGE_SEQUENCES);
    status->waiting = (uint32_t)worker_gauge_bounded(
        atomic_load_explicit(&gauges->waiting_sequences, memory_order_relaxed),
        WORKER_GAUGE_SEQUENCES);
    status->steps = atomic_load_explicit(&gauges->steps, memory_order_relaxed);
    status->kv_blocks_used = worker_gauge_bounded(
        atomic_load_explicit(&gauges->kv_blocks_used, memory_order_relaxed), WORKER_GAUGE_ITEMS);
    status->kv_blocks_total = worker_gauge_bounded(
        atomic_load_explicit(&gauges->kv_blocks_total, memory_order_relaxed), WORKER_GAUGE_ITEMS);
    status->slab_used_bytes = worker_link_slab_used_bytes(link);
    for (uint32_t i = 0; i < status->devices.count; i++)
        status->shares[i] = read_device(&gauges->devices[i]);
}

void worker_supervisor_read_status(const struct worker_supervisor *supervisor,
                                   struct worker_status *status)
{
    static const char *const states[] = {[SUPERVISOR_STARTING] = "starting",
                                         [SUPERVISOR_READY] = "ready",
                                         [SUPERVISOR_BACKOFF] = "backing_off",
                                         [SUPERVISOR_DRAINING] = "draining",
                                         [SUPERVISOR_STOPPED] = "stopped"};
    int64_t now_ms = monotonic_clock_ms();
    *status =
        (struct worker_status){.pid = (int)supervisor->run.process.pid,
                               .device = supervisor->device,
                               .devices = *options_device(supervisor->config.worker.options,
                                                          supervisor->config.worker.index),
                               .backend = supervisor->backend[0] ? supervisor->backend : NULL,
                               .state = states[supervisor->state],
                               .load_progress = worker_supervisor_load_progress(supervisor),
                               .restarts = supervisor->starts > 0 ? supervisor->starts - 1 : 0,
                               .takeovers = supervisor->takeovers,
                               .standby = worker_standby_state_name(supervisor->standby),
                               .standby_pid = worker_standby_pid(supervisor->standby),
                               .failed_starts = supervisor->record.failed_starts};
    if (supervisor->last_death.text[0]) {
        status->last_death = supervisor->last_death.text;
        status->last_death_ms = now_ms - supervisor->died_at_ms;
    }
    if (supervisor->state == SUPERVISOR_BACKOFF && supervisor->start_at_ms > now_ms)
        status->next_start_ms = supervisor->start_at_ms - now_ms;
    if (!supervisor->run.link)
        return;
    read_gauges(supervisor->run.link, status);
    const struct worker_gauges *gauges = worker_link_gauges(supervisor->run.link);
    uint64_t beat = atomic_load_explicit(&gauges->heartbeat, memory_order_relaxed);
    if (supervisor->heartbeat.started && supervisor->work_expected &&
        beat == supervisor->heartbeat.last_beat)
        status->stalled_ms = now_ms - supervisor->heartbeat.last_change_ms;
}
