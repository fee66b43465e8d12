/*
 * Holds the vault: memory into which a worker puts its prepared weights, and which outlives it.
 *
 * The frontend never maps it and knows nothing of what is inside. It keeps one descriptor open, so
 * that the memory stays, and gives it to every worker that it starts; all workers of one model
 * share one holder, so their weights are resident once.
 */
#ifndef SHOAL_FRONTEND_SERVE_WEIGHT_HOLDER_H
#define SHOAL_FRONTEND_SERVE_WEIGHT_HOLDER_H

#include <stdint.h>

struct weight_holder;

/* Never fails: where the kernel has no such memory, workers are started without. */
struct weight_holder *weight_holder_create(void);
/* The weights go when the last worker that has them mapped is gone. */
void weight_holder_destroy(struct weight_holder *holder);

/* Close-on-exec; -1: none. It stays the holder's. */
int weight_holder_fd(const struct weight_holder *holder);
/* Counts the vaults: which one a worker was started with. */
uint32_t weight_holder_generation(const struct weight_holder *holder);
/* A worker that was started with this generation cannot use it: later ones get a new, empty one.
 * Said of an earlier generation it does nothing. */
void weight_holder_replace(struct weight_holder *holder, uint32_t generation);

#endif
