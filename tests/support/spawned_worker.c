/*
 * Spawns the real program with segment and doorbells as inherited descriptors; all others are closed
 * on exec. The program is in the same build folder as the test, so a sanitizer build tests its own
 * worker.
 */
#include "tests/support/spawned_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/must.h"
#include "shm/peer_watch.h"

extern char **environ;

#define FLAGS_MAX 48

/* build/tests/process/x -> build/shoal-worker */
static void find_program(char *path, size_t capacity)
{
    ssize_t length = readlink("/proc/self/exe", path, capacity - 1);
    must(length > 0);
    path[length] = '\0';
    char *tests = NULL;
    for (char *at = strstr(path, "/tests/"); at; at = strstr(at + 1, "/tests/"))
        tests = at;
    must(tests && (size_t)(tests - path) + sizeof "/shoal-worker" <= capacity);
    memcpy(tests, "/shoal-worker", sizeof "/shoal-worker");
}

static void inherit(int fd)
{
    must(fcntl(fd, F_SETFD, 0) == 0);
}

void spawned_worker_start(struct test_frontend *frontend, const char *path,
                          const char *const *more_flags)
{
    struct process_pair *pair = &frontend->pair;
    char program[4096];
    char numbers[4][16];
    find_program(program, sizeof program);
    snprintf(numbers[0], sizeof numbers[0], "%d", pair->segment.fd);
    snprintf(numbers[1], sizeof numbers[1], "%d", pair->submit_bell.event_fd);
    snprintf(numbers[2], sizeof numbers[2], "%d", pair->event_bell.event_fd);
    snprintf(numbers[3], sizeof numbers[3], "%d", (int)getpid());
    const char *argv[FLAGS_MAX] = {program,    "--segment-fd",    numbers[0], "--submit-bell-fd",
                                   numbers[1], "--event-bell-fd", numbers[2], "--parent-pid",
                                   numbers[3], "--model",         path,       "--log-level",
                                   "error"};
    int count = 13;
    for (; more_flags && *more_flags; more_flags++) {
        must(count < FLAGS_MAX - 1);
        argv[count++] = *more_flags;
    }
    inherit(pair->segment.fd);
    inherit(pair->submit_bell.event_fd);
    inherit(pair->event_bell.event_fd);
    must(posix_spawn(&pair->child, program, NULL, NULL, (char **)(void *)argv, environ) == 0);
    must(peer_watch_open(pair->child, &pair->child_fd, NULL) == RESULT_OK);
}

void spawned_worker_await(struct test_frontend *frontend, enum worker_state wanted)
{
    struct worker_gauges *gauges = frontend->pair.segment.gauges;
    for (int waited_ms = 0;; waited_ms += 5) {
        must(waited_ms < PROCESS_PAIR_PATIENCE_MS);
        uint32_t state = atomic_load_explicit(&gauges->state, memory_order_acquire);
        if (state == (uint32_t)wanted)
            return;
        must(state != WORKER_FAILED);
        must(!peer_watch_ended(frontend->pair.child_fd));
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}
