/*
 * The first load of the queue is under way: its files are being copied (a thread runs), or workers have
 * been asked for it (bits of `asked`). The loop joins the thread when it writes to an eventfd.
 */
#include "frontend/serve/engine/adapter_changes.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "frontend/base/monotonic_clock.h"
#include "proto/log.h"
#include "proto/must.h"

#define LOOK_MS         50 /* for unloaded adapters without requests, and that limit */
#define JOIN_PATIENCE_S 10 /* a file system may hang */

_Static_assert(LIMIT_WORKERS <= 32, "a bit each");

struct adapter_load {
    struct adapter_load *next;
    adapter_load_done *done; /* NULL: forgotten */
    void *context;
    uint32_t slot;
};

struct adapter_changes {
    struct adapter_changes_config config;
    struct adapter_load *first, *last;
    struct event *timer;
    bool changed; /* ever: workers may lack what was loaded after their start */

    pthread_t thread;
    bool filling;
    int filled_fd;
    struct event *filled_event;
    atomic_bool cancelled;
    enum result fill_result; /* from here on the thread's, until it has written to filled_fd */
    struct error_text fill_error;

    uint32_t asked; /* workers that have to answer for the first load */
    int64_t answer_by_ms;
    bool refused;
    struct error_text refusal; /* the first worker's */
};

static void load_begin(struct adapter_changes *changes);

static void answer(struct adapter_load *load, const struct api_error *error)
{
    adapter_load_done *done = load->done;
    load->done = NULL;
    if (done)
        done(load->context, error);
}

static void timer_set(struct adapter_changes *changes)
{
    const struct timeval after = {.tv_usec = LOOK_MS * 1000};
    if (changes->asked != 0 || adapter_set_is_leaving(changes->config.set))
        event_add(changes->timer, &after);
}

/* Every ready worker reads the slot. Returns a bit for each. */
static uint32_t workers_read(struct adapter_changes *changes, uint32_t slot)
{
    const struct adapter_id id = adapter_set_id(changes->config.set, slot);
    uint32_t asked = 0;
    for (uint32_t worker = 0; worker < worker_pool_count(changes->config.workers); worker++)
        if (worker_pool_read_adapter(changes->config.workers, worker, id))
            asked |= 1u << worker;
    return asked;
}

static void clear(struct adapter_changes *changes, uint32_t slot)
{
    adapter_set_clear(changes->config.set, slot);
    (void)workers_read(changes, slot);
}

/* Takes unloaded adapters without requests from the workers. */
static void sweep(struct adapter_changes *changes)
{
    for (uint32_t slot; (slot = adapter_set_unused(changes->config.set)) < LIMIT_ADAPTERS;)
        clear(changes, slot);
    timer_set(changes);
}

/* Ends the first load and begins the next one. */
static void load_end(struct adapter_changes *changes, const struct api_error *error)
{
    struct adapter_load *load = changes->first;
    changes->first = load->next;
    changes->asked = 0;
    if (error)
        clear(changes, load->slot);
    answer(load, error);
    free(load);
    sweep(changes);
    if (changes->first)
        load_begin(changes);
}

static void settle(struct adapter_changes *changes)
{
    uint32_t slot = changes->first->slot;
    changes->changed = true;
    adapter_set_settle(changes->config.set, slot);
    (void)workers_read(changes, slot); /* those that became ready meanwhile */
    load_end(changes, NULL);
}

static void ask(struct adapter_changes *changes)
{
    struct api_error error;
    changes->refused = false;
    changes->asked = workers_read(changes, changes->first->slot);
    changes->answer_by_ms = monotonic_clock_ms() + 1000 * (int64_t)changes->config.answer_limit_s;
    if (changes->asked != 0) {
        timer_set(changes);
        return;
    }
    (void)api_error_set(&error, RESULT_FULL, 503, "worker_restarting",
                        "no worker is ready to check the adapter");
    error.retry_after_s = 1;
    load_end(changes, &error);
}

/* --- files ------------------------------------------------------------------------------------- */

/* Symbolic links may not lead out of the directory. */
static enum result check_place(const char *directory, const char *path, struct error_text *error)
{
    char *inside = realpath(directory, NULL);
    char *real = inside ? realpath(path, NULL) : NULL;
    enum result result = RESULT_OK;
    size_t bytes = inside ? strlen(inside) : 0;
    if (!real)
        result = error_set(error, errno == ENOENT ? RESULT_NOT_FOUND : RESULT_IO, "%.150s: %s",
                           inside ? path : directory, strerror(errno));
    else if (strncmp(real, inside, bytes) != 0 || (real[bytes] != '/' && bytes > 1))
        result = error_set(error, RESULT_INVALID, "it does not lie below --lora-dir");
    free(inside);
    free(real);
    return result;
}

static void *fill_main(void *context)
{
    struct adapter_changes *changes = context;
    const struct adapter_load *load = changes->first;
    const char *path = adapter_set_path(changes->config.set, load->slot);
    changes->fill_result = check_place(changes->config.directory, path, &changes->fill_error);
    if (changes->fill_result == RESULT_OK)
        changes->fill_result = adapter_set_fill(changes->config.set, load->slot,
                                                &changes->cancelled, &changes->fill_error);
    const uint64_t one = 1;
    must(write(changes->filled_fd, &one, sizeof one) == sizeof one);
    return NULL;
}

static bool join(struct adapter_changes *changes)
{
    struct timespec until;
    must(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_sec += JOIN_PATIENCE_S;
    return pthread_clockjoin_np(changes->thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}

static void load_begin(struct adapter_changes *changes)
{
    changes->filling = true;
    changes->fill_error.text[0] = '\0';
    must(pthread_create(&changes->thread, NULL, fill_main, changes) == 0);
}

static void fill_words(enum result result, const char *words, struct api_error *error)
{
    switch (result) {
    case RESULT_NOT_FOUND:
        (void)api_error_set(error, result, 404, "adapter_not_found", "lora_path: %s", words);
        break;
    case RESULT_OUT_OF_MEMORY:
        (void)api_error_set(error, result, 503, "out_of_memory", "lora_path: %s", words);
        break;
    default: (void)api_error_invalid(error, "lora_path", "%s", words); break;
    }
}

static void on_filled(int fd, short what, void *context)
{
    struct adapter_changes *changes = context;
    uint64_t count;
    (void)what;
    must(read(fd, &count, sizeof count) == sizeof count);
    must(join(changes)); /* the thread has finished its work */
    changes->filling = false;
    if (changes->fill_result == RESULT_OK) {
        ask(changes);
        return;
    }
    struct api_error error;
    fill_words(changes->fill_result, changes->fill_error.text, &error);
    load_end(changes, &error);
}

/* --- workers ----------------------------------------------------------------------------------- */

static void answer_note(struct adapter_changes *changes, uint32_t worker)
{
    changes->asked &= ~(1u << worker);
    if (changes->asked != 0)
        return;
    struct api_error error;
    if (!changes->refused) {
        settle(changes);
        return;
    }
    (void)api_error_set(&error, RESULT_INVALID, 400, "adapter_refused", "%s",
                        changes->refusal.text);
    load_end(changes, &error);
}

static bool is_awaited(const struct adapter_changes *changes, uint32_t worker,
                       struct adapter_id adapter)
{
    if ((changes->asked & 1u << worker) == 0)
        return false;
    struct adapter_id own = adapter_set_id(changes->config.set, changes->first->slot);
    return own.slot == adapter.slot && own.version == adapter.version;
}

void adapter_changes_event(struct adapter_changes *changes, uint32_t worker,
                           const struct token_event *event)
{
    struct error_text words = {""};
    struct worker_link *link = worker_pool_link(changes->config.workers, worker);
    if (event->failure != RESULT_OK && link)
        worker_link_read_failure(link, &words);
    if (!is_awaited(changes, worker, event->adapter)) {
        if (event->failure != RESULT_OK)
            log_error("worker %u has no adapter %u: %s", worker, event->adapter.slot + 1,
                      words.text);
        return;
    }
    if (event->failure != RESULT_OK && !changes->refused) {
        changes->refused = true;
        changes->refusal = words;
    }
    answer_note(changes, worker);
}

/* The next worker does not read it, because it is not in use. */
void adapter_changes_worker_died(struct adapter_changes *changes, uint32_t worker)
{
    if ((changes->asked & 1u << worker) == 0)
        return;
    struct api_error error;
    (void)api_error_set(&error, RESULT_PEER_GONE, 500, "worker_died",
                        "a worker died while it read the adapter; the adapter is not loaded");
    load_end(changes, &error);
}

void adapter_changes_worker_ready(struct adapter_changes *changes)
{
    for (uint32_t slot = 0; changes->changed && slot < LIMIT_ADAPTERS; slot++)
        if (adapter_set_is_in_use(changes->config.set, slot))
            (void)workers_read(changes, slot);
}

static void on_timer(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct adapter_changes *changes = context;
    sweep(changes);
    if (changes->asked != 0 && monotonic_clock_ms() >= changes->answer_by_ms) {
        struct api_error error;
        (void)api_error_set(&error, RESULT_TIMED_OUT, 504, "adapter_timeout",
                            "a worker did not read the adapter within %u s",
                            changes->config.answer_limit_s);
        load_end(changes, &error);
    }
}

/* --- life -------------------------------------------------------------------------------------- */

struct adapter_changes *adapter_changes_create(const struct adapter_changes_config *config)
{
    struct adapter_changes *changes = must_alloc(1, sizeof *changes);
    changes->config = *config;
    changes->filled_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(changes->filled_fd >= 0);
    changes->filled_event =
        event_new(config->base, changes->filled_fd, EV_READ | EV_PERSIST, on_filled, changes);
    changes->timer = event_new(config->base, -1, 0, on_timer, changes);
    must(changes->timer && changes->filled_event && event_add(changes->filled_event, NULL) == 0);
    return changes;
}

bool adapter_changes_destroy(struct adapter_changes *changes)
{
    if (!changes)
        return true;
    atomic_store(&changes->cancelled, true);
    bool stuck = changes->filling && !join(changes);
    struct api_error error;
    (void)api_error_set(&error, RESULT_STALE, 503, "shutting_down", "the server is shutting down");
    adapter_changes_fail_all(changes, &error);
    while (changes->first && !stuck) {
        struct adapter_load *load = changes->first;
        changes->first = load->next;
        free(load);
    }
    event_free(changes->filled_event);
    event_free(changes->timer);
    if (stuck)
        return false;
    close(changes->filled_fd);
    free(changes);
    return true;
}

/* --- from clients ------------------------------------------------------------------------------ */

static enum result begin_words(enum result result, const char *words, struct api_error *error)
{
    if (result == RESULT_STALE)
        return api_error_invalid(error, "lora_name",
                                 "%s; load_inplace true replaces one that is loaded", words);
    if (result == RESULT_FULL)
        return api_error_set(error, result, 409, "too_many_adapters", "%s", words);
    return api_error_invalid(error, "lora_name", "%s", words);
}

enum result adapter_changes_load(struct adapter_changes *changes, const char *name,
                                 const char *path, bool replaces, adapter_load_done *done,
                                 void *context, struct adapter_load **added,
                                 struct api_error *error)
{
    struct error_text words = {""};
    char place[ADAPTER_PATH_BYTES];
    uint32_t slot;
    const char *folder = path[0] == '/' ? "" : changes->config.directory;
    if (!path[0] || snprintf(place, sizeof place, "%s%s%s", folder, *folder ? "/" : "", path) >=
                        (int)sizeof place)
        return api_error_invalid(error, "lora_path", "lora_path must have 1 to %u bytes",
                                 ADAPTER_PATH_BYTES - 1);
    sweep(changes);
    enum result result =
        adapter_set_begin(changes->config.set, name, place, replaces, &slot, &words);
    if (result != RESULT_OK)
        return begin_words(result, words.text, error);
    struct adapter_load *load = must_alloc(1, sizeof *load);
    *load = (struct adapter_load){.done = done, .context = context, .slot = slot};
    if (changes->first)
        changes->last->next = load;
    else
        changes->first = load;
    changes->last = load;
    *added = load;
    if (changes->first == load)
        load_begin(changes);
    return RESULT_OK;
}

void adapter_changes_forget(struct adapter_load *load)
{
    load->done = NULL;
}

void adapter_changes_fail_all(struct adapter_changes *changes, const struct api_error *error)
{
    for (struct adapter_load *load = changes->first; load; load = load->next)
        answer(load, error);
}

enum result adapter_changes_unload(struct adapter_changes *changes, const char *name,
                                   struct api_error *error)
{
    if (adapter_set_hide(changes->config.set, name) != RESULT_OK) {
        (void)api_error_set(error, RESULT_NOT_FOUND, 404, "adapter_not_found",
                            "the adapter '%.100s' is not loaded", name);
        snprintf(error->param, sizeof error->param, "lora_name");
        return RESULT_NOT_FOUND;
    }
    sweep(changes);
    return RESULT_OK;
}
