/*
 * Watches the other process: a pidfd becomes readable when it ends, and its heartbeat count must
 * grow while it has work.
 */
#ifndef SHOAL_SHM_PEER_WATCH_H
#define SHOAL_SHM_PEER_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/result.h"

/* pidfd of a child or parent; readable when the process has ended. The caller closes it. */
enum result peer_watch_open(pid_t pid, int *pid_fd, struct error_text *error) RESULT_CHECKED;
/* True if the process of pid_fd has ended; never waits. */
bool peer_watch_ended(int pid_fd);

/* Asks the kernel to SIGKILL this process when its parent (strictly: the parent's thread that
 * started it) dies, then verifies that the parent is still `parent` (no race). RESULT_PEER_GONE
 * when it is not. */
enum result peer_watch_die_with_parent(pid_t parent) RESULT_CHECKED;

/* Takes a sample of the heartbeat. True (hung) if `beat` has not changed for `limit_ms` while it
 * was needed. A zeroed watch is a new one. Pure. */
struct heartbeat_watch {
    uint64_t last_beat;
    int64_t last_change_ms;
    bool started;
};
bool heartbeat_watch_hung(struct heartbeat_watch *watch, uint64_t beat, bool needed, int64_t now_ms,
                          int64_t limit_ms);

#endif
