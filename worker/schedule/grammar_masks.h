/*
 * The masks of all running sequences with a grammar, computed by the host's threads: after a step
 * is launched on a device that awaits masks, else before it is planned. Then the end of the
 * sequences whose grammar is complete or has failed.
 */
#ifndef SHOAL_WORKER_SCHEDULE_GRAMMAR_MASKS_H
#define SHOAL_WORKER_SCHEDULE_GRAMMAR_MASKS_H

#include "worker/schedule/worker_engine.h"

/* Every running sequence whose next token is drawn under a mask has it afterwards, or a verdict that
 * ends it. Returns how many of these were computed; engine->masked lists them. */
uint32_t grammar_masks_compute(struct worker_engine *engine);
/* Ends those of the first `count` sequences of engine->masked whose verdict says so. True if there
 * was one, so that a waiting sequence may start. */
bool grammar_masks_end(struct worker_engine *engine, uint32_t count);
/* Whether the sequence's grammar allows nothing but the end after its last known token. */
bool grammar_masks_is_complete(struct worker_engine *engine, struct sequence *sequence);

#endif
