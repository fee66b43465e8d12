/*
 * Why a worker process ended. The restart policy and the poison policy treat the causes differently.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_DEATH_CAUSE_H
#define SHOAL_FRONTEND_SERVE_WORKER_DEATH_CAUSE_H

#include <stdbool.h>
#include <stdint.h>

enum death_cause {
    DEATH_CRASH_SIGNAL,   /* SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS or SIGTRAP */
    DEATH_HUNG,           /* killed by the watchdog */
    DEATH_BROKE_PROTOCOL, /* killed because it broke a rule of the segment */
    DEATH_EXIT,           /* it exited by itself, with any status */
    DEATH_OUTSIDE_SIGNAL  /* any other signal, which this process did not send */
};

/* Cause of a death that this process did not bring about; `wait_status` is waitpid()'s. Pure. */
enum death_cause death_cause_from_status(int wait_status);
/* The same before the status is known, from what the process left: the signal that it marked
 * (shm/device_work.h), or 0, and whether it wrote an error text. A death without either counts as one
 * from outside. Pure. */
enum death_cause death_cause_from_marks(uint32_t crash_signal, bool said_why);

/* "crash_signal", "hung", "broke_protocol", "exit" or "outside_signal". */
const char *death_cause_name(enum death_cause cause);

/* True for DEATH_OUTSIDE_SIGNAL: the death alone does not show that the worker or its work is
 * faulty. */
bool death_cause_is_outside(enum death_cause cause);

#endif
