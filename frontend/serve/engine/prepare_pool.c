/*
 * Tokenizing a million tokens takes a second; the event loop must not.
 *
 * Jobs wait in a queue under one mutex, which is held only to link and unlink. Finished jobs go
 * to a second list and an eventfd wakes the loop, which calls back. Dropping a job whose client
 * left unlinks it when it still waits; one that runs is marked as cancelled, which templates,
 * tokenizers, decoders and fetches look at, and its result is freed unread. A job that runs longer
 * than the deadline is marked the same way by a timer of the loop, and gets a 503. So no thread
 * reads a clock, and whatever ends for a client that left also ends at the deadline.
 *
 * Texts never wait for images. Which job has images, or needs the network for them, is only known
 * once its body is parsed. So every job begins on a thread for texts; one that needs another lane
 * says so before anything is read or decoded, and is begun again on a thread of that lane.
 */
#include "frontend/serve/engine/prepare_pool.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "frontend/assets/adapter_set.h"
#include "frontend/base/monotonic_clock.h"
#include "proto/keyed_hash.h"
#include "proto/must.h"

struct prepare_job {
    struct prepare_job *next;
    const struct model_assets *assets;
    struct prepare_input input;
    /* Both NULL: dropped; guarded by the pool's mutex until the job is finished */
    prepare_done *done;
    inspect_done *inspected;
    void *context;
    atomic_bool cancelled; /* set by the loop's thread, read by the one that runs the job */
    bool timed_out;        /* cancelled by the deadline; guarded by the mutex, as the next */
    int64_t started_ms;    /* when a thread of its present lane began it */
    inspection *inspect;   /* NULL: a generation is prepared */
    enum result result;
    struct prepared_generation prepared;
    struct text_buffer reply;
    struct api_error error;
};

struct job_queue {
    struct prepare_job *first;
    struct prepare_job **end;
};

enum { LANES = PREPARATION_NETWORK + 1, DEADLINE_LOOK_MS = 100 };

/* What waits for the threads of one lane. */
struct lane_queue {
    pthread_cond_t work;
    struct job_queue waiting;
};

struct prepare_pool {
    pthread_mutex_t mutex;
    struct lane_queue lanes[LANES];
    struct job_queue finished;
    bool stopping;
    const struct image_reader *reader;
    struct field_watch *fields;
    struct grammar_cache *grammars;
    int finished_fd;
    struct event *finished_event;
    struct event *deadline_timer; /* pending while jobs wait or run */
    int64_t deadline_ms;
    uint64_t cancelled_total; /* guarded by the mutex, as the next */
    uint64_t timed_out_total;
    uint32_t network_threads;
    uint32_t thread_count; /* of all lanes */
    struct pool_thread {
        struct prepare_pool *pool;
        enum preparation_lane lane;
        struct prepare_job *running; /* NULL: none; guarded by the mutex */
        pthread_t thread;
    } threads[];
};

static const struct timeval deadline_look = {.tv_usec = DEADLINE_LOOK_MS * 1000};

static void queue_init(struct job_queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

static void queue_push(struct job_queue *queue, struct prepare_job *job)
{
    job->next = NULL;
    *queue->end = job;
    queue->end = &job->next;
}

static struct prepare_job *queue_pop(struct job_queue *queue)
{
    struct prepare_job *job = queue->first;
    if (!job)
        return NULL;
    queue->first = job->next;
    if (!queue->first)
        queue->end = &queue->first;
    return job;
}

static bool queue_remove(struct job_queue *queue, struct prepare_job *job)
{
    for (struct prepare_job **at = &queue->first; *at; at = &(*at)->next) {
        if (*at != job)
            continue;
        *at = job->next;
        if (queue->end == &job->next)
            queue->end = at;
        return true;
    }
    return false;
}

static void job_free(struct prepare_job *job)
{
    free(job->input.body);
    prepared_generation_fini(&job->prepared);
    text_buffer_fini(&job->reply);
    free(job);
}

/* --- in a thread of the pool ----------------------------------------------------------------- */

/* Replaces a compressed body by its contents. */
static enum result body_unpack(struct prepare_job *job)
{
    struct prepare_input *input = &job->input;
    char *body = NULL;
    size_t body_bytes = 0;
    if (input->coding == BODY_PLAIN)
        return RESULT_OK;
    enum result result =
        body_coding_unpack(input->coding, input->body, input->body_bytes, input->most_body_bytes,
                           &job->cancelled, &body, &body_bytes);
    if (result == RESULT_OK) {
        free(input->body);
        input->body = body;
        input->body_bytes = body_bytes;
        input->coding = BODY_PLAIN;
    } else if (result == RESULT_TOO_LARGE) {
        return api_error_set(&job->error, result, 413, NULL,
                             "the unpacked request body has more than %zu bytes",
                             input->most_body_bytes);
    } else if (result == RESULT_CANCELLED) {
        return api_error_set(&job->error, result, 503, NULL, "the request was cancelled");
    } else if (result == RESULT_OUT_OF_MEMORY) {
        return api_error_memory(&job->error);
    } else {
        return api_error_set(&job->error, result, 400, NULL,
                             "the request body is not what Content-Encoding says");
    }
    return RESULT_OK;
}

/* The keys and values of a prefix depend on the adapter, so requests with another one find nothing. */
static struct cache_salt salt_of(const struct cache_salt *tenant, const struct adapter *adapter)
{
    static const struct keyed_hash_key key = {{0}};
    struct cache_salt salt = *tenant;
    struct {
        struct cache_salt tenant;
        uint64_t content[2];
    } parts;
    uint64_t hash[2];
    if (!adapter)
        return salt;
    memset(&parts, 0, sizeof parts);
    parts.tenant = *tenant;
    memcpy(parts.content, adapter->content, sizeof parts.content);
    keyed_hash_wide(&key, &parts, sizeof parts, hash);
    _Static_assert(sizeof hash == sizeof salt, "128 bits");
    memcpy(&salt, hash, sizeof salt);
    return salt;
}

/* Returns `lane`, or the lane in which the job has to begin again. */
static enum preparation_lane job_run(struct prepare_job *job, const struct prepare_pool *pool,
                                     enum preparation_lane lane)
{
    const struct prepare_input *input = &job->input;
    enum preparation_lane needed = lane;
    const struct parse_context context = {.assets = job->assets,
                                          .random_seed = input->random_seed,
                                          .format_context = input->format_context,
                                          .client_key = input->client_key,
                                          .answer_id =
                                              input->answer_id[0] ? input->answer_id : NULL,
                                          .resumes = input->resumes,
                                          .cache_salt = input->cache_salt,
                                          .fields = pool->fields,
                                          .grammars = pool->grammars,
                                          .reader = pool->reader,
                                          .lane = &needed,
                                          .cancelled = &job->cancelled};
    int64_t now_unix_s = input->now_unix_s ? input->now_unix_s : (int64_t)time(NULL);
    job->result = body_unpack(job);
    if (job->result != RESULT_OK)
        return lane;
    if (job->inspect)
        job->result = job->inspect(&context, input->body, input->body_bytes, now_unix_s,
                                   &job->reply, &job->error);
    else
        job->result = generation_prepare(input->format, &context, input->body, input->body_bytes,
                                         now_unix_s, &job->prepared, &job->error);
    if (needed != lane)
        return needed;
    job->prepared.request.cache_salt = salt_of(&input->cache_salt, job->prepared.request.adapter);
    free(job->input.body); /* a dropped or waiting result need not hold it */
    job->input.body = NULL;
    return lane;
}

static void lane_push(struct prepare_pool *pool, enum preparation_lane lane,
                      struct prepare_job *job)
{
    if (lane == PREPARATION_NETWORK && pool->network_threads == 0)
        lane = PREPARATION_IMAGES; /* whose threads may do all then */
    queue_push(&pool->lanes[lane].waiting, job);
    must(pthread_cond_signal(&pool->lanes[lane].work) == 0);
}

static void *thread_main(void *context)
{
    struct pool_thread *thread = context;
    struct prepare_pool *pool = thread->pool;
    struct lane_queue *queue = &pool->lanes[thread->lane];
    enum preparation_lane allowed = thread->lane;
    if (allowed == PREPARATION_IMAGES && pool->network_threads == 0)
        allowed = PREPARATION_NETWORK; /* nothing is fetched: the request is refused */
    must(pthread_mutex_lock(&pool->mutex) == 0);
    while (!pool->stopping) {
        struct prepare_job *job = queue_pop(&queue->waiting);
        if (!job) {
            must(pthread_cond_wait(&queue->work, &pool->mutex) == 0);
            continue;
        }
        thread->running = job;
        job->started_ms = monotonic_clock_ms();
        must(pthread_mutex_unlock(&pool->mutex) == 0);
        enum preparation_lane needed = job_run(job, pool, allowed);
        must(pthread_mutex_lock(&pool->mutex) == 0);
        thread->running = NULL;
        if (needed != allowed && (job->done || job->inspected)) {
            lane_push(pool, needed, job);
            continue;
        }
        if (job->timed_out && job->result == RESULT_CANCELLED)
            (void)api_error_set(&job->error, RESULT_TIMED_OUT, 503, "preparation_deadline",
                                "the request could not be prepared within %lld s",
                                (long long)(pool->deadline_ms / 1000));
        queue_push(&pool->finished, job);
        uint64_t one = 1;
        must(write(pool->finished_fd, &one, sizeof one) == sizeof one);
    }
    must(pthread_mutex_unlock(&pool->mutex) == 0);
    return NULL;
}

/* --- in the loop's thread -------------------------------------------------------------------- */

static void on_finished(int fd, short what, void *context)
{
    (void)what;
    struct prepare_pool *pool = context;
    uint64_t count;
    (void)!read(fd, &count, sizeof count);
    must(pthread_mutex_lock(&pool->mutex) == 0);
    struct prepare_job *job = pool->finished.first;
    queue_init(&pool->finished);
    must(pthread_mutex_unlock(&pool->mutex) == 0);
    while (job) {
        struct prepare_job *next = job->next;
        if (job->done) {
            job->done(job->context, job->result, &job->prepared, &job->error);
            job->prepared = (struct prepared_generation){0};
        }
        if (job->inspected)
            job->inspected(job->context, job->result, &job->reply, &job->error);
        job_free(job);
        job = next;
    }
}

/* Cancels the jobs that run for longer than the deadline; pending again while there are jobs. */
static void on_deadline(int fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct prepare_pool *pool = context;
    int64_t latest_start_ms = monotonic_clock_ms() - pool->deadline_ms;
    bool busy = false;
    must(pthread_mutex_lock(&pool->mutex) == 0);
    for (int i = 0; i < LANES; i++)
        busy = busy || pool->lanes[i].waiting.first != NULL;
    for (uint32_t i = 0; i < pool->thread_count; i++) {
        struct prepare_job *job = pool->threads[i].running;
        busy = busy || job != NULL;
        if (!job || job->started_ms > latest_start_ms || atomic_load(&job->cancelled))
            continue;
        job->timed_out = true;
        pool->timed_out_total++;
        atomic_store(&job->cancelled, true);
    }
    must(pthread_mutex_unlock(&pool->mutex) == 0);
    if (busy)
        event_add(pool->deadline_timer, &deadline_look);
}

struct prepare_pool *prepare_pool_create(const struct prepare_pool_config *config)
{
    uint32_t thread_count = config->threads;
    uint32_t all = 2 * thread_count + config->network_threads;
    struct prepare_pool *pool = must_alloc(1, sizeof *pool + all * sizeof pool->threads[0]);
    must(pthread_mutex_init(&pool->mutex, NULL) == 0);
    for (int i = 0; i < LANES; i++) {
        must(pthread_cond_init(&pool->lanes[i].work, NULL) == 0);
        queue_init(&pool->lanes[i].waiting);
    }
    queue_init(&pool->finished);
    pool->finished_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(pool->finished_fd >= 0);
    pool->finished_event =
        event_new(config->base, pool->finished_fd, EV_READ | EV_PERSIST, on_finished, pool);
    must(pool->finished_event && event_add(pool->finished_event, NULL) == 0);
    pool->reader = config->reader;
    pool->fields = config->fields;
    pool->grammars = config->grammars;
    pool->network_threads = config->network_threads;
    pool->deadline_ms = config->deadline_ms;
    pool->deadline_timer = event_new(config->base, -1, 0, on_deadline, pool);
    must(pool->deadline_timer != NULL);
    pool->thread_count = all;
    for (uint32_t i = 0; i < all; i++) {
        struct pool_thread *thread = &pool->threads[i];
        thread->pool = pool;
        thread->lane = i < thread_count       ? PREPARATION_TEXT
                       : i < 2 * thread_count ? PREPARATION_IMAGES
                                              : PREPARATION_NETWORK;
        must(pthread_create(&thread->thread, NULL, thread_main, thread) == 0);
    }
    return pool;
}

void prepare_pool_destroy(struct prepare_pool *pool)
{
    if (!pool)
        return;
    must(pthread_mutex_lock(&pool->mutex) == 0);
    pool->stopping = true;
    for (uint32_t i = 0; i < pool->thread_count; i++) {
        if (pool->threads[i].running)
            atomic_store(&pool->threads[i].running->cancelled, true);
    }
    for (int i = 0; i < LANES; i++)
        must(pthread_cond_broadcast(&pool->lanes[i].work) == 0);
    must(pthread_mutex_unlock(&pool->mutex) == 0);
    for (uint32_t i = 0; i < pool->thread_count; i++)
        must(pthread_join(pool->threads[i].thread, NULL) == 0);
    struct prepare_job *job;
    for (int i = 0; i < LANES; i++) {
        while ((job = queue_pop(&pool->lanes[i].waiting)))
            job_free(job);
    }
    while ((job = queue_pop(&pool->finished)))
        job_free(job);
    event_free(pool->deadline_timer);
    event_free(pool->finished_event);
    close(pool->finished_fd);
    for (int i = 0; i < LANES; i++)
        pthread_cond_destroy(&pool->lanes[i].work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

static struct prepare_job *job_submit(struct prepare_pool *pool, const struct prepare_job *wanted)
{
    struct prepare_job *job = must_alloc(1, sizeof *job);
    *job = *wanted;
    must(pthread_mutex_lock(&pool->mutex) == 0);
    lane_push(pool, PREPARATION_TEXT, job);
    must(pthread_mutex_unlock(&pool->mutex) == 0);
    if (!event_pending(pool->deadline_timer, EV_TIMEOUT, NULL))
        event_add(pool->deadline_timer, &deadline_look);
    return job;
}

struct prepare_job *prepare_pool_submit(struct prepare_pool *pool,
                                        const struct model_assets *assets,
                                        const struct prepare_input *input, prepare_done *done,
                                        void *context)
{
    return job_submit(
        pool,
        &(struct prepare_job){.assets = assets, .input = *input, .done = done, .context = context});
}

struct prepare_job *prepare_pool_inspect(struct prepare_pool *pool,
                                         const struct model_assets *assets,
                                         const struct prepare_input *input, inspection *inspect,
                                         inspect_done *done, void *context)
{
    return job_submit(pool, &(struct prepare_job){.assets = assets,
                                                  .input = *input,
                                                  .inspected = done,
                                                  .context = context,
                                                  .inspect = inspect});
}

void prepare_pool_drop(struct prepare_pool *pool, struct prepare_job *job)
{
    must(pthread_mutex_lock(&pool->mutex) == 0);
    bool waits = false;
    for (int i = 0; i < LANES && !waits; i++)
        waits = queue_remove(&pool->lanes[i].waiting, job);
    job->done = NULL;
    job->inspected = NULL;
    atomic_store(&job->cancelled, true);
    pool->cancelled_total++;
    must(pthread_mutex_unlock(&pool->mutex) == 0);
    if (waits)
        job_free(job);
}

void prepare_pool_read(struct prepare_pool *pool, struct prepare_figures *figures)
{
    *figures = (struct prepare_figures){0};
    must(pthread_mutex_lock(&pool->mutex) == 0);
    figures->cancelled_total = pool->cancelled_total;
    figures->timed_out_total = pool->timed_out_total;
    for (uint32_t i = 0; i < pool->thread_count; i++)
        figures->busy_threads += pool->threads[i].running != NULL;
    must(pthread_mutex_unlock(&pool->mutex) == 0);
}
