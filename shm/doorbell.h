/*
 * Wake-up of a sleeping peer: an eventfd plus an "asleep" flag in shared memory, so that a busy
 * peer costs no syscall and an idle one does not poll.
 *
 * The recipe (also in shm/README.md):
 *   sleeper: D1 store asleep = 1 (relaxed)   D2 full fence   D3 look again for work (the caller)
 *            D4 none: wait on the eventfd    D5 store asleep = 0, drain the eventfd
 *   ringer:  R1 commit records (release)     R2 full fence   R3 load asleep (relaxed)
 *            R4 if 1: exchange to 0, write the eventfd
 * D2/R2 pair: either the sleeper's second look sees the records or the ringer sees the flag.
 */
#ifndef SHOAL_SHM_DOORBELL_H
#define SHOAL_SHM_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"

/*
 * Byte map of struct doorbell_shared, 64 bytes.
 *
 *   offset  size  field   writer           rule
 *   0       4     asleep  sleeper, ringer  sleeper stores 1 or 0; ringer exchanges 1 to 0
 *   4       60    pad     none             one cache line
 */
struct doorbell_shared {
    _Atomic uint32_t asleep;
    uint8_t pad[60];
};
_Static_assert(sizeof(struct doorbell_shared) == 64, "one cache line");

struct doorbell {
    struct doorbell_shared *shared;
    int event_fd; /* owned by the caller; non-blocking */
};

/* Ringer's side, after a ring commit. True when a syscall was made (for tests and metrics). */
bool doorbell_ring(struct doorbell *bell);

/* Sleeper's side for event loops: prepare (D1, D2), then look again; when there is work call
 * doorbell_cancel_sleep(), else return to the loop, which watches event_fd; on readiness call
 * doorbell_woken() (D5). A wake-up may be spurious. */
void doorbell_prepare_sleep(struct doorbell *bell);
void doorbell_cancel_sleep(struct doorbell *bell);
void doorbell_woken(struct doorbell *bell);

/* Sleeper's side for plain loops: D4 with poll(2) on event_fd and, when not -1, `other_fd` (e.g. a
 * pidfd or pipe), at most timeout_ms (-1 = no limit), then D5. True when other_fd became readable
 * or hung up. A signal ends the wait early. Call after prepare + look. */
bool doorbell_wait(struct doorbell *bell, int other_fd, int timeout_ms);

#endif
