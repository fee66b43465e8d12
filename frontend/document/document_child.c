/*
 * `shoal-media` is the child: it confines itself and executes the program. The file is sealed memory
 * on its standard input, so the program cannot change it; the result comes through a pipe and is
 * bounded while it is read; messages go to memory whose size the child's own limit bounds.
 *
 * The waiting thread looks at the cancel flag every LOOK_MS. CPU time is bounded by the kernel
 * (RLIMIT_CPU), so a loop ends also if this thread does not run; a program that waits for nothing is
 * killed after LIMIT_DOCUMENT_LIFE_MS.
 */
#include "frontend/document/document_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h> /* memfd_create */
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "frontend/base/cancel_flag.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/base/program_spawn.h"
#include "frontend/document/document_exec.h"
#include "proto/limits.h"
#include "proto/log.h"
#include "proto/must.h"
#include "shm/peer_watch.h"

#define LOOK_MS       20
#define READ_BYTES    (64u << 10)
#define NUMBER_BYTES  24
#define MESSAGE_BYTES 4096u
#define END_MOST_MS   2000 /* from the end of its output to its own */

struct child {
    pid_t pid;
    int pid_fd;
    int file;     /* its standard input */
    int messages; /* its standard error */
    int output;   /* the end of the pipe that is read */
};

/* --- start ------------------------------------------------------------------------------------ */

/* Memory with these bytes that no process can change. */
static int file_create(const struct document_run *run)
{
    int fd = memfd_create("shoal-document", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t done = 0;
    while (fd >= 0 && done < run->byte_count) {
        ssize_t wrote = write(fd, run->bytes + done, run->byte_count - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    if (fd >= 0 && done == run->byte_count && lseek(fd, 0, SEEK_SET) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static enum result process_start(const struct document_run *run, unsigned cpu_seconds, int out,
                                 struct child *child, struct error_text *error)
{
    char path[PROGRAM_PATH_BYTES], parent[NUMBER_BYTES], seconds[NUMBER_BYTES];
    char *arguments[DOCUMENT_ARGUMENTS_MOST + 5] = {path, parent, seconds,
                                                    (char *)(uintptr_t)run->tool};
    char *environment[] = {NULL};
    size_t count = 4;
    for (size_t i = 0; run->arguments[i]; i++) {
        must(i < DOCUMENT_ARGUMENTS_MOST);
        arguments[count++] = (char *)(uintptr_t)run->arguments[i];
    }
    (void)snprintf(parent, sizeof parent, "%d", (int)getpid());
    (void)snprintf(seconds, sizeof seconds, "%u", cpu_seconds);
    const struct program_descriptor kept[] = {
        {child->file, STDIN_FILENO}, {out, STDOUT_FILENO}, {child->messages, STDERR_FILENO}};
    enum result result = program_path("shoal-media", path, error);
    if (result == RESULT_OK)
        result = program_spawn(&(struct program_start){.path = path,
                                                       .arguments = arguments,
                                                       .environment = environment,
                                                       .descriptors = kept,
                                                       .descriptor_count = 3},
                               &child->pid, error);
    return result;
}

static void child_close(struct child *child)
{
    const int descriptors[] = {child->file, child->messages, child->output, child->pid_fd};
    for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++)
        if (descriptors[i] >= 0)
            (void)close(descriptors[i]);
}

static enum result child_open(const struct document_run *run, unsigned cpu_seconds,
                              struct child *child, struct error_text *error)
{
    int ends[2] = {-1, -1};
    *child = (struct child){.pid_fd = -1, .file = file_create(run), .output = -1};
    child->messages = memfd_create("shoal-document-messages", MFD_CLOEXEC);
    enum result result = RESULT_OK;
    if (child->file < 0 || child->messages < 0 || pipe2(ends, O_CLOEXEC) != 0)
        result = error_set(error, RESULT_IO, "memfd or pipe: %s", strerror(errno));
    child->output = ends[0];
    if (result == RESULT_OK)
        result = process_start(run, cpu_seconds, ends[1], child, error);
    if (ends[1] >= 0)
        (void)close(ends[1]);
    if (result == RESULT_OK && peer_watch_open(child->pid, &child->pid_fd, error) != RESULT_OK)
        log_warn("document process: %s", error->text); /* its end is then waited for */
    return result;
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool room_make(struct file_bytes *output, size_t *capacity, size_t most)
{
    if (*capacity - output->count >= READ_BYTES)
        return true;
    size_t wanted = *capacity ? 2 * *capacity : 4 * READ_BYTES;
    if (wanted > most + 2 * READ_BYTES)
        wanted = most + 2 * READ_BYTES;
    uint8_t *grown = realloc(output->bytes, wanted);
    if (!grown)
        return false;
    output->bytes = grown;
    *capacity = wanted;
    return true;
}

/* Reads until the program closes its output. */
static enum result output_read(const struct document_run *run, const struct child *child,
                               int64_t deadline_ms, struct file_bytes *output,
                               struct error_text *error)
{
    size_t capacity = 0;
    for (;;) {
        struct pollfd watched = {.fd = child->output, .events = POLLIN};
        int ready = poll(&watched, 1, LOOK_MS);
        if (cancel_flag_is_set(run->cancelled))
            return error_set(error, RESULT_CANCELLED, "the request was cancelled");
        if (monotonic_clock_ms() > deadline_ms)
            return error_set(error, RESULT_PEER_GONE, "reading it did not end");
        if (ready <= 0)
            continue;
        if (!room_make(output, &capacity, run->most_output))
            return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
        ssize_t got = read(child->output, output->bytes + output->count, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(error, RESULT_IO, "pipe: %s", strerror(errno));
        if (got == 0)
            return RESULT_OK;
        output->count += (size_t)got;
        if (output->count > run->most_output)
            return error_set(error, RESULT_TOO_LARGE, "its pages give more than %zu bytes",
                             run->most_output);
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

static int64_t child_cpu_ms(const struct child *child)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(child->pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static bool has_message(const struct child *child, const char *words)
{
    char text[MESSAGE_BYTES + 1];
    ssize_t got = pread(child->messages, text, MESSAGE_BYTES, 0);
    text[got > 0 ? got : 0] = '\0';
    return strstr(text, words) != NULL;
}

static enum result status_judge(const struct child *child, int status, const struct error_text *how,
                                struct error_text *error)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return error_set(error, RESULT_TOO_LARGE, "reading it takes too long");
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM)) {
        log_warn("document process: %s", how->text);
        return error_set(error, RESULT_PEER_GONE, "it cannot be read now; try again");
    }
    if (WIFSIGNALED(status)) {
        log_warn("document process: %s", how->text);
        return error_set(error, RESULT_INVALID,
                         "its reader crashed, or needed more than %u bytes of memory",
                         LIMIT_DOCUMENT_MEMORY_BYTES);
    }
    switch (WEXITSTATUS(status)) {
    case 0: return RESULT_OK;
    case DOCUMENT_EXIT_OPEN:
        return error_set(error, RESULT_UNSUPPORTED,
                         "this system cannot confine the reader of PDF files (Landlock, seccomp)");
    case DOCUMENT_EXIT_MISSING:
        return error_set(error, RESULT_UNSUPPORTED,
                         "the reader of PDF files (poppler) cannot be started");
    default: break;
    }
    if (has_message(child, "Incorrect password"))
        return error_set(error, RESULT_INVALID, "it is encrypted and needs a password");
    return error_set(error, RESULT_INVALID, "it is not a PDF file that can be read");
}

/* Waits for a process whose output has ended, and kills it if it lives on. */
static void end_await(const struct child *child)
{
    struct pollfd watched = {.fd = child->pid_fd, .events = POLLIN};
    int ready = 0;
    if (child->pid_fd >= 0) {
        do
            ready = poll(&watched, 1, END_MOST_MS);
        while (ready < 0 && errno == EINTR);
    }
    if (ready <= 0)
        (void)kill(child->pid, SIGKILL);
}

enum result document_child_run(const struct document_run *run, int64_t *cpu_left_ms,
                               struct file_bytes *output, struct error_text *error)
{
    struct child child;
    struct error_text how;
    *output = (struct file_bytes){0};
    if (*cpu_left_ms <= 0)
        return error_set(error, RESULT_TOO_LARGE, "reading it takes too long");
    unsigned cpu_seconds = (unsigned)((*cpu_left_ms + 999) / 1000);
    int64_t deadline_ms = monotonic_clock_ms() + LIMIT_DOCUMENT_LIFE_MS;
    enum result result = child_open(run, cpu_seconds, &child, error);
    if (result == RESULT_OK) {
        result = output_read(run, &child, deadline_ms, output, error);
        if (result == RESULT_OK)
            end_await(&child);
        else
            (void)kill(child.pid, SIGKILL); /* not reaped yet, so the number is still its own */
    }
    if (child.pid > 0) {
        siginfo_t unused;
        (void)waitid(P_PID, (id_t)child.pid, &unused, WEXITED | WNOWAIT);
        *cpu_left_ms -= child_cpu_ms(&child);
        int status = program_reap(child.pid, &how);
        if (result == RESULT_OK)
            result = status_judge(&child, status, &how, error);
    }
    child_close(&child);
    if (result != RESULT_OK)
        file_bytes_fini(output);
    return result;
}
