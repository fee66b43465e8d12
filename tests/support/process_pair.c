/*
 * The child is forked, inherits descriptors like a spawned worker and runs a function of the test. It
 * attaches by descriptor and never touches the parent's mapping. It resets the signal handlers of the
 * test framework, so the parent sees a crash as the signal.
 */
#include "tests/support/process_pair.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/must.h"
#include "shm/peer_watch.h"

void process_pair_open(struct process_pair *pair, uint32_t submit_capacity, uint32_t event_capacity,
                       uint64_t slab_bytes)
{
    *pair = (struct process_pair){.child = -1, .child_fd = -1};
    struct segment_sizes sizes = {.submit_capacity = submit_capacity,
                                  .event_capacity = event_capacity,
                                  .slab_bytes = slab_bytes};
    must(segment_create(&sizes, 1, &pair->segment, NULL) == RESULT_OK);
    struct segment *segment = &pair->segment;
    pair->submit_bell = (struct doorbell){segment->submit_bell, eventfd(0, EFD_NONBLOCK)};
    pair->event_bell = (struct doorbell){segment->event_bell, eventfd(0, EFD_NONBLOCK)};
    must(pair->submit_bell.event_fd >= 0 && pair->event_bell.event_fd >= 0);
    spsc_ring_attach_producer(&pair->submit, segment->submit_shared, segment->submit_records,
                              sizeof(struct submit_record), segment->submit_capacity);
    spsc_ring_attach_consumer(&pair->event, segment->event_shared, segment->event_records,
                              sizeof(struct token_event), segment->event_capacity);
}

static void attach_worker(struct process_pair *worker, const struct process_pair *frontend)
{
    *worker = (struct process_pair){.child = -1, .child_fd = -1};
    struct segment *segment = &worker->segment;
    must(segment_attach(frontend->segment.fd, segment, NULL) == RESULT_OK);
    worker->submit_bell = (struct doorbell){segment->submit_bell, frontend->submit_bell.event_fd};
    worker->event_bell = (struct doorbell){segment->event_bell, frontend->event_bell.event_fd};
    spsc_ring_attach_consumer(&worker->submit, segment->submit_shared, segment->submit_records,
                              sizeof(struct submit_record), segment->submit_capacity);
    spsc_ring_attach_producer(&worker->event, segment->event_shared, segment->event_records,
                              sizeof(struct token_event), segment->event_capacity);
}

void process_pair_start(struct process_pair *pair, child_main *run, void *argument)
{
    pid_t parent = getpid();
    pair->child = fork();
    must(pair->child >= 0);
    if (pair->child == 0) {
        static const int handled[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGABRT};
        for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++)
            signal(handled[i], SIG_DFL);
        must(peer_watch_die_with_parent(parent) == RESULT_OK);
        struct process_pair worker;
        attach_worker(&worker, pair);
        run(&worker, argument);
        _exit(0);
    }
    must(peer_watch_open(pair->child, &pair->child_fd, NULL) == RESULT_OK);
}

int process_pair_reap(struct process_pair *pair)
{
    struct pollfd watched = {.fd = pair->child_fd, .events = POLLIN};
    int ready = poll(&watched, 1, PROCESS_PAIR_PATIENCE_MS);
    must(ready == 1);
    must(peer_watch_ended(pair->child_fd));
    int status = 0;
    must(waitpid(pair->child, &status, 0) == pair->child);
    close(pair->child_fd);
    pair->child = -1;
    pair->child_fd = -1;
    return status;
}

void process_pair_close(struct process_pair *pair)
{
    must(pair->child == -1);
    close(pair->submit_bell.event_fd);
    close(pair->event_bell.event_fd);
    segment_detach(&pair->segment);
}

int process_pair_clean(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
