/*
 * One end of the socket, and the clock that runs while the other end works.
 *
 * A media process may be under the control of an image, so this side relies on nothing that it says:
 * CPU time is read from the kernel's clock of the process, death from its socket and its exit
 * status, and pixels are copied out of the shared area with read() before anything looks at them.
 * This side never maps memory that the process can write.
 *
 * The waiting thread looks at the cancel flag and at the clock every LOOK_MS. No thread watches an
 * idle process.
 */
#include "frontend/media/media_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h> /* memfd_create */
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "frontend/base/cancel_flag.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/base/program_spawn.h"
#include "frontend/media/media_budget_policy.h"
#include "frontend/media/media_service.h"
#include "proto/must.h"
#include "shm/peer_watch.h"

#define LOOK_MS          10
#define CANCEL_GRACE_US  50000 /* a decoding that ends soon is cheaper than a new process */
#define GREETING_MOST_MS 20000
#define END_MOST_MS      2000 /* from the end of its socket to its own */
#define ENVIRONMENT_MOST 8
#define PID_BYTES        24

extern char **environ;

/* --- life ------------------------------------------------------------------------------------- */

/* The loader's and the sanitizers' settings; everything else may be a secret. */
static void environment_fill(char *chosen[ENVIRONMENT_MOST + 1])
{
    static const char *const names[] = {
        "LD_LIBRARY_PATH=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS=", "LSAN_OPTIONS="};
    size_t count = 0;
    for (char **one = environ; one && *one; one++) {
        for (size_t i = 0; i < sizeof names / sizeof names[0] && count < ENVIRONMENT_MOST; i++) {
            if (strncmp(*one, names[i], strlen(names[i])) == 0)
                chosen[count++] = *one;
        }
    }
    chosen[count] = NULL;
}

/* Memory of a size that no process can change. */
static int area_create(struct error_text *error)
{
    int fd = memfd_create("shoal-media", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, (off_t)MEDIA_AREA_BYTES) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    (void)error_set(error, RESULT_IO, "memfd of %zu bytes: %s", MEDIA_AREA_BYTES, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static enum result process_start(const char *path, int socket, int area, pid_t *pid,
                                 struct error_text *error)
{
    char parent[PID_BYTES];
    char *environment[ENVIRONMENT_MOST + 1];
    char *arguments[] = {(char *)(uintptr_t)path, parent, NULL};
    const struct program_descriptor kept[] = {{socket, MEDIA_SOCKET_FD}, {area, MEDIA_AREA_FD}};
    (void)snprintf(parent, sizeof parent, "%d", (int)getpid());
    environment_fill(environment);
    return program_spawn(&(struct program_start){.path = path,
                                                 .arguments = arguments,
                                                 .environment = environment,
                                                 .descriptors = kept,
                                                 .descriptor_count = 2},
                         pid, error);
}

static void descriptors_close(struct media_child *child)
{
    (void)close(child->socket);
    (void)close(child->area);
    if (child->pid_fd >= 0)
        (void)close(child->pid_fd);
    *child = (struct media_child){.total_cpu_us = child->total_cpu_us};
}

enum result media_child_open(struct media_child *child, const char *path, struct error_text *error)
{
    int ends[2];
    int area = area_create(error);
    if (area < 0)
        return RESULT_IO;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        (void)close(area);
        return error_set(error, RESULT_IO, "socketpair: %s", strerror(errno));
    }
    *child = (struct media_child){
        .pid_fd = -1, .socket = ends[0], .area = area, .total_cpu_us = child->total_cpu_us};
    enum result result = process_start(path, ends[1], area, &child->pid, error);
    (void)close(ends[1]);
    if (result != RESULT_OK) {
        descriptors_close(child);
        return result;
    }
    result = peer_watch_open(child->pid, &child->pid_fd, error);
    if (result != RESULT_OK)
        media_child_close(child, NULL);
    return result;
}

/* Returns waitpid()'s status. */
static int child_end(struct media_child *child, struct error_text *how)
{
    struct error_text unused;
    int status = program_reap(child->pid, how ? how : &unused);
    descriptors_close(child);
    return status;
}

void media_child_close(struct media_child *child, struct error_text *how)
{
    if (child->pid == 0)
        return;
    (void)kill(child->pid, SIGKILL); /* not reaped yet, so the number is still its own */
    (void)child_end(child, how);
}

bool media_child_is_alive(const struct media_child *child)
{
    return child->pid != 0 && !peer_watch_ended(child->pid_fd);
}

static int64_t child_cpu_us(struct media_child *child)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(child->pid, &clock) == 0 && clock_gettime(clock, &used) == 0) {
        int64_t cpu_us = (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
        child->total_cpu_us += cpu_us - child->cpu_us;
        child->cpu_us = cpu_us;
    }
    return child->cpu_us;
}

/* --- the area --------------------------------------------------------------------------------- */

static enum result part_write(const struct media_child *child, const void *bytes, size_t count,
                              size_t offset, struct error_text *error)
{
    for (size_t done = 0; done < count;) {
        ssize_t wrote = pwrite(child->area, (const uint8_t *)bytes + done, count - done,
                               (off_t)(offset + done));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return error_set(error, RESULT_IO, "memfd: %s", strerror(errno));
        done += (size_t)wrote;
    }
    return RESULT_OK;
}

static enum result part_read(const struct media_child *child, uint8_t *out, size_t count,
                             size_t offset, struct error_text *error)
{
    for (size_t done = 0; done < count;) {
        ssize_t got = pread(child->area, out + done, count - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set(error, RESULT_IO, "memfd: %s", strerror(errno));
        done += (size_t)got;
    }
    return RESULT_OK;
}

static enum result pixels_read(const struct media_child *child, uint32_t width, uint32_t height,
                               struct image_pixels *pixels, struct error_text *error)
{
    enum result result = image_pixels_init(pixels, width, height, error);
    if (result == RESULT_OK)
        result = part_read(child, pixels->rgb, image_pixels_bytes(width, height),
                           MEDIA_PIXELS_OFFSET, error);
    if (result != RESULT_OK)
        image_pixels_fini(pixels);
    return result;
}

static enum result frames_read(const struct media_child *child,
                               const struct media_question *question, struct error_text *error)
{
    size_t bytes = video_order_frame_bytes(question->order);
    enum result result = RESULT_OK;
    for (uint32_t i = 0; i < question->order->count && result == RESULT_OK; i++)
        result =
            part_read(child, question->places[i], bytes, MEDIA_PIXELS_OFFSET + i * bytes, error);
    return result;
}

/* Gives back the pages of a part of the area behind the first MEDIA_KEPT_BYTES. */
static void part_trim(const struct media_child *child, size_t offset, size_t bytes)
{
    if (bytes > MEDIA_KEPT_BYTES)
        (void)fallocate(child->area, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)(offset + MEDIA_KEPT_BYTES), (off_t)(bytes - MEDIA_KEPT_BYTES));
}

/* --- messages --------------------------------------------------------------------------------- */

/* False if the process is gone. */
static bool request_send(int socket, const struct media_request *request)
{
    ssize_t sent;
    do
        sent = send(socket, request, sizeof *request, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *request;
}

/* Waits up to LOOK_MS. RESULT_EMPTY: nothing came; RESULT_PEER_GONE: its socket is closed. *bytes may
 * be more than a reply has, the rest is cut off, or 0: an empty message. */
static enum result reply_receive(int socket, struct media_reply *reply, size_t *bytes)
{
    struct pollfd watched = {.fd = socket, .events = POLLIN};
    int ready = poll(&watched, 1, LOOK_MS);
    if (ready <= 0)
        return RESULT_EMPTY;
    ssize_t got = recv(socket, reply, sizeof *reply, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return RESULT_EMPTY;
    if (got < 0 || (got == 0 && (watched.revents & POLLHUP)))
        return RESULT_PEER_GONE;
    *bytes = (size_t)got;
    return RESULT_OK;
}

/* --- waiting ---------------------------------------------------------------------------------- */

struct media_wait {
    const atomic_bool *cancelled;
    int64_t began_us;
    int64_t cpu_began_us;
    int64_t cpu_most_us;
    int64_t wall_most_us;
};

/* Signals by which a process ends itself; any other comes from outside. */
static bool is_own_end(int status)
{
    if (!WIFSIGNALED(status))
        return true;
    switch (WTERMSIG(status)) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS:
    case SIGXFSZ: return true;
    default: return false;
    }
}

static bool ends_soon(const struct media_child *child)
{
    struct pollfd watched = {.fd = child->pid_fd, .events = POLLIN};
    int ready;
    do
        ready = poll(&watched, 1, END_MOST_MS);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/* Its socket is closed. A process that lives on is killed: waiting for its end could take for ever. */
static enum media_outcome judge_end(struct media_child *child, struct error_text *error)
{
    bool greeted = child->greeted;
    (void)child_cpu_us(child);
    if (!ends_soon(child)) {
        media_child_close(child, NULL);
        (void)error_set(error, RESULT_CORRUPT, "it closed its socket and did not end");
        return greeted ? MEDIA_CRASHED : MEDIA_NOT_STARTED;
    }
    int status = child_end(child, error);
    if (!is_own_end(status))
        return WTERMSIG(status) == SIGXCPU ? MEDIA_OVER_BUDGET : MEDIA_KILLED;
    return greeted ? MEDIA_CRASHED : MEDIA_NOT_STARTED;
}

/* Whether to go on waiting (MEDIA_ANSWERED), or why the process was killed. */
static enum media_outcome judge_wait(struct media_child *child, const struct media_wait *wait,
                                     struct error_text *error)
{
    int64_t elapsed_us = monotonic_clock_us() - wait->began_us;
    enum media_outcome outcome = MEDIA_ANSWERED;
    if (cancel_flag_is_set(wait->cancelled) && elapsed_us > CANCEL_GRACE_US) {
        (void)error_set(error, RESULT_CANCELLED, "the request was cancelled");
        outcome = MEDIA_CANCELLED;
    } else if (child_cpu_us(child) - wait->cpu_began_us > wait->cpu_most_us) {
        (void)error_set(error, RESULT_TOO_LARGE, "it took more than %lld ms of CPU time",
                        (long long)wait->cpu_most_us / 1000);
        outcome = MEDIA_OVER_BUDGET;
    } else if (elapsed_us > wait->wall_most_us) {
        (void)error_set(error, RESULT_TIMED_OUT, "no answer within %lld ms",
                        (long long)wait->wall_most_us / 1000);
        outcome = MEDIA_KILLED;
    }
    if (outcome != MEDIA_ANSWERED)
        media_child_close(child, NULL);
    return outcome;
}

static enum media_outcome message_wait(struct media_child *child, const struct media_wait *wait,
                                       struct media_reply *reply, size_t *bytes,
                                       struct error_text *error)
{
    for (;;) {
        enum result result = reply_receive(child->socket, reply, bytes);
        if (result == RESULT_OK)
            return MEDIA_ANSWERED;
        if (result == RESULT_PEER_GONE)
            return judge_end(child, error);
        enum media_outcome outcome = judge_wait(child, wait, error);
        if (outcome != MEDIA_ANSWERED)
            return outcome;
    }
}

enum media_outcome media_child_greet(struct media_child *child, struct error_text *error)
{
    struct media_reply greeting;
    size_t bytes = 0;
    if (child->greeted)
        return MEDIA_ANSWERED;
    const struct media_wait wait = {.began_us = monotonic_clock_us(),
                                    .cpu_most_us = INT64_MAX,
                                    .wall_most_us = GREETING_MOST_MS * 1000};
    enum media_outcome outcome = message_wait(child, &wait, &greeting, &bytes, error);
    if (outcome != MEDIA_ANSWERED)
        return outcome;
    if (media_greeting_check(&greeting, bytes, error) != RESULT_OK) {
        media_child_close(child, NULL);
        return MEDIA_NOT_STARTED;
    }
    child->greeted = true;
    child->sandbox = greeting.sandbox;
    return MEDIA_ANSWERED;
}

/* --- questions -------------------------------------------------------------------------------- */

/* Bytes of the area's second part that an answer may have written. */
static size_t result_bytes(const struct media_request *request)
{
    size_t frames = request->frame_count > 0 ? request->frame_count : 1;
    return frames * image_pixels_bytes(request->width, request->height) +
           request->samples * sizeof(float);
}

static enum media_outcome answer_take(struct media_child *child,
                                      const struct media_question *question,
                                      const struct media_request *request, size_t bytes,
                                      const struct media_reply *reply, struct image_pixels *pixels,
                                      struct error_text *error)
{
    (void)child_cpu_us(child);
    if (media_reply_check(reply, bytes, request->id, question->action, error) != RESULT_OK) {
        media_child_close(child, NULL);
        return MEDIA_CRASHED;
    }
    enum result result = RESULT_OK;
    if (question->action == MEDIA_DECODE && reply->result == RESULT_OK)
        result = pixels_read(child, request->width, request->height, pixels, error);
    if (question->action == MEDIA_VIDEO_DECODE && reply->result == RESULT_OK)
        result = frames_read(child, question, error);
    if (question->action == MEDIA_AUDIO_DECODE && reply->result == RESULT_OK)
        result = part_read(child, (uint8_t *)question->samples,
                           question->samples_wanted * sizeof *question->samples,
                           MEDIA_PIXELS_OFFSET, error);
    part_trim(child, 0, request->byte_count);
    part_trim(child, MEDIA_PIXELS_OFFSET, result_bytes(request));
    return result == RESULT_OK ? MEDIA_ANSWERED : MEDIA_NOT_ASKED;
}

/* Completes the request and writes what it needs into the area. */
static enum result question_write(const struct media_child *child,
                                  const struct media_question *question,
                                  struct media_request *request, struct error_text *error)
{
    const struct video_order *order = question->order;
    enum result result =
        part_write(child, question->input->bytes, question->input->byte_count, 0, error);
    if (question->action == MEDIA_DECODE)
        image_header_decoded_size(question->header, question->wanted_width, question->wanted_height,
                                  &request->width, &request->height);
    if (question->action != MEDIA_VIDEO_DECODE || result != RESULT_OK)
        return result;
    request->width = order->width;
    request->height = order->height;
    request->frame_count = order->count;
    request->filter = (uint16_t)order->filter;
    request->arithmetic = (uint16_t)order->arithmetic;
    return part_write(child, order->indices, order->count * sizeof *order->indices,
                      MEDIA_LIST_OFFSET, error);
}

static int64_t budget_of(const struct media_question *question, uint32_t byte_count)
{
    if (question->rate > 0)
        return media_budget_audio_cpu_us(byte_count);
    if (question->video)
        return media_budget_video_cpu_us(byte_count, question->video, question->order);
    return media_budget_cpu_us(byte_count, question->header);
}

enum media_outcome media_child_ask(struct media_child *child, const struct media_question *question,
                                   struct media_reply *reply, struct image_pixels *pixels,
                                   struct error_text *error)
{
    struct media_request request = {.id = child->last_id + 1,
                                    .action = question->action,
                                    .byte_count = (uint32_t)question->input->byte_count,
                                    .wanted_width = question->wanted_width,
                                    .wanted_height = question->wanted_height,
                                    .rate = question->rate,
                                    .samples = question->samples_wanted};
    enum media_outcome outcome = media_child_greet(child, error);
    if (outcome != MEDIA_ANSWERED)
        return outcome;
    if (question_write(child, question, &request, error) != RESULT_OK)
        return MEDIA_NOT_ASKED;
    child->last_id = request.id;
    int64_t cpu_us = budget_of(question, request.byte_count);
    const struct media_wait wait = {.cancelled = question->input->cancelled,
                                    .began_us = monotonic_clock_us(),
                                    .cpu_began_us = child_cpu_us(child),
                                    .cpu_most_us = cpu_us,
                                    .wall_most_us = media_budget_wall_us(cpu_us)};
    size_t bytes = 0;
    if (!request_send(child->socket, &request))
        return judge_end(child, error);
    outcome = message_wait(child, &wait, reply, &bytes, error);
    if (outcome == MEDIA_ANSWERED)
        outcome = answer_take(child, question, &request, bytes, reply, pixels, error);
    return outcome;
}
