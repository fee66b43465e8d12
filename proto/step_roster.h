/*
 * The requests that a worker is processing at this moment: one bit per slot, set before the work
 * and cleared after its events are published. The frontend reads it after the worker's death only.
 *
 * All accesses are relaxed atomics. A broken worker can set any bits, so a bit makes a request
 * suspected and nothing more.
 *
 * Byte map of struct step_roster, 512 bytes. Written by the worker.
 *
 *   offset  size  field  rule
 *   0       512   words  slot s is bit s % 64 of word s / 64
 */
#ifndef SHOAL_PROTO_STEP_ROSTER_H
#define SHOAL_PROTO_STEP_ROSTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

#define STEP_ROSTER_WORDS (LIMIT_LIVE_REQUESTS / 64u)

struct step_roster {
    _Atomic uint64_t words[STEP_ROSTER_WORDS];
};
_Static_assert(sizeof(struct step_roster) == 512, "byte map of the segment");

/* The writer's side. `slot` < LIMIT_LIVE_REQUESTS. */
void step_roster_add(struct step_roster *roster, uint32_t slot);
void step_roster_clear(struct step_roster *roster);

/* The reader's side. */
struct step_roster_copy {
    uint64_t words[STEP_ROSTER_WORDS];
};
void step_roster_read(const struct step_roster *roster, struct step_roster_copy *copy);
bool step_roster_copy_has(const struct step_roster_copy *copy, uint32_t slot);
bool step_roster_copy_is_empty(const struct step_roster_copy *copy);

#endif
