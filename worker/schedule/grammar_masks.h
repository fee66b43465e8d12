/*
 * Before a step is planned: the masks of all running sequences with a grammar, computed by the
 * host's threads, and the end of the sequences whose grammar is complete or has failed.
 */
#ifndef SHOAL_WORKER_SCHEDULE_GRAMMAR_MASKS_H
#define SHOAL_WORKER_SCHEDULE_GRAMMAR_MASKS_H

#include "worker/schedule/worker_engine.h"

/* Every running sequence whose next token is drawn under a mask has it afterwards. True if a
 * sequence was ended, so that a waiting one may start. */
bool grammar_masks_prepare(struct worker_engine *engine);
/* Whether the sequence's grammar allows nothing but the end after its last known token. */
bool grammar_masks_is_complete(struct worker_engine *engine, struct sequence *sequence);

#endif
