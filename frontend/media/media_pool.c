/*
 * A mutex guards which process is busy and the counts; a busy process belongs to one thread, which
 * talks to it without the mutex.
 *
 * Blame: an image is refused for a crash only if the process had done nothing before it, because an
 * earlier image may have left damage behind. So a crash of a used process, and a process killed from
 * outside, are tried again on a new one, LIMIT_MEDIA_ATTEMPTS times in all. An image that uses up
 * its budget is refused at once.
 */
#include "frontend/media/media_pool.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "frontend/base/cancel_flag.h"
#include "frontend/base/program_spawn.h"
#include "frontend/media/media_child.h"
#include "proto/limits.h"
#include "proto/log.h"
#include "proto/must.h"

#define LOOK_MS 20 /* at the cancel flag, while all processes are busy */

struct media_slot {
    struct media_child child;
    bool is_av; /* its program is shoal-av */
    bool busy;
    bool was_open;        /* the next process replaces one that was lost */
    int64_t total_cpu_us; /* of the child, when it was last given back */
};

struct media_pool {
    pthread_mutex_t mutex;
    pthread_cond_t given;
    char path[PROGRAM_PATH_BYTES];
    char av_path[PROGRAM_PATH_BYTES]; /* "": shoal-media answers for videos too */
    struct image_reader reader;
    struct media_figures figures; /* without `processes` and `cpu_s` */
    uint32_t slot_count;
    struct media_slot slots[];
};

/* --- processes -------------------------------------------------------------------------------- */

/* An idle slot, one with a process first; NULL: all are busy. */
static struct media_slot *slot_find(struct media_pool *pool, bool is_av)
{
    struct media_slot *found = NULL;
    for (uint32_t i = 0; i < pool->slot_count; i++) {
        struct media_slot *slot = &pool->slots[i];
        if (!slot->busy && slot->is_av == is_av &&
            (!found || (slot->child.pid != 0 && found->child.pid == 0)))
            found = slot;
    }
    return found;
}

/* NULL: cancelled while all were busy. */
static struct media_slot *slot_take(struct media_pool *pool, bool is_av,
                                    const atomic_bool *cancelled)
{
    struct media_slot *slot;
    must(pthread_mutex_lock(&pool->mutex) == 0);
    while (!(slot = slot_find(pool, is_av)) && !cancel_flag_is_set(cancelled)) {
        struct timespec until;
        must(clock_gettime(CLOCK_MONOTONIC, &until) == 0); /* pool->given waits by it */
        until.tv_nsec += LOOK_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&pool->given, &pool->mutex, &until);
    }
    if (slot)
        slot->busy = true;
    must(pthread_mutex_unlock(&pool->mutex) == 0);
    return slot;
}

static void slot_give(struct media_pool *pool, struct media_slot *slot, uint64_t *counter)
{
    must(pthread_mutex_lock(&pool->mutex) == 0);
    slot->busy = false;
    slot->total_cpu_us = slot->child.total_cpu_us;
    if (counter)
        ++*counter;
    must(pthread_cond_broadcast(&pool->given) == 0); /* of either kind */
    must(pthread_mutex_unlock(&pool->mutex) == 0);
}

/* A process in the slot, a new one where there is none that lives. */
static enum result slot_open(struct media_pool *pool, struct media_slot *slot,
                             struct error_text *error)
{
    struct error_text how;
    if (slot->child.pid != 0 && !media_child_is_alive(&slot->child)) {
        media_child_close(&slot->child, &how);
        log_warn("media process: %s while idle", how.text);
    }
    if (slot->child.pid != 0)
        return RESULT_OK;
    enum result result =
        media_child_open(&slot->child, slot->is_av ? pool->av_path : pool->path, error);
    if (result == RESULT_OK && slot->was_open) {
        must(pthread_mutex_lock(&pool->mutex) == 0);
        pool->figures.restarts++;
        must(pthread_mutex_unlock(&pool->mutex) == 0);
    }
    slot->was_open = slot->was_open || result == RESULT_OK;
    return result;
}

/* --- one question ----------------------------------------------------------------------------- */

static enum result no_process(struct error_text *error, const struct error_text *why)
{
    log_error("media process: %s", why->text);
    return error_set(error, RESULT_PEER_GONE, "it cannot be decoded now; try again");
}

static enum result reply_result(const struct media_reply *reply, struct error_text *error)
{
    if (reply->result == RESULT_OUT_OF_MEMORY)
        return error_set(error, RESULT_TOO_LARGE, "decoding it takes more than %u bytes of memory",
                         LIMIT_MEDIA_MEMORY_BYTES);
    if (reply->result != RESULT_OK)
        return error_set(error, (enum result)reply->result, "%s", reply->text);
    return RESULT_OK;
}

struct attempt {
    enum media_outcome outcome;
    bool blames_image; /* the process had done nothing else */
    struct error_text why;
};

/* After a crash the next attempt gets a new process. */
static void attempt_run(struct media_pool *pool, struct media_slot *slot,
                        const struct media_question *question, struct media_reply *reply,
                        struct image_pixels *pixels, struct attempt *attempt)
{
    struct media_figures *figures = &pool->figures;
    uint64_t *counter = NULL;
    if (attempt->outcome == MEDIA_CRASHED)
        media_child_close(&slot->child, NULL);
    *attempt = (struct attempt){.outcome = MEDIA_NOT_STARTED};
    if (slot_open(pool, slot, &attempt->why) == RESULT_OK) {
        attempt->blames_image = slot->child.last_id == 0;
        attempt->outcome = media_child_ask(&slot->child, question, reply, pixels, &attempt->why);
    }
    switch (attempt->outcome) {
    case MEDIA_CRASHED: counter = &figures->crashes; break;
    case MEDIA_OVER_BUDGET: counter = &figures->budget_kills; break;
    case MEDIA_CANCELLED: counter = &figures->cancel_kills; break;
    default: break;
    }
    if (slot->child.pid != 0 && slot->child.cpu_us > (int64_t)LIMIT_MEDIA_LIFE_CPU_MS * 1000)
        media_child_close(&slot->child, NULL);
    slot_give(pool, slot, counter);
}

/* True if the question is settled with *result. */
static bool attempt_judge(const struct attempt *attempt, const struct media_reply *reply,
                          enum result *result, struct error_text *error)
{
    switch (attempt->outcome) {
    case MEDIA_ANSWERED: *result = reply_result(reply, error); return true;
    case MEDIA_CANCELLED:
        *result = error_set(error, RESULT_CANCELLED, "%s", attempt->why.text);
        return true;
    case MEDIA_OVER_BUDGET:
        log_warn("media process killed: an image took too long: %s", attempt->why.text);
        *result =
            error_set(error, RESULT_TOO_LARGE, "decoding it takes too long: %s", attempt->why.text);
        return true;
    case MEDIA_CRASHED:
        log_warn("media process: %s", attempt->why.text);
        *result = error_set(error, RESULT_INVALID, "it cannot be decoded: its decoder crashed");
        return attempt->blames_image;
    case MEDIA_KILLED: log_warn("media process: %s", attempt->why.text); break;
    default: break;
    }
    *result = RESULT_PEER_GONE;
    return attempt->outcome != MEDIA_KILLED;
}

/* Whether the loader did not find a library of the program. */
static bool lacks_libraries(const struct attempt *attempt)
{
    return attempt->outcome == MEDIA_NOT_STARTED && strstr(attempt->why.text, "exit status 127");
}

static enum result ask(struct media_pool *pool, const struct media_question *question,
                       struct media_reply *reply, struct image_pixels *pixels,
                       struct error_text *error)
{
    struct attempt attempt = {.outcome = MEDIA_ANSWERED};
    enum result result = RESULT_PEER_GONE;
    bool is_av = pool->av_path[0] && question->action >= MEDIA_VIDEO_PROBE;
    for (uint32_t i = 0; i < LIMIT_MEDIA_ATTEMPTS; i++) {
        struct media_slot *slot = cancel_flag_is_set(question->input->cancelled)
                                      ? NULL
                                      : slot_take(pool, is_av, question->input->cancelled);
        if (!slot)
            return error_set(error, RESULT_CANCELLED, "the request was cancelled");
        attempt_run(pool, slot, question, reply, pixels, &attempt);
        if (is_av && lacks_libraries(&attempt)) {
            is_av = false; /* shoal-media has GIF and WebP, and words for the rest */
            continue;
        }
        if (attempt_judge(&attempt, reply, &result, error))
            break;
    }
    return result == RESULT_PEER_GONE ? no_process(error, &attempt.why) : result;
}

/* --- the image reader ------------------------------------------------------------------------- */

static enum result pool_probe(void *context, const struct image_input *input,
                              struct image_header *header, struct error_text *error)
{
    struct media_reply reply;
    struct image_pixels unused;
    const struct media_question question = {.action = MEDIA_PROBE, .input = input};
    must(input->byte_count <= LIMIT_SOURCE_IMAGE_BYTES);
    if (input->byte_count == 0)
        return error_set(error, RESULT_UNSUPPORTED, IMAGE_UNKNOWN_KIND);
    enum result result = ask(context, &question, &reply, &unused, error);
    if (result == RESULT_OK)
        *header = media_reply_header(&reply);
    return result;
}

static enum result pool_decode(void *context, const struct image_input *input,
                               const struct image_header *header, uint32_t wanted_width,
                               uint32_t wanted_height, struct image_pixels *pixels,
                               struct error_text *error)
{
    struct media_reply reply;
    const struct media_question question = {.action = MEDIA_DECODE,
                                            .input = input,
                                            .header = header,
                                            .wanted_width = wanted_width,
                                            .wanted_height = wanted_height};
    return ask(context, &question, &reply, pixels, error);
}

static enum result pool_probe_video(void *context, const struct image_input *input,
                                    struct video_header *header, struct error_text *error)
{
    struct media_reply reply;
    struct image_pixels unused;
    const struct media_question question = {.action = MEDIA_VIDEO_PROBE, .input = input};
    if (input->byte_count > LIMIT_SOURCE_IMAGE_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "the file has %zu bytes; the most is %u",
                         input->byte_count, LIMIT_SOURCE_IMAGE_BYTES);
    if (input->byte_count == 0)
        return error_set(error, RESULT_UNSUPPORTED, "the file is empty");
    enum result result = ask(context, &question, &reply, &unused, error);
    if (result == RESULT_OK)
        *header = media_reply_video(&reply);
    return result;
}

static enum result pool_decode_video(void *context, const struct image_input *input,
                                     const struct video_header *header,
                                     const struct video_order *order, uint8_t *const *places,
                                     struct error_text *error)
{
    struct media_reply reply;
    struct image_pixels unused;
    const struct media_question question = {.action = MEDIA_VIDEO_DECODE,
                                            .input = input,
                                            .video = header,
                                            .order = order,
                                            .places = places};
    must(video_order_is_valid(order, header));
    return ask(context, &question, &reply, &unused, error);
}

static enum result pool_probe_audio(void *context, const struct image_input *input, uint32_t rate,
                                    struct audio_header *header, struct error_text *error)
{
    struct media_reply reply;
    struct image_pixels unused;
    const struct media_question question = {
        .action = MEDIA_AUDIO_PROBE, .input = input, .rate = rate};
    if (input->byte_count > LIMIT_SOURCE_IMAGE_BYTES)
        return error_set(error, RESULT_TOO_LARGE, "the file has %zu bytes; the most is %u",
                         input->byte_count, LIMIT_SOURCE_IMAGE_BYTES);
    if (input->byte_count == 0)
        return error_set(error, RESULT_UNSUPPORTED, "the file is empty");
    enum result result = ask(context, &question, &reply, &unused, error);
    if (result == RESULT_OK)
        *header = media_reply_audio(&reply, rate);
    return result;
}

/* The process may have written any numbers. */
static enum result pool_decode_audio(void *context, const struct image_input *input,
                                     const struct audio_header *header, float *samples,
                                     struct error_text *error)
{
    struct media_reply reply;
    struct image_pixels unused;
    const struct media_question question = {.action = MEDIA_AUDIO_DECODE,
                                            .input = input,
                                            .rate = header->rate,
                                            .samples_wanted = header->samples,
                                            .samples = samples};
    must(audio_header_is_valid(header));
    enum result result = ask(context, &question, &reply, &unused, error);
    for (uint32_t i = 0; i < header->samples && result == RESULT_OK; i++) {
        if (!(fabsf(samples[i]) <= AUDIO_SAMPLE_MAX))
            result = error_set(error, RESULT_INVALID, "its decoder wrote a sample of %g",
                               (double)samples[i]);
    }
    return result;
}

const struct image_reader *media_pool_reader(const struct media_pool *pool)
{
    return &pool->reader;
}

/* --- life ------------------------------------------------------------------------------------- */

/* The program for videos is there if the build had FFmpeg's libraries. */
static void find_av_program(struct media_pool *pool)
{
    struct error_text error;
    if (program_path("shoal-av", pool->av_path, &error) != RESULT_OK ||
        access(pool->av_path, X_OK) != 0)
        pool->av_path[0] = '\0';
}

struct media_pool *media_pool_create(uint32_t processes)
{
    struct error_text error;
    must(processes >= 1 && processes <= LIMIT_MEDIA_PROCESSES);
    struct media_pool *pool =
        must_alloc(1, sizeof *pool + (size_t)2 * processes * sizeof pool->slots[0]);
    must(pthread_mutex_init(&pool->mutex, NULL) == 0);
    pthread_condattr_t monotonic;
    must(pthread_condattr_init(&monotonic) == 0);
    must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    must(pthread_cond_init(&pool->given, &monotonic) == 0);
    pthread_condattr_destroy(&monotonic);
    pool->slot_count = 2 * processes;
    for (uint32_t i = processes; i < pool->slot_count; i++)
        pool->slots[i].is_av = true;
    find_av_program(pool);
    pool->reader = (struct image_reader){.context = pool,
                                         .probe = pool_probe,
                                         .decode = pool_decode,
                                         .probe_video = pool_probe_video,
                                         .decode_video = pool_decode_video,
                                         .probe_audio = pool_probe_audio,
                                         .decode_audio = pool_decode_audio};
    if (program_path("shoal-media", pool->path, &error) != RESULT_OK)
        pool->path[0] = '\0'; /* starting it fails, with words */
    return pool;
}

void media_pool_destroy(struct media_pool *pool)
{
    if (!pool)
        return;
    for (uint32_t i = 0; i < pool->slot_count; i++)
        media_child_close(&pool->slots[i].child, NULL);
    pthread_cond_destroy(&pool->given);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

static void sandbox_log(uint32_t sandbox)
{
#ifdef SHOAL_SANITIZED
    (void)sandbox;
    log_warn("media process: the sandbox is off in this build, for its sanitizers");
#else
    static const struct {
        uint32_t part;
        const char *missing;
    } parts[] = {{MEDIA_SANDBOX_SECCOMP, "seccomp"},
                 {MEDIA_SANDBOX_LANDLOCK, "Landlock"},
                 {MEDIA_SANDBOX_LIMITS, "a resource limit"}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!(sandbox & parts[i].part))
            log_warn("media process: this system has no %s; images are decoded without it",
                     parts[i].missing);
    }
    if (sandbox == MEDIA_SANDBOX_ALL)
        log_info("media process: images are decoded under seccomp, Landlock and resource limits");
#endif
}

void media_pool_start(struct media_pool *pool)
{
    struct error_text error;
    struct media_slot *slot = slot_take(pool, false, NULL);
    if (slot_open(pool, slot, &error) == RESULT_OK &&
        media_child_greet(&slot->child, &error) == MEDIA_ANSWERED)
        sandbox_log(slot->child.sandbox);
    else
        log_error("images cannot be decoded: %s", error.text);
    slot_give(pool, slot, NULL);
}

void media_pool_read(struct media_pool *pool, struct media_figures *figures)
{
    must(pthread_mutex_lock(&pool->mutex) == 0);
    *figures = pool->figures;
    for (uint32_t i = 0; i < pool->slot_count; i++) {
        const struct media_slot *slot = &pool->slots[i];
        figures->processes += slot->busy || media_child_is_alive(&slot->child);
        figures->cpu_s += (double)slot->total_cpu_us / 1e6;
    }
    must(pthread_mutex_unlock(&pool->mutex) == 0);
}
