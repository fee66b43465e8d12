/*
 * What tells the frontend of this process's end, and of its cause, before the process can be reaped: a
 * driver may need a second to take down what a process had.
 */
#ifndef SHOAL_WORKER_SCHEDULE_END_MARKS_H
#define SHOAL_WORKER_SCHEDULE_END_MARKS_H

#include "proto/result.h"
#include "shm/device_work.h"

/*
 * Holds `life_fd`, a pipe's end that the kernel closes once no thread of this process runs any more, and
 * maps the marks of `work_fd`. From then on SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS and SIGTRAP
 * store their number in work->crash_signal and then have their default action; one that no handler sees (an overflow of the
 * stack, a sandbox that kills) stores nothing. A descriptor of -1 is not there. Call it before any device is opened. RESULT_IO,
 * RESULT_CORRUPT.
 */
enum result end_marks_open(int life_fd, int work_fd, struct device_work **work,
                           struct error_text *error) RESULT_CHECKED;

#endif
