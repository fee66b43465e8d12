/*
 * Which requests a worker is working on at this moment: a bit for each slot, set before the work
 * and cleared after its events are published. Whoever finds the worker dead reads who was with it.
 *
 * One writer (the worker), relaxed atomics; read by the frontend after the worker's death only. A
 * worker can lie here, so what is read may make a request suspected and nothing more.
 */
#ifndef SHOAL_PROTO_STEP_ROSTER_H
#define SHOAL_PROTO_STEP_ROSTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

#define STEP_ROSTER_WORDS (LIMIT_LIVE_REQUESTS / 64u)

struct step_roster {
    _Atomic uint64_t words[STEP_ROSTER_WORDS]; /* slot s: bit s % 64 of word s / 64 */
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
