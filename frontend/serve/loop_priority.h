/*
 * Wake-up latency of the event loop's thread.
 */
#ifndef SHOAL_FRONTEND_SERVE_LOOP_PRIORITY_H
#define SHOAL_FRONTEND_SERVE_LOOP_PRIORITY_H

/* Asks the scheduler for the shortest time slices, for the calling thread only (not for its threads
 * and child processes). No effect on kernels without the feature (before Linux 6.12) or if the
 * process has a raised priority or another scheduling policy. */
void loop_priority_raise(void);

#endif
