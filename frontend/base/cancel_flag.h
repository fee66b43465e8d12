/*
 * A flag by which another thread ends long work: set when the client has left, the preparation's
 * deadline has passed or the server stops. Work that can take longer than a few milliseconds reads
 * it at least once per CANCEL_LOOK_UNITS units (bytes, steps or merges).
 */
#ifndef SHOAL_FRONTEND_BASE_CANCEL_FLAG_H
#define SHOAL_FRONTEND_BASE_CANCEL_FLAG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define CANCEL_LOOK_UNITS 4096u

/* `flag` NULL: never cancelled. No data is passed by the flag, so relaxed order suffices. */
static inline bool cancel_flag_is_set(const atomic_bool *flag)
{
    return flag != NULL && atomic_load_explicit(flag, memory_order_relaxed);
}

#endif
