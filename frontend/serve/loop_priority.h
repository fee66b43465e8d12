/*
 * How soon the event loop's thread runs when it wakes.
 */
#ifndef SHOAL_FRONTEND_SERVE_LOOP_PRIORITY_H
#define SHOAL_FRONTEND_SERVE_LOOP_PRIORITY_H

/* Asks for the shortest slices of the scheduler for the calling thread alone, not for threads and
 * processes that it makes. Where the kernel knows none (before Linux 6.12), or somebody has
 * raised the process's priority or given it another policy, nothing changes. */
void loop_priority_raise(void);

#endif
